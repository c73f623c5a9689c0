"""How long hypothesis searches: `HYPOTHESIS_PROFILE=long` multiplies the examples of the model by MODEL_TIMES (100)."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def model(examples: int) -> Callable[[Any], Any]:
    """Settings of a test over schedules; the long profile multiplies `examples`."""
    times = int(os.environ.get("MODEL_TIMES", "100")) if LONG else 1
    found: Callable[[Any], Any] = settings(
        max_examples=examples * times,
        deadline=None,
        derandomize=not LONG,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        database=None,
    )
    return found

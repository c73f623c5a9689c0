"""Wait for a condition with a deadline; never for luck."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], what: str, within_s: float = 120.0, every_s: float = 0.05) -> None:
    """Return once `condition()` is true; raises AssertionError saying what did not happen.

    `within_s` costs time only where a test fails: it is for the slowest machine that runs them.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:g} s for {what}"
        time.sleep(every_s)

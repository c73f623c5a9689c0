"""The windows of the model, and silence: what both of its tests run under."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from tests.model.world import WINDOW_INSERTS
from warpmeter.consumers import start


@contextmanager
def small_windows() -> Iterator[None]:
    """The store forgets after a few inserts, and the consumer knows."""
    was = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "WINDOW_INSERTS", WINDOW_INSERTS)
        yield
    structlog.configure(**was)

"""Ctrl-C and SIGTERM as an event that loops look at, so that they end where nothing is half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that the first signal sets; a second one ends the process as usual. Main thread only."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(*_: object) -> None:
        stop.set()
        restore()

    for number in SIGNALS:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()

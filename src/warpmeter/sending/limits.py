"""Bounds in time that hold whatever the other side does: a server that gives a byte now and then has no more of it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")
CONNECT_S: Final = 10.0
"""To connect, and for each single read, at the most."""


class Late(Exception):  # noqa: N818 - the name of a state
    """It was not done in time."""


class Watch:
    """Ends a connection at its time: reading and writing on `socket` fail from then on."""

    def __init__(self) -> None:
        self.socket: Any = None
        self.late = False

    def end(self) -> None:
        """Time is over."""
        self.late = True
        with suppress(OSError, AttributeError):
            self.socket.shutdown(socket.SHUT_RDWR)


@contextmanager
def within(seconds: float) -> Iterator[Watch]:
    """What is done on `watch.socket` fails with an error of its own after so long; `watch.late` tells why."""
    watch = Watch()
    timer = threading.Timer(seconds, watch.end)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    finally:
        timer.cancel()


def bounded(seconds: float, do: Callable[[], T]) -> T:
    """What `do` gives or raises; Late where it goes on for longer, on a thread that is left to itself.

    For what knows no limit, as a network file system does: `do` must not mind to be done twice at once.
    """
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(do())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            raised.append(error)

    thread = threading.Thread(target=run, name="sending", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not given:
        raise Late
    return given[0]

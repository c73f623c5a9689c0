"""A spool with numbered messages, for its tests."""

import os
from pathlib import Path

from tests.clock import FakeClock
from warpmeter.producers.spool import Bounds, Spool
from warpmeter.wire import Envelope

DAY_S = 86_400.0
BOOT = b"this boot of it."


def message(number: int, size: int = 20) -> Envelope:
    """A message that tells its number."""
    return Envelope("host-samples", b"host", f"{number}:".encode().ljust(size, b"x"), "HostSample", 1)


def numbers(taken: list[Envelope]) -> list[int]:
    """The numbers of messages."""
    return [int(envelope.value.split(b":")[0]) for envelope in taken]


def open_spool(folder: Path, max_bytes: int = 1 << 20, clock: FakeClock | None = None, boot: bytes = BOOT) -> Spool:
    """A spool for a day."""
    return Spool(folder, Bounds(max_bytes, DAY_S), clock or FakeClock(), boot)


def take_all(spool: Spool, deliver: bool = True) -> list[int]:
    """Take everything there is, and report it as delivered."""
    taken = []
    while (found := spool.take()) is not None:
        taken.append(found[0])
        if deliver:
            spool.done(found[1])
    return numbers(taken)


def kill(spool: Spool) -> None:
    """What the kernel does when the process is killed: the lock is gone, nothing else happens."""
    os.close(spool._lock)

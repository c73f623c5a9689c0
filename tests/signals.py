"""Signals to children that can hear them: one that comes before a handler is there ends the child instead."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.wait import until

SLACK_S: Final = 10.0
"""What a machine that is slow or busy may add to the time that a part promises for its stop.

It is in seconds for want of a better measure: a stop happens once, with nothing beside it in the same run to hold it
against, and CPU time leaves out what is waited for, which is what may go wrong.
"""


def tell(process: subprocess.Popen[Any], number: int = signal.SIGTERM, within_s: float = 60.0) -> None:
    """Send a signal once the child handles SIGTERM, or waits for it blocked, or has ended.

    What a test waited for before may be true before the child has begun: of an agent that was started again, say. Our
    parts take SIGINT no later than SIGTERM, and Python catches SIGINT from its first moment, so SIGTERM alone tells.
    """
    until(lambda: process.poll() is not None or hears(process.pid), "the process to handle signals", within_s)
    process.send_signal(number)


def hears(pid: int, number: int = signal.SIGTERM) -> bool:
    """Whether a thread of the process catches or blocks that signal, as the kernel says; false once it is gone.

    All threads are looked at: the kernel shows none as blocking what it waits for with sigtimedwait(2).
    """
    return any(mask >> (number - 1) & 1 for status in _statuses(pid) for mask in _masks(status))


def _statuses(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                yield (task / "status").read_text()


def _masks(status: str) -> list[int]:
    words = map(str.split, status.splitlines())
    return [int(each[1], 16) for each in words if each[0] in ("SigBlk:", "SigCgt:")]

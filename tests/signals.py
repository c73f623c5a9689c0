"""Signals to children that can hear them: one that comes before a handler is there ends the child instead."""

import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.wait import until

SLACK_S: Final = 5.0
"""What a machine that is slow or busy may add to the time that a part promises for its stop."""


def tell(process: subprocess.Popen[Any], number: int = signal.SIGTERM, within_s: float = 60.0) -> None:
    """Send a signal once the child handles SIGTERM, or waits for it blocked, or has ended.

    What a test waited for before may be true before the child has begun: of an agent that was started again, say. Our
    parts take SIGINT no later than SIGTERM, and Python catches SIGINT from its first moment, so SIGTERM alone tells.
    """
    until(lambda: process.poll() is not None or hears(process.pid), "the process to handle signals", within_s)
    process.send_signal(number)


def hears(pid: int, number: int = signal.SIGTERM) -> bool:
    """Whether a process catches or blocks that signal, as the kernel says; false once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [int(words[1], 16) for line in lines if (words := line.split())[0] in ("SigBlk:", "SigCgt:")]
    return any(mask >> (number - 1) & 1 for mask in masks)

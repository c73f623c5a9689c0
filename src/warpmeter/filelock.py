"""Locks of files: one process has it, for as long as it keeps the file open."""

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Final

AGAIN_S: Final = 0.02


class HeldError(Exception):
    """Another process has the lock; `holder` is the pid that it wrote, `unknown` where it wrote none."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"pid {holder}")
        self.holder = holder


def locked(file: int | IO[str], within_s: float = 0.0) -> bool:
    """Lock a file for this process alone; False when another has it for longer than `within_s`. Raises OSError."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(AGAIN_S)


def hold(path: Path, within_s: float = 0.0) -> int:
    """Lock a file until this process ends, and write its pid into it; returns the descriptor.

    Raises HeldError when another has it for longer than `within_s`, OSError when the file cannot be made or locked.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not locked(descriptor, within_s):
            raise HeldError(os.pread(descriptor, 20, 0).decode().strip() or "unknown")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor

"""A pause of the performance counters, for a profiler that needs them for itself.

Only one may have them on some GPUs and drivers (NVML's GPM and a profiler such as Nsight Compute). While the pause
lasts the columns whose source is `gpm` are absent, everything else is read on, and a health row says so. A pause ends
by itself, so that a profiler which crashed does not blind the fleet.

It is asked for in the agent (`pause`, `resume`) or from outside by a file beside the agent's spool, which holds when it
ends; so it needs no port, and who may ask is who may write there.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from warpmeter.clock import Clock, SystemClock

LONGEST_S: Final = 3600.0
"""A pause is at most an hour; who needs more asks again."""


def file_of(spool: Path) -> Path:
    """The file that asks the agent with this spool."""
    return spool.with_name(f"{spool.name}-counters-paused-until")


def ask(file: Path, seconds: float, now: float) -> None:
    """From another process: leave the counters alone for so long. Raises ValueError as `Pause.pause`, and OSError."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(f"{now + checked(seconds):.3f}\n")
    fresh.replace(file)


def checked(seconds: float) -> float:
    """The same; raises ValueError when it is not more than 0 and at most an hour."""
    if not 0 < seconds <= LONGEST_S:
        raise ValueError(f"a pause lasts more than 0 and at most {LONGEST_S:g} s, not {seconds:g} s")
    return seconds


class Pause:
    """Asked for from any thread, looked at by the GPU source at every read."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, file: Path | None = None, clock: Clock | None = None
    ) -> None:
        """`file`: where another process asks; `clock` tells its time."""
        self._monotonic, self._file, self._clock = monotonic, file, clock or SystemClock()
        self._until = float("-inf")

    def pause(self, seconds: float) -> None:
        """Leave the counters alone for so long from now, in place of a pause that runs. Raises ValueError when that is
        not more than 0 and at most an hour."""
        self._until = self._monotonic() + checked(seconds)

    def resume(self) -> None:
        """Read them again from the next tick on."""
        self._until = float("-inf")
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    @property
    def left_s(self) -> float:
        """Seconds until they are read again; 0 when they are read."""
        return max(0.0, self._until - self._monotonic(), self._asked_s())

    def _asked_s(self) -> float:
        """By the file; what it cannot mean counts as nothing."""
        if self._file is None:
            return 0.0
        try:
            left = float(self._file.read_bytes()) - self._clock.now()
        except (OSError, ValueError):
            return 0.0
        return left if left <= LONGEST_S else 0.0

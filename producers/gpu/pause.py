"""A pause of the performance counters, for a profiler that needs them for itself.

Only one may have them on some GPUs and drivers (NVML's GPM and a profiler such as Nsight Compute). While the pause
lasts the columns whose source is `gpm` are absent, everything else is read on, and a health row says so. A pause ends
by itself, so that a profiler which crashed does not blind the fleet.
"""

import time
from collections.abc import Callable
from typing import Final

LONGEST_S: Final = 3600.0
"""A pause is at most an hour; who needs more asks again."""


class Pause:
    """Asked for from any thread, looked at by the GPU source at every read."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until = float("-inf")

    def pause(self, seconds: float) -> None:
        """Leave the counters alone for so long from now; raises ValueError when that is not more than 0 and at most an
        hour. A pause that runs is replaced."""
        if not 0 < seconds <= LONGEST_S:
            raise ValueError(f"a pause lasts more than 0 and at most {LONGEST_S:g} s, not {seconds:g} s")
        self._until = self._monotonic() + seconds

    def resume(self) -> None:
        """Read them again from the next tick on."""
        self._until = float("-inf")

    @property
    def left_s(self) -> float:
        """Seconds until they are read again; 0 when they are read."""
        return max(0.0, self._until - self._monotonic())

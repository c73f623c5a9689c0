"""Time, injectable: UTC for facts, monotonic for durations."""

import time
from typing import Protocol


class Clock(Protocol):
    """What a part may ask of time."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Seconds that never step; for durations and schedules."""

    def sleep(self, seconds: float) -> None:
        """Wait; never less than asked."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

"""Steps of this host's clock: samples carry the new time at once, and a health row says that it happened."""

from typing import Final

from warpmeter.clock import Clock
from warpmeter.producers.health import OK
from warpmeter.producers.source import Health

STEP_S: Final = 0.5
"""Clocks that are slewed move by less than this between two looks, a second apart; what moves by more was stepped."""
STANDS_S: Final = 300.0
"""A step is a health row for so long."""


class StepWatch:
    """Compares UTC with the monotonic clock, which never steps; asked about once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.monotonic()
        self._steps, self._last, self._until = 0, 0.0, float("-inf")

    def look(self) -> tuple[float, Health]:
        """Seconds by which the clock was stepped since the last look, 0 when it was not; and the clock's health."""
        now = self._clock.monotonic()
        moved = self._clock.now() - now - self._offset
        self._offset += moved
        if abs(moved) < STEP_S:
            moved = 0.0
        else:
            self._steps, self._last, self._until = self._steps + 1, moved, now + STANDS_S
        return moved, self._state() if now < self._until else OK

    def _state(self) -> Health:
        way = "back" if self._last < 0 else "ahead"
        why = f"the clock was stepped {way} by {abs(self._last):.3f} s; samples carry the new time since"
        return Health("", "failed", why, self._steps)

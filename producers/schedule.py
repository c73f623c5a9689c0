"""When a source's next tick is due, and what time its sample carries."""

import math
from dataclasses import dataclass
from typing import Final

from warpmeter.clock import Clock

STEP_SHARE: Final = 0.1
"""Most of a period by which one tick is moved to come back onto UTC's whole multiples."""


@dataclass(frozen=True)
class Tick:
    """One due tick. `ts`: UTC seconds, a whole multiple of the period. `late`: ticks that were skipped before it."""

    ts: float
    late: int


class Schedule:
    """Ticks at the whole multiples of `period_s` in UTC, kept by the monotonic clock.

    The schedule is absolute (`next += period`), so a slow read does not shift what follows. Ticks that were missed by
    more than half a period are counted and skipped, never caught up in a burst. UTC is asked again at every tick:
    after the clock was stepped, ticks carry the new time at once, and their phase returns to whole multiples within
    ten of them.
    """

    def __init__(self, period_s: float, clock: Clock) -> None:
        self.period_s = period_s
        self._clock = clock
        self._late = 0
        self._next = clock.monotonic() + period_s - clock.now() % period_s

    def wait_s(self) -> float:
        """Seconds until the next tick is due, 0 when it is; skips what was missed."""
        monotonic, period = self._clock.monotonic(), self.period_s
        missed = max(0, math.ceil((monotonic - self._next) / period - 0.5))
        self._late += missed
        self._next += missed * period
        return max(0.0, self._next - monotonic)

    def tick(self) -> Tick:
        """Begin the tick that is due, and plan the next."""
        period, planned = self.period_s, self._next
        utc = self._clock.now() - (self._clock.monotonic() - planned)
        whole = round(utc / period) * period
        most = period * STEP_SHARE
        self._next = planned + period - min(most, max(-most, utc - whole))
        late, self._late = self._late, 0
        return Tick(round(whole, 3), late)

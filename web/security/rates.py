"""How often a caller may: a bucket of requests each, which fills again as time goes by."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from warpmeter.clock import Clock, SystemClock

KEPT: Final = 10_000
"""Callers that are remembered; a bucket that was forgotten is full again."""


@dataclass
class Rates:
    """`per_minute` requests a caller: at once, or one by one."""

    per_minute: int
    clock: Clock = field(default_factory=SystemClock)
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_s(self, caller: str) -> float:
        """Take one: 0 when it may go on, else seconds until there is one again."""
        with self._lock:
            now = self.clock.monotonic()
            left, at = self._left.pop(caller, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - at) * self.per_minute / 60)
            granted = left >= 1
            self._left[caller] = (left - granted, now)
            while len(self._left) > KEPT:
                self._left.popitem(last=False)
        return 0.0 if granted else (1 - left) * 60 / self.per_minute

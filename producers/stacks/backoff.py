"""How often a process is sampled: less, then in fewer turns, when it costs too much. Pure.

A sampler that is behind, takes more CPU time than its share, or slows the process down is asked for half as much in the
next turn, down to once a second; then it rests every other turn, every fourth, every eighth. After several good turns
it is asked for twice as much again.
"""

from dataclasses import dataclass, replace
from typing import Final

from warpmeter.producers.stacks.rotation import Key

CPU_SHARE: Final = 0.01
"""Of a core, over the whole interval: what sampling one process may take."""
CPU_LEAST_S: Final = 0.3
"""And so much of each turn, however short its interval: most of it goes into reading the interpreter's symbols."""
SLOWED_PERMILLE: Final = 100
"""Steps a second that a process may lose while it is sampled, by its own count, before that counts as slowed."""
GOOD_TURNS: Final = 5
RESTS_MAX: Final = 8


@dataclass(frozen=True)
class Cost:
    """What a turn took: CPU seconds of the sampler, whether it was behind, steps a second that the process lost."""

    cpu_s: float = 0.0
    behind: bool = False
    slowed_permille: int | None = None

    def too_much(self, interval_s: float) -> str:
        """Why it is, '' where it is not."""
        if self.behind:
            return "its sampler was behind"
        if self.cpu_s > max(CPU_LEAST_S, CPU_SHARE * interval_s):
            return f"its sampler took {self.cpu_s:.1f} s of CPU time, over {CPU_SHARE:.0%} of a core"
        if self.slowed_permille is not None and self.slowed_permille > SLOWED_PERMILLE:
            return f"it lost {self.slowed_permille / 10:.0f} % of its steps while it was sampled"
        return ""


@dataclass
class _Pace:
    rate: int
    every: int = 1
    good: int = 0
    waited: int = 0
    why: str = ""


class Backoff:
    """The pace of every process that is sampled less than the settings ask for. From a rate of 1 on it only rests."""

    def __init__(self, rate_hz: int, interval_s: float) -> None:
        self._rate, self._interval_s = rate_hz, interval_s
        self._paces: dict[Key, _Pace] = {}

    def rate(self, key: Key) -> int:
        """Samples a second for its next turn."""
        pace = self._paces.get(key)
        return self._rate if pace is None else pace.rate

    def every(self, key: Key) -> int:
        """Of so many turns it gets one."""
        pace = self._paces.get(key)
        return 1 if pace is None else pace.every

    def rests(self, key: Key) -> bool:
        """Whether it sits out the turn that begins; to be asked once a turn."""
        pace = self._paces.get(key)
        if pace is None or pace.every == 1:
            return False
        pace.waited = (pace.waited + 1) % pace.every
        return pace.waited != 0

    def took(self, key: Key, cost: Cost) -> None:
        """What its last turn cost."""
        pace = self._paces.get(key)
        why = cost.too_much(self._interval_s * self.every(key))
        if why:
            self._less(key, why)
        elif pace is not None and not self._would_cost_too_much(pace, cost):
            self._more(key, pace)

    def keep(self, keys: set[Key]) -> None:
        """Forget all but these."""
        self._paces = {key: pace for key, pace in self._paces.items() if key in keys}

    def told(self) -> list[tuple[int, str]]:
        """Pid, and what is to be said of it, of each that is held back."""
        return [(pid, _said(pace)) for (pid, _), pace in sorted(self._paces.items())]

    def _would_cost_too_much(self, pace: _Pace, cost: Cost) -> bool:
        """Were it sampled twice as much: it stays as it is then, and does not go up and down."""
        if pace.every > 1:
            return bool(cost.too_much(self._interval_s * pace.every / 2))
        return bool(replace(cost, cpu_s=2 * cost.cpu_s).too_much(self._interval_s))

    def _less(self, key: Key, why: str) -> None:
        pace = self._paces.setdefault(key, _Pace(self._rate))
        pace.good, pace.why = 0, why
        if pace.rate > 1:
            pace.rate = max(1, pace.rate // 2)
        else:
            pace.every = min(RESTS_MAX, pace.every * 2)

    def _more(self, key: Key, pace: _Pace) -> None:
        pace.good += 1
        if pace.good < GOOD_TURNS:
            return
        pace.good = 0
        if pace.every > 1:
            pace.every //= 2
        elif pace.rate * 2 < self._rate:
            pace.rate *= 2
        else:
            del self._paces[key]


def _said(pace: _Pace) -> str:
    turns = "" if pace.every == 1 else f" in one turn of {pace.every}"
    return f"{pace.rate} samples a second{turns}, for {pace.why}"

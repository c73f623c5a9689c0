"""How far a host's clock is off, by the times of a question, its answer, and its arrival. Pure."""

from dataclasses import dataclass
from typing import Final

TOLERATED_MS: Final = 50
"""Beyond it, ranks do not start together by more than the scheduler can promise."""


@dataclass(frozen=True)
class Skew:
    """A clock is ahead of ours by `least` to `most` seconds: it stamped its answer between question and arrival.

    (Cristian, Probabilistic clock synchronization, 1989.)
    """

    least: float
    most: float

    @property
    def milliseconds(self) -> int:
        """The middle of it."""
        return round(500 * (self.least + self.most))

    @property
    def beyond(self) -> bool:
        """Whether it is off by more than is tolerated, however long the ways took."""
        return max(self.least, -self.most) * 1000 > TOLERATED_MS

    def within(self, other: "Skew | None") -> "Skew":
        """What two answers say together; where they contradict each other (the clock was set), the later one."""
        if other is None or max(self.least, other.least) > min(self.most, other.most):
            return self
        return Skew(max(self.least, other.least), min(self.most, other.most))


def measured(asked_at: float, said_at: float, heard_at: float) -> Skew:
    """From one answer; `said_at` is by the other clock."""
    return Skew(said_at - max(heard_at, asked_at), said_at - asked_at)

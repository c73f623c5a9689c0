"""What is known of one host in one round of a capture."""

from dataclasses import dataclass, field

from warpmeter.captures.ranks import Event, Rank
from warpmeter.scheduler.clocks import Skew


@dataclass
class Host:
    """One host. `looked_at`: it was asked; `given_up`: nothing is waited for there.

    `nothing`: what its agent says in place of processes; `lost`: what it says of all that were told to start.
    """

    ranks: dict[int, Rank] = field(default_factory=dict)
    looked_at: float | None = None
    answered_at: float | None = None
    given_up: bool = False
    nothing: Event | None = None
    lost: Event | None = None
    skew: Skew | None = None
    skew_told: bool = False

    @property
    def open(self) -> bool:
        """Something is waited for: a word on each that was told to start, else on whether there is any."""
        decided = [rank for rank in self.ranks.values() if rank.told or rank.final]
        if decided:
            return any(not rank.final for rank in decided)
        return self.looked_at is not None and not self.given_up

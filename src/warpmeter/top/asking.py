"""One refresh: what is asked of the source for what is looked at, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warpmeter.top.lists import FACTS, MOST, Listing, Place
from warpmeter.top.source import Source, SourceError
from warpmeter.top.view import Table, table

HISTORY_S: Final = 3600
"""How far the small lines of the head go back, a value a minute."""
HISTORY_EACH_S: Final = 30
ABSENT_EACH_S: Final = 300
"""How often it is looked whether a store has got what it did not have."""
HISTORIES: Final = ("gpu_util", "sm_active", "power_watts")


@dataclass(frozen=True)
class Start:
    """How it begins: seconds between refreshes, the list, its order and its filter."""

    interval_s: float = 2.0
    tab: str = "hosts"
    sort: str = ""
    descending: bool = False
    text: str = ""


@dataclass(frozen=True)
class Wish:
    """What is looked at: a list of a place, and what the source must sort and look for itself."""

    place: Place
    listing: Listing
    question: tuple[tuple[str, str], ...] = ()

    @property
    def searched(self) -> bool:
        """Whether the source is asked for some of its rows only."""
        return any(name == "search" for name, _ in self.question)


@dataclass(frozen=True)
class Refresh:
    """What came of a wish. `why`: why it was not answered, '' when it was; what else is there is then of no use.

    `fleet` is the row of live_fleet, `alerts` that of live_alerts (None where the store has no alerts), `facts` the row
    of the place that is looked at, `history` values a minute of the fleet, `took_s` what asking took.
    """

    wish: Wish
    table: Table
    fleet: Mapping[str, Any] = field(default_factory=dict)
    alerts: Mapping[str, int] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, list[float | None]] = field(default_factory=dict)
    took_s: float = 0.0
    why: str = ""


def listed(source: Source, wish: Wish) -> Table:
    """The rows of a wish. Raises SourceError."""
    bounds = {"limit": str(MOST)} if wish.listing.ordered else {}
    return table(
        wish.listing,
        source.ask(
            wish.listing.query, {**wish.place.given, **dict(wish.listing.asked), **bounds, **dict(wish.question)}
        ),
    )


def facts(source: Source, place: Place) -> dict[str, Any]:
    """What a place is, as a row of the list that it stands in; empty for the fleet and for what is gone."""
    if not place.kind:
        return {}
    return source.ask(FACTS[place.kind].query, {**place.given, "limit": "1"}).first()


@dataclass
class Head:
    """What is said of the whole fleet; what changes slowly is asked for now and then only."""

    fleet: Mapping[str, Any] = field(default_factory=dict)
    alerts: Mapping[str, int] | None = None
    history: Mapping[str, list[float | None]] = field(default_factory=dict)
    _next: dict[str, float] = field(default_factory=dict)

    def renew(self, source: Source, now: float) -> None:
        """Ask for what is due at `now`, in seconds of a clock that only goes forward. Raises SourceError."""
        self.fleet = source.ask("live_fleet", {}).first()
        if now >= self._next.get("history", now):
            found = source.ask("fleet_series", {"since": f"-{HISTORY_S}s", "step_s": "60"})
            self.history = {name: found.column(name) for name in HISTORIES}
            self._next["history"] = now + HISTORY_EACH_S
        if now >= self._next.get("alerts", now):
            self.alerts = self._firing(source, now)

    def _firing(self, source: Source, now: float) -> Mapping[str, int] | None:
        try:
            return source.ask("live_alerts", {}).first()
        except SourceError as error:
            if not error.absent:
                raise
            self._next["alerts"] = now + ABSENT_EACH_S
            return None


def refreshed(source: Source, wish: Wish, head: Head, now: float) -> Refresh:
    """All of a refresh; `took_s` is left to who has the clock. Raises SourceError."""
    rows = listed(source, wish)
    head.renew(source, now)
    return Refresh(wish, rows, head.fleet, head.alerts, facts(source, wish.place), head.history)

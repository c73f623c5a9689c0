"""Rows in the tables held against the book and the rollups, day by day (UTC): pure, but for the questions.

An insert lands in its table, then in the book and the rollups. So while rows are landing a table lies between what the
book said before it was counted and what it says after; where nothing lands the three are equal, or something is wrong.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from warpmeter.consumers.replay.hours import HOUR_S, Range
from warpmeter.store import Client

BOOK: Final = "ingest_batches"


@dataclass(frozen=True)
class Landed:
    """What the book says of inserts whose rows lie in days `first` to `last`; `again`: they were stored anew."""

    first: date
    last: date
    rows: int
    again: bool = False


@dataclass(frozen=True)
class Figure:
    """What is added up over a day: its name, and by what the sum is divided to be in that unit."""

    name: str
    scale: int = 1

    def said(self, value: float) -> str:
        """`1,234 rows`."""
        scaled = value / self.scale
        return f"{scaled:,.0f} {self.name}" if scaled == int(scaled) else f"{scaled:,.1f} {self.name}"


ROWS: Final = Figure("rows")
"""Every row counts: the one figure that the book has as well."""


@dataclass(frozen=True)
class Rollup:
    """A rollup held against its raw table: `rolled` over its windows is `raw` over the rows.

    `raw` empty: it counts the rows in which any of its metrics is known. `version` is the migration that made it, where
    there were rows before that. `figure` is what is compared.
    """

    name: str
    source: str
    rolled: str = "sum(samples)"
    raw: str = "count()"
    version: int = 0
    figure: Figure = ROWS


def _both(
    name: str, source: str, rolled: str = "sum(samples)", raw: str = "count()", figure: Figure = ROWS
) -> list[Rollup]:
    """The rollups of minutes and of hours."""
    return [Rollup(f"{name}_{step}", source, rolled, raw, figure=figure) for step in ("1m", "1h")]


_TIME: Final = ("sum(covered_ms)", "sum(period_ms)", Figure("s covered", 1000))
ROLLUPS: Final = (
    *_both("gpu_heatmap", "gpu_samples"),
    *_both("gpu_heatmap", "gpu_samples", *_TIME),
    *_both("fleet_windows", "gpu_samples"),
    *_both("fleet_windows", "gpu_samples", *_TIME),
    *_both("host_windows", "host_samples"),
    *_both("host_windows", "host_samples", *_TIME),
    Rollup("device_windows_1h", "device_samples", "sum(samples)", "", 4, Figure("rows with a value")),
    Rollup("stack_windows_1h", "stack_samples", "sum(samples)", "sum(samples)", figure=Figure("samples of stacks")),
    Rollup("stack_windows_1h", "stack_samples", "sum(weight)", "sum(weight)", figure=Figure("weight of stacks")),
    *_both(
        "job_windows",
        "gpu_samples",
        "sum(gpu_seconds)",
        "sum(if(empty(job_ids), 0, period_ms)) / 1000",
        Figure("GPU seconds of jobs"),
    ),
)
ROUNDING: Final = 1e-6
"""Sums of floats differ by the order of their parts: so much of their size is no difference."""


@dataclass(frozen=True)
class Day:
    """One day of one table: its own figure, and between which two the other's must lie around it.

    `first` is set where it is all days from there to `day` together.
    """

    day: date
    found: float
    least: float
    most: float
    first: date | None = None

    @property
    def fits(self) -> bool:
        """Whether it adds up."""
        slack = ROUNDING * abs(self.most) if isinstance(self.most, float) else 0
        return self.least - slack <= self.found <= self.most + slack


@dataclass(frozen=True)
class Compared:
    """One table with the book (`against` is BOOK) or with a rollup, by days; `again` of them were left out."""

    table: str
    against: str
    days: tuple[Day, ...] = field(default_factory=tuple)
    again: int = 0
    figure: Figure = ROWS

    @property
    def wrong(self) -> list[Day]:
        """The days that do not add up."""
        return [day for day in self.days if not day.fits]


def booked(
    table: str,
    rows: Mapping[date, int],
    book: tuple[Sequence[Landed], Sequence[Landed]],
    since: date,
    without: Collection[date] = (),
) -> Compared:
    """The rows of a table against the book before and after they were counted, from `since` on, `without` some days.

    A span over midnight counts for either day. Days in which rows were deleted and stored again are left out.
    """
    before, after = book
    days = sorted({*rows, *(day for each in after for day in (each.first, each.last))} - _again(after))
    kept = [day for day in days if day >= since and day not in without]
    found = [Day(day, rows.get(day, 0), _least(before, day, day), _most(after, day, day)) for day in kept]
    if (
        found and not without and not _again(after) and all(day.fits for day in found)
    ):  # what the midnights leave open, all in all
        first, last = kept[0], kept[-1]
        whole = Day(
            last, sum(day.found for day in found), _least(before, first, last), _most(after, first, last), first
        )
        found = found if whole.fits else [*found, whole]
    return Compared(table, BOOK, tuple(found), len(_again(after)))


def differing(found: Mapping[int, float], before: Mapping[int, float], after: Mapping[int, float]) -> list[Range]:
    """Hours (by their start) in which a table does not lie between two looks at its rollup, those that touch as one."""
    runs: list[Range] = []
    for at in sorted({*found, *after}):
        if Day(date.min, found.get(at, 0), before.get(at, 0), after.get(at, 0)).fits:
            continue
        if runs and runs[-1].end == at:
            runs[-1] = Range(runs[-1].start, at + HOUR_S)
        else:
            runs.append(Range(at, at + HOUR_S))
    return runs


def _again(landed: Iterable[Landed]) -> set[date]:
    return {
        date.fromordinal(day)
        for each in landed
        if each.again
        for day in range(each.first.toordinal(), each.last.toordinal() + 1)
    }


def _least(landed: Iterable[Landed], first: date, last: date) -> int:
    return sum(each.rows for each in landed if first <= each.first and each.last <= last)


def _most(landed: Iterable[Landed], first: date, last: date) -> int:
    return sum(each.rows for each in landed if each.first <= last and first <= each.last)


def rolled_up(
    rollup: Rollup,
    raw: Mapping[date, float],
    before: Mapping[date, float],
    after: Mapping[date, float],
    since: date = date.min,
    without: Collection[date] = (),
) -> Compared:
    """A table's figure against that of one of its rollups, from `since` on, `without` some days."""
    days = sorted(day for day in {*raw, *after} if day >= since and day not in without)
    found = (Day(day, raw.get(day, 0), before.get(day, 0), after.get(day, 0)) for day in days)
    return Compared(rollup.source, rollup.name, tuple(found), figure=rollup.figure)


class Counts:
    """The questions. Every method raises ClickHouseError."""

    def __init__(self, client: Client, since: date) -> None:
        self._client = client
        self.since = since

    def landed(self) -> dict[str, list[Landed]]:
        """The book by table."""
        found: dict[str, list[Landed]] = {}
        for table, *row in self._client.query(_BOOK, parameters={"since": self.since.isoformat()}).result_rows:
            found.setdefault(table, []).append(Landed(*row))
        return found

    def rows(self, table: str, what: str = "count()") -> dict[date, float]:
        """A figure of a raw table by day."""
        return self._by_day(f"SELECT toDate(ts), {what} FROM {table} WHERE ts >= {{since:Date}} GROUP BY 1")

    def counted(self, rollup: Rollup) -> dict[date, float]:
        """What a rollup should have by day: its figure of the raw table."""
        return self.rows(rollup.source, rollup.raw or self._known(rollup))

    def _known(self, rollup: Rollup) -> str:
        rows = self._client.query(_METRICS, parameters={"table": rollup.name}).result_rows
        names = ", ".join(str(name).removesuffix("_count") for (name,) in rows)
        return f"countIf(isNotNull(coalesce({names})))"

    def whole_since(self, rollup: Rollup) -> date:
        """From which day on a rollup has all rows: the day after it was made, if rows had landed before that."""
        given = {"version": rollup.version, "table": rollup.source}
        rows = self._client.query(_MADE, parameters=given).result_rows if rollup.version else ()
        return rows[0][0] + timedelta(days=1) if rows else self.since

    def windows(self, rollup: Rollup) -> dict[date, float]:
        """The same figure of a rollup by day."""
        return self._by_day(
            f"SELECT toDate(window), {rollup.rolled} FROM {rollup.name} WHERE window >= {{since:Date}} GROUP BY 1"
        )

    def hours(self, rollup: Rollup, day: date) -> list[Range]:
        """The hours of a day in which a table and its rollup differ, those that touch as one."""
        start = int(datetime.combine(day, time(), UTC).timestamp())
        of_day = Range(start, start + 24 * HOUR_S)
        raw = (
            f"SELECT toUnixTimestamp(toStartOfHour(ts)), {rollup.raw or self._known(rollup)} FROM {rollup.source} "
            f"WHERE {of_day.of_rows} GROUP BY 1"
        )
        rolled = (
            f"SELECT toUnixTimestamp(toStartOfHour(window)), {rollup.rolled} FROM {rollup.name} "
            f"WHERE {of_day.of_windows} GROUP BY 1"
        )
        before, found, after = (self._by_hour(sql) for sql in (rolled, raw, rolled))
        return differing(found, before, after)

    def _by_hour(self, sql: str) -> dict[int, float]:
        return {int(hour): value for hour, value in self._client.query(sql).result_rows}

    def _by_day(self, sql: str) -> dict[date, float]:
        rows = self._client.query(sql, parameters={"since": self.since.isoformat()}).result_rows
        return {day: value for day, value in rows if value}


_METRICS: Final = (
    "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String} "
    "AND endsWith(name, '_count')"
)
_MADE: Final = """
SELECT toDate(max(applied_at)) FROM schema_migrations WHERE version = {version:UInt32}
HAVING max(applied_at) > (SELECT minOrNull(inserted_at) FROM ingest_batches WHERE table = {table:String})
"""
_BOOK: Final = """
SELECT table, toDate(min_ts) AS from_day, toDate(max_ts) AS to_day, sum(rows), startsWith(token, 'replay/') AS again
FROM ingest_batches WHERE max_ts >= {since:Date}
GROUP BY table, from_day, to_day, again ORDER BY table, from_day, to_day
"""

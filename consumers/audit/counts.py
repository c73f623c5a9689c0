"""Rows in the tables held against the book and the rollups, day by day (UTC): pure, but for the questions.

An insert lands in its table, then in the book and the rollups. So while rows are landing a table lies between what the
book said before it was counted and what it says after; where nothing lands the three are equal, or something is wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from warpmeter.consumers.audit.spans import Finding
from warpmeter.store import Client


@dataclass(frozen=True)
class Landed:
    """What the book says of inserts whose rows lie in days `first` to `last`; `again`: they were stored anew."""

    first: date
    last: date
    rows: int
    again: bool = False


@dataclass(frozen=True)
class Rollup:
    """A rollup held against its raw table: `rolled` over its windows is `raw` over the rows.

    `raw` empty: it counts the rows in which any of its metrics is known. `version` is the migration that made it, where
    there were rows before that.
    """

    name: str
    source: str
    rolled: str = "sum(samples)"
    raw: str = "count()"
    version: int = 0


def _both(name: str, source: str, rolled: str = "sum(samples)", raw: str = "count()") -> list[Rollup]:
    """The rollups of minutes and of hours."""
    return [Rollup(f"{name}_{step}", source, rolled, raw) for step in ("1m", "1h")]


_TIME: Final = ("sum(covered_ms)", "sum(period_ms)")
ROLLUPS: Final = (
    *_both("gpu_heatmap", "gpu_samples"),
    *_both("gpu_heatmap", "gpu_samples", *_TIME),
    *_both("fleet_windows", "gpu_samples"),
    *_both("fleet_windows", "gpu_samples", *_TIME),
    *_both("host_windows", "host_samples"),
    *_both("host_windows", "host_samples", *_TIME),
    Rollup("device_windows_1h", "device_samples", "sum(samples)", "", version=4),
    *_both("job_windows", "gpu_samples", "sum(gpu_seconds)", "sum(if(empty(job_ids), 0, period_ms)) / 1000"),
)
ROUNDING: Final = 1e-6
"""Sums of floats differ by the order of their parts: so much of their size is no difference."""


@dataclass(frozen=True)
class Day:
    """One day of one table: its own figure, and between which two the other's must lie around it."""

    day: date
    found: float
    least: float
    most: float

    @property
    def fits(self) -> bool:
        """Whether it adds up."""
        slack = ROUNDING * abs(self.most) if isinstance(self.most, float) else 0
        return self.least - slack <= self.found <= self.most + slack


@dataclass(frozen=True)
class Compared:
    """One table with the book (`against` is `ingest_batches`) or with a rollup, by days."""

    table: str
    against: str
    days: tuple[Day, ...] = field(default_factory=tuple)
    again: int = 0

    @property
    def wrong(self) -> list[Day]:
        """The days that do not add up."""
        return [day for day in self.days if not day.fits]


def booked(
    table: str, rows: Mapping[date, int], before: Sequence[Landed], after: Sequence[Landed], since: date
) -> Compared:
    """The rows of a table against the book, from `since` on. A span over midnight counts for either day.

    Days in which rows were deleted and stored again are left out.
    """
    days = sorted({*rows, *(day for each in after for day in (each.first, each.last))} - _again(after))
    kept = [day for day in days if day >= since]
    found = [Day(day, rows.get(day, 0), _least(before, day, day), _most(after, day, day)) for day in kept]
    if found and not _again(after) and all(day.fits for day in found):  # what the midnights leave open, all in all
        first, last = kept[0], kept[-1]
        whole = Day(last, sum(day.found for day in found), _least(before, first, last), _most(after, first, last))
        found = found if whole.fits else [*found, whole]
    return Compared(table, "ingest_batches", tuple(found), len(_again(after)))


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
) -> Compared:
    """The rows of a table against one of its rollups, from `since` on."""
    days = sorted(day for day in {*raw, *after} if day >= since)
    found = (Day(day, raw.get(day, 0), before.get(day, 0), after.get(day, 0)) for day in days)
    return Compared(rollup.source, rollup.name, tuple(found))


def findings(compared: Iterable[Compared]) -> list[Finding]:
    """What does not add up, in words."""
    return [_finding(each, day) for each in compared for day in each.wrong]


def _finding(compared: Compared, day: Day) -> Finding:
    span = f"{day.least:,}" if day.least == day.most else f"{day.least:,} to {day.most:,}"
    seen = f"{compared.table} has {day.found:,}, {compared.against} says {span}"
    if compared.against == "ingest_batches":
        more = day.found > day.most
        remedy = "rows were stored twice, or by hand" if more else "rows were deleted, or a part of the table is lost"
        return Finding("rows", f"{compared.table} {day.day}", seen, f"{remedy}: `warpmeter replay` stores them anew")
    remedy = f"`warpmeter replay` of that time stores table and rollups anew; {compared.table} is right until then"
    return Finding("rollup", f"{compared.against} {day.day}", seen, remedy)


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

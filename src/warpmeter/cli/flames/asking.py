"""Whose stacks, when, against what: as a command says it, and what the store has of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from warpmeter import queries
from warpmeter.cli import common
from warpmeter.cli.flames import missing
from warpmeter.settings import Settings
from warpmeter.stacks import Unit
from warpmeter.stacks.span import Span, span
from warpmeter.store import Client

By = Literal["host", "process", "rank", "thread"]
Row = Mapping[str, Any]
HOUR: Final = timedelta(hours=1)
LATEST: Final = 4_102_444_800.0
SHORTEST: Final = timedelta(minutes=1)


class FlameError(Exception):
    """There is nothing to show, or it cannot be shown so; the message says why and what to do."""

    def __init__(self, why: str, exit_status: int = 1) -> None:
        super().__init__(why)
        self.exit_status = exit_status


@dataclass(frozen=True)
class Whose:
    """Whose stacks; what is left empty is not asked for."""

    job: str = ""
    host: str = ""
    rank: int | None = None
    process: str = ""
    pid: int | None = None
    source: str = ""
    unit: Unit = "microseconds"

    def __str__(self) -> str:
        told = (f"{name} {value}" for name, value in vars(self).items() if name in _TOLD and value not in ("", None))
        return ", ".join(told) or "the fleet"


_TOLD: Final = ("job", "host", "rank", "process", "pid")


@dataclass(frozen=True)
class Base:
    """What to compare with: another window, of another job or host where one is named."""

    since: str | None = None
    until: str | None = None
    job: str = ""
    host: str = ""

    def __bool__(self) -> bool:
        return bool(self.since or self.until or self.job or self.host)


@dataclass(frozen=True)
class Wanted:
    """What a command asks for; times as people say them."""

    whose: Whose
    since: str | None = None
    until: str | None = None
    base: Base = Base()
    by: By | None = None
    lines: bool = True
    top: int = 30


@dataclass(frozen=True)
class Found:
    """A graph: rows as the named query has them, of whom and when; `given` is what named queries were asked with."""

    wanted: Wanted
    whose: Whose
    at: Span
    base: Span | None
    given: Mapping[str, str]
    rows: Sequence[Row] = ()

    @property
    def total(self) -> int:
        """Of all that was seen, in the unit."""
        return int(self.rows[0]["value"]) if self.rows else 0

    @property
    def first(self) -> int:
        """The level of the first functions: above may be parts."""
        return 1 if self.wanted.by is None else 2

    def about(self) -> str:
        """In a line: whose, when, what took them."""
        told = f"{self.whose}; {_window(self.at)}"
        if self.whose.source:
            told += f"; {self.whose.source}"
        if self.base is None:
            return told
        told += f"; against {_window(self.base)}"
        return f"{told} ({self.lacking})" if self.lacking else told

    @property
    def base_total(self) -> int:
        """Of all that was seen before, in the unit."""
        return int(self.rows[0].get("base", 0)) if self.rows else 0

    @property
    def lacking(self) -> str:
        """What a difference has nothing of, in words; '' where it has both sides."""
        if self.base is None or not self.rows or (self.total and self.base_total):
            return ""
        return "nothing was sampled to compare with" if self.total else "nothing was sampled but what is compared with"


def _window(at: Span) -> str:
    return f"{common.said(at.since)} to {common.said(at.until)}{', whole hours' if at.hours else ''}"


class Asking:
    """Asks the store; raises FlameError, and ClickHouseError as the store says it."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._kept_from = self._now - timedelta(days=settings.store.raw_ttl_days)

    def graph(self, wanted: Wanted, least: float) -> Found:
        """The nested rows; `least` as the named query has it."""
        found = self._given(wanted)
        shape = {"lines": str(int(wanted.lines)), "least": str(least), "by": wanted.by or ""}
        rows = self._rows("stack_flame" if found.base is None else "stack_diff", **found.given, **shape)
        if not rows or not (rows[0]["value"] or rows[0].get("base")):
            raise FlameError(self._nothing(found))
        return replace(found, rows=rows)

    def top(self, found: Found, most: int) -> list[Row]:
        """Functions as the store adds them up, of no difference."""
        return self._rows("stack_top", **found.given, lines=str(int(found.wanted.lines)), top=str(most))

    def _given(self, wanted: Wanted) -> Found:
        since, until = self._window(wanted)
        exact = wanted.whose.pid is not None or wanted.by == "thread"
        at = span(since, until, self._kept_from, exact=exact)
        whose = self._chosen(wanted.whose, at)
        given = {
            "since": at.since.isoformat(), "until": at.until.isoformat(), "windows": at.windows, "host": whose.host,
            "job_id": whose.job, "rank": "-1" if whose.rank is None else str(whose.rank), "process": whose.process,
            "pid": str(whose.pid or 0), "source": whose.source, "unit": whose.unit,
        }  # fmt: skip
        if not wanted.base:
            return Found(wanted, whose, at, None, given)
        base = span(*self._base(wanted.base, since, until), self._kept_from, exact=exact)
        named = bool(wanted.base.job or wanted.base.host)
        given |= {
            "base_since": base.since.isoformat(), "base_until": base.until.isoformat(), "base_windows": base.windows,
            "base_job_id": wanted.base.job if named else whose.job,
            "base_host": wanted.base.host if named else whose.host,
        }  # fmt: skip
        if not whose.source:
            before = replace(whose, job=given["base_job_id"], host=given["base_host"])
            whose = replace(whose, source=self._chosen(before, base).source)
        return Found(wanted, whose, at, base, {**given, "source": whose.source})

    def _window(self, wanted: Wanted) -> tuple[datetime, datetime]:
        if wanted.whose.job and not wanted.since and not wanted.until:
            return self._run(wanted.whose.job)
        until = _moment(wanted.until) if wanted.until else self._now
        since = _moment(wanted.since) if wanted.since else until - HOUR
        return _ordered(since, until, "--since", "--until")

    def _base(self, base: Base, since: datetime, until: datetime) -> tuple[datetime, datetime]:
        if base.job and not base.since and not base.until:
            return self._run(base.job)
        length = until - since
        last = _moment(base.until) if base.until else None
        first = _moment(base.since) if base.since else (last or since) - length
        return _ordered(first, last or first + length, "--base-since", "--base-until")

    def _run(self, job: str) -> tuple[datetime, datetime]:
        """When a job ran."""
        rows = self._rows("job_listed", job_id=job)
        if not rows:
            return self._now - HOUR, self._now  # stacks that were imported may be of a job that no agent saw
        since, until = (_utc(rows[0][name]) for name in ("started_at", "last_seen_at"))
        return since.replace(microsecond=0), max(until, since + SHORTEST).replace(microsecond=0) + timedelta(seconds=1)

    def _chosen(self, whose: Whose, at: Span) -> Whose:
        """With a source: two that sampled the same would count a moment twice, so the one with the most is taken."""
        if whose.source:
            return whose
        given = {**at.asked(), "host": whose.host, "job_id": whose.job}
        sources = [str(row["source"]) for row in self._rows("stack_seen", **given) if row["unit"] == whose.unit]
        if len(sources) > 1:
            common.err.print(f"by {sources[0]}; --source {' or '.join(sources[1:])} has others", highlight=False)
        return replace(whose, source=sources[0] if sources else "")

    def _nothing(self, found: Found) -> str:
        whose = found.whose
        of = {name: value for name in ("rank", "process", "pid") if (value := getattr(whose, name)) not in ("", None)}
        sought = missing.Sought(whose.job, whose.host, whose.source, whose.unit, of, found.at)
        by = f" by {whose.source}" if found.wanted.whose.source else ""
        return f"no stacks of {whose} were sampled{by} ({_window(found.at)}). {missing.because(self._rows, sought)}"

    def _rows(self, name: str, **given: str) -> list[Row]:
        asked = queries.get(name).statement(given)
        return list(self._client.query(asked.sql, dict(asked.values)).named_results())


def _moment(text: str) -> datetime:
    try:
        at = common.moment(text)
    except (OverflowError, ValueError):
        at = -1.0
    if not 0 <= at < LATEST:
        raise FlameError(f"{text} is not between 1970-01-01 and 2100-01-01", 2)
    return datetime.fromtimestamp(at, UTC).replace(microsecond=0)


def _ordered(since: datetime, until: datetime, first: str, last: str) -> tuple[datetime, datetime]:
    if until <= since:
        raise FlameError(f"{last} ({common.said(until)}) is not after {first} ({common.said(since)})", 2)
    return since, until


def _utc(at: datetime) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)

"""`warpmeter flame`: where the time went, out of the store, as a table or a file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from warpmeter import queries, store
from warpmeter.cli import common
from warpmeter.cli.complete import FLAMES
from warpmeter.settings import Settings
from warpmeter.stacks import Unit, Weighed, folded, frame, speedscope
from warpmeter.stacks.profile import Part, Profile, Who
from warpmeter.stacks.span import Span, span

By = Literal["host", "process", "rank", "thread"]
Row = Mapping[str, Any]
HOUR: Final = timedelta(hours=1)
SHORTEST: Final = timedelta(minutes=1)
FUNCTIONS: Final = 1000
LEAST: Final = 0.0005
"""What a page leaves out: less than this share of all. Files for other programs have everything."""
SCALES: Final[Mapping[Unit, Sequence[tuple[float, str]]]] = {
    "microseconds": ((3600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms"), (1, "µs")),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "count": ((1, ""),),
}


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
    """Functions or a graph: rows as the named query has them, and of when."""

    wanted: Wanted
    whose: Whose
    at: Span
    base: Span | None
    rows: Sequence[Row]

    @property
    def total(self) -> int:
        """Of all that was seen, in the unit."""
        return int(self.rows[0]["value"]) if self.rows else 0

    def about(self) -> str:
        """In a line: whose, when, what took them."""
        told = f"{self.whose}; {_window(self.at)}"
        if self.whose.source:
            told += f"; {self.whose.source}"
        return told if self.base is None else f"{told}; against {_window(self.base)}"


def _window(at: Span) -> str:
    return f"{common.said(at.since)} to {common.said(at.until)}{', whole hours' if at.hours else ''}"


class Asking:
    """Asks the store; raises FlameError, and ClickHouseError as the store says it."""

    def __init__(self, client: store.Client, settings: Settings) -> None:
        self._client = client
        self._now = datetime.now(UTC).replace(microsecond=0)
        self._kept_from = self._now - timedelta(days=settings.store.raw_ttl_days)

    def graph(self, wanted: Wanted, least: float) -> Found:
        """The nested rows; `least` as the named query has it."""
        given, found = self._given(wanted)
        shape = {"lines": str(int(wanted.lines)), "least": str(least)}
        if found.base is not None:
            rows = self._rows("stack_diff", **given, **shape)
        else:
            rows = self._rows("stack_flame", **given, **shape, by=wanted.by or "")
        if not rows or not (rows[0]["value"] or rows[0].get("base")):
            raise FlameError(_nothing(found))
        return Found(wanted, found.whose, found.at, found.base, rows)

    def top(self, found: Found, most: int) -> list[Row]:
        """Functions as the store adds them up, of no difference."""
        given, _ = self._given(found.wanted)
        return self._rows("stack_top", **given, lines=str(int(found.wanted.lines)), top=str(most))

    def _given(self, wanted: Wanted) -> tuple[dict[str, str], Found]:
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
            return given, Found(wanted, whose, at, None, ())
        base = span(*self._base(wanted.base, since, until), self._kept_from, exact=exact)
        named = bool(wanted.base.job or wanted.base.host)
        given |= {
            "base_since": base.since.isoformat(), "base_until": base.until.isoformat(), "base_windows": base.windows,
            "base_job_id": wanted.base.job if named else whose.job,
            "base_host": wanted.base.host if named else whose.host,
        }  # fmt: skip
        return given, Found(wanted, whose, at, base, ())

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
        given = {"since": at.since.isoformat(), "until": at.until.isoformat(), "host": whose.host, "job_id": whose.job}
        sources = [str(row["source"]) for row in self._rows("stack_seen", **given) if row["unit"] == whose.unit]
        if len(sources) > 1:
            common.err.print(f"by {sources[0]}; --source {' or '.join(sources[1:])} has others", highlight=False)
        return Whose(**{**vars(whose), "source": sources[0] if sources else ""})

    def _rows(self, name: str, **given: str) -> list[Row]:
        query = queries.get(name)
        return list(self._client.query(query.sql, query.values(given)).named_results())


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(common.moment(text), UTC).replace(microsecond=0)


def _ordered(since: datetime, until: datetime, first: str, last: str) -> tuple[datetime, datetime]:
    if until <= since:
        raise FlameError(f"{last} ({common.said(until)}) is not after {first} ({common.said(since)})", 2)
    return since, until


def _utc(at: datetime) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _nothing(found: Found) -> str:
    return (
        f"no stacks of {found.whose} were sampled ({_window(found.at)}). Agents sample Python processes of jobs where "
        "warpmeter[agent] is installed and [agent] stacks is on: `warpmeter doctor` says what stands between; "
        "`warpmeter stacks import` brings in what other profilers took"
    )


# --- as a table -----------------------------------------------------------------------------------------------------


def show(settings: Settings, wanted: Wanted, as_json: bool) -> None:
    """Functions that took the time, in the terminal."""
    with closing(store.connect(settings.store)) as client:
        asking = Asking(client, settings)
        found = asking.graph(wanted, 0 if wanted.base else LEAST)
        rows = _changes(found)[: wanted.top] if found.base is not None else asking.top(found, wanted.top)
    if as_json:
        common.print_json({**_head(found), "functions": [{**_frame(row["function"]), **row} for row in rows]})
        return
    unit = found.whose.unit
    title = f"{found.about()}; {amount(found.total, unit)} in all"
    if found.base is not None:
        cells = [
            (_percent(r["share"]), _percent(r["base_share"]), f"{100 * r['change']:+.2f}", *_where(r)) for r in rows
        ]
        common.print_table(title, ("self", "before", "change", "function", "where"), cells)
        return
    cells = [
        (_percent(row["self_share"]), _percent(row["total_share"]), amount(row["self"], unit), *_where(row))
        for row in rows
    ]
    common.print_table(title, ("self", "total", "time" if unit == "microseconds" else unit, "function", "where"), cells)


def _where(row: Row) -> tuple[str, str]:
    told = frame(row["function"])
    return told.function, f"{told.file}:{told.line}" if told.line else told.file


def _frame(text: str) -> dict[str, Any]:
    told = frame(text)
    return {"name": told.function, "file": told.file, "line": told.line or None}


def _head(found: Found) -> dict[str, Any]:
    told: dict[str, Any] = {
        "since": found.at.since,
        "until": found.at.until,
        "tier": "hour" if found.at.hours else "raw",
    }
    if found.base is not None:
        told |= {"base_since": found.base.since, "base_until": found.base.until}
    return {**told, "source": found.whose.source, "unit": found.whose.unit, "total": found.total}


def _changes(found: Found) -> list[Row]:
    """Functions by how much the share of what they did themselves changed."""
    totals = found.rows[0]["value"] or 1, found.rows[0]["base"] or 1
    sums: dict[str, tuple[int, int]] = {}
    for row in found.rows[1:]:
        now, before = sums.get(row["label"], (0, 0))
        sums[row["label"]] = now + row["self"], before + row["base_self"]
    rows = [
        {
            "function": function, "self": now, "base_self": before, "share": round(now / totals[0], 6),
            "base_share": round(before / totals[1], 6), "change": round(now / totals[0] - before / totals[1], 6),
        }
        for function, (now, before) in sums.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-abs(row["change"]), row["function"]))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def amount(value: float, unit: Unit) -> str:
    """A weight as people read it: `12.3 min`."""
    size, name = next((scale for scale in SCALES[unit] if value >= scale[0]), SCALES[unit][-1])
    return f"{value / size:.3g} {name}" if name else f"{value:,.0f}"


# --- as a file ------------------------------------------------------------------------------------------------------


def write(settings: Settings, wanted: Wanted, path: Path) -> None:
    """Into a file whose ending says what: a page, folded stacks, speedscope, or the rows as the API has them."""
    ending = next((each for each in FLAMES if path.name.lower().endswith(each)), None)
    if ending is None:
        raise FlameError(f"{path.name}: its ending says what to write: {', '.join(FLAMES)}", 2)
    if ending == ".speedscope.json" and wanted.base:
        raise FlameError("speedscope shows no difference: write .html, .folded or .json", 2)
    with closing(store.connect(settings.store)) as client:
        asking = Asking(client, settings)
        found = asking.graph(wanted, LEAST if ending == ".html" else 0)
        plain = found.base is not None or ending in (".folded", ".speedscope.json")
        top = [] if plain else asking.top(found, FUNCTIONS)
    path.write_text(_TEXTS[ending](found, top), "utf-8")
    common.err.print(f"{path}: {found.about()}; {amount(found.total, found.whose.unit)}", markup=False, highlight=False)


def _html(found: Found, top: Sequence[Row]) -> str:
    from warpmeter.web.flame_page import page

    shown: dict[str, Any] = {"columns": _columns(found.rows), "unit": found.whose.unit}
    if top:
        shown["top"] = _columns(top)
    shown["first"] = 1 if found.wanted.by is None or found.base is not None else 2
    return page(f"Flame graph: {found.whose}", f"{found.about()}; {amount(found.total, found.whose.unit)}", shown)


def _json(found: Found, top: Sequence[Row]) -> str:
    told = {**_head(found), "columns": _columns(found.rows)}
    if top:
        told["top"] = _columns(top)
    return json.dumps(common.plain(told), ensure_ascii=False) + "\n"


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _folded(found: Found, _: Sequence[Row]) -> str:
    """Of a difference each line has two numbers, before and now, as difffolded.pl writes them."""
    if found.base is None:
        return "".join(folded.lines(Weighed(path, row["self"]) for path, row in _paths(found.rows) if row["self"]))
    stacks = ((path, row) for path, row in _paths(found.rows) if row["self"] or row["base_self"])
    lines = (
        (next(folded.lines([Weighed(path, row["base_self"])])).removesuffix("\n"), row["self"]) for path, row in stacks
    )
    return "".join(f"{line} {now}\n" for line, now in lines)


def _speedscope(found: Found, _: Sequence[Row]) -> str:
    parts: dict[str, list[Weighed]] = {}
    for path, row in _paths(found.rows):
        if row["self"]:
            part, frames = (path[0], path[1:]) if found.wanted.by else ("all", path)
            parts.setdefault(part, []).append(Weighed(frames, row["self"]))
    profile = Profile(found.whose.unit, tuple(Part(Who(thread=name), tuple(stacks)) for name, stacks in parts.items()))
    return json.dumps(speedscope.document(profile, str(found.whose)), ensure_ascii=False) + "\n"


def _paths(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, ...], Row]]:
    """Each row with its path below all."""
    path: list[str] = []
    for row in rows:
        path[row["level"] :] = [row["label"]]
        yield tuple(path[1:]), row


_TEXTS: Final = {".html": _html, ".json": _json, ".folded": _folded, ".speedscope.json": _speedscope}

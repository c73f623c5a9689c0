"""Sampled stacks: flame graphs, top functions, a function's share over time, what changed."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from warpmeter.stacks.span import RAW, Span, span
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking, Configured
from warpmeter.web.request.known import host_or_404, job_or_404
from warpmeter.web.request.times import Asked, Window, invalid, missing, moment_of
from warpmeter.web.store.answers import Answers, told
from warpmeter.web.store.reads import Reads

router = APIRouter(prefix="/stacks", tags=["stacks"])

By = Literal["host", "process", "rank", "thread"]
StackUnit = Literal["microseconds", "bytes", "count"]
StackTier = Literal["raw", "hour"]
TURN_S: Final = 60
"""A turn of sampling: a shorter step has nothing in most of its steps."""
SMALL: Final = 400
"""An answer of fewer bytes may be one without rows."""
LEAST: Final = 0.0005


@dataclass(frozen=True)
class Chosen:
    """Of whose stacks a request is, and where they are read."""

    of: dict[str, Any]
    at: Span
    window: Window

    def parameters(self) -> dict[str, Any]:
        """As named queries take it."""
        return {**self.of, **self.at.asked()}

    def head(self) -> dict[str, Any]:
        """How an answer begins: what it is of."""
        return {**_told(self.at), "source": self.of["source"], "unit": self.of["unit"]}


def _told(at: Span, prefix: str = "") -> dict[str, Any]:
    told = {"since": at.since.isoformat(), "until": at.until.isoformat(), "tier": "hour" if at.hours else "raw"}
    return {prefix + name: value for name, value in told.items()}


def of(
    reads: Asking,
    window: Asked,
    settings: Configured,
    host: Annotated[str, Query(max_length=400, description="Of this host alone.", examples=["gpu-0001"])] = "",
    job: Annotated[str, Query(max_length=400, description="Of this job alone.", examples=["4711"])] = "",
    rank: Annotated[int | None, Query(ge=0, lt=1 << 32, description="Of this rank alone.", examples=[0])] = None,
    process: Annotated[
        str, Query(max_length=400, description="Of processes of this name alone.", examples=["python3"])
    ] = "",
    pid: Annotated[
        int | None, Query(ge=1, lt=1 << 32, description="Of this process alone, as its host numbers it.")
    ] = None,
    source: Annotated[
        str,
        Query(
            max_length=100,
            description="Of what this took alone. Left out: that with the most, before what was imported.",
            examples=["py-spy"],
        ),
    ] = "",
    unit: Annotated[StackUnit, Query(description="What they weigh by; agents sample time.")] = "microseconds",
) -> Chosen:
    """What a request is about. A process by its pid is read from the turns: hours do not keep pids."""
    kept_from = window.now - timedelta(days=settings.store.raw_ttl_days)
    if pid is not None and window.since < kept_from:
        raise invalid("pid", f"turns are kept since {kept_from:%F %T}, and hours do not tell pids apart", pid)
    at = span(window.since, window.until, kept_from, exact=pid is not None)
    of = {"host": host, "job_id": job, "rank": -1 if rank is None else rank, "process": process, "pid": pid or 0}
    source = source or _source(reads, at, host, job, unit)
    return Chosen({**of, "source": source, "unit": unit}, at, window)


def _source(reads: Reads, at: Span, host: str, job: str, unit: str) -> str:
    """What sampled the most: two sources that sampled the same would count a moment twice. "" where nothing did."""
    seen = reads.rows("stack_seen", host=host, job_id=job, **at.asked())
    return next((str(row["source"]) for row in seen if row["unit"] == unit), "")


Stacks = Annotated[Chosen, Depends(of)]
PartedBy = Annotated[By | None, Query(description="A level of its own below all.", examples=["rank"])]
Lines = Annotated[bool, Query(description="false: a function is one, whichever of its lines ran.")]
Least = Annotated[float, Query(ge=0, le=1, description="Share of all below which a function is left out.")]


class Graph(BaseModel):
    """A flame graph as nested rows, depth first, in columns of one value a function on a path."""

    level: list[int] = Field(description="0 is all.", examples=[[0, 1, 2]])
    label: list[str] = Field(
        description="`function (file:line)`.", examples=[["all", "main (train.py:80)", "load (data.py:12)"]]
    )
    value: list[int] = Field(
        description="Seen in it with what it called, of the whole time.", examples=[[9_000_000, 9_000_000, 2_500_000]]
    )
    self: list[int] = Field(description="Seen in itself.", examples=[[0, 6_500_000, 2_500_000]])


class Head(BaseModel):
    """What an answer is of; of hours, whole ones that hold the window."""

    since: datetime
    until: datetime
    tier: StackTier = Field(description="raw: the turns of sampling; hour: longer windows, and older ones.")
    source: str = Field(description="What took them; empty where nothing was.", examples=["py-spy"])
    unit: StackUnit


class Flame(Head):
    """Where the time went."""

    columns: Graph


@router.get("/flame", response_class=Response, responses=told(Flame, named=True, lasting=True))
def flame(
    _: Viewer, reads: Asking, chosen: Stacks, settings: Configured, answers: Answers,
    by: PartedBy = None,
    lines: Lines = True,
    least: Least = LEAST,
) -> Response:  # fmt: skip
    """A flame graph, as Grafana's panel takes it: `{"columns": {"level": [...], "label": [...], …}}`."""
    if by == "thread":
        chosen = _turns(chosen, settings)
    columns = reads.json("stack_flame", by=by or "", lines=int(lines), least=least, **chosen.parameters())
    return _answer(reads, answers, chosen, columns)


def _turns(chosen: Chosen, settings: Configured) -> Chosen:
    """The same out of the turns, for hours do not tell threads apart."""
    window = chosen.window
    kept_from = window.now - timedelta(days=settings.store.raw_ttl_days)
    if window.since < kept_from:
        raise invalid("by", f"turns are kept since {kept_from:%F %T}, and hours do not tell threads apart", "thread")
    return Chosen(chosen.of, Span(RAW, window.since, window.until), window)


class TopColumns(BaseModel):
    """Columns of one value a function, those with most in themselves first."""

    function: list[str] = Field(examples=[["load (data.py:12)"]])
    self: list[int] = Field(description="Seen in itself.", examples=[[2_500_000]])
    total: list[int] = Field(description="With what it called; once, however deep it calls itself.")
    self_share: list[float] = Field(description="Of all that was seen.", examples=[[0.28]])
    total_share: list[float] = Field(examples=[[0.28]])


class Top(Head):
    """Functions that took the time."""

    columns: TopColumns


@router.get("/top", response_class=Response, responses=told(Top, named=True, lasting=True))
def top(
    _: Viewer, reads: Asking, chosen: Stacks, answers: Answers,
    lines: Lines = True,
    top: Annotated[int, Query(ge=1, le=10_000, description="So many functions.")] = 100,
) -> Response:  # fmt: skip
    """Functions by what was seen in themselves."""
    columns = reads.json("stack_top", lines=int(lines), top=top, **chosen.parameters())
    return _answer(reads, answers, chosen, columns)


class ShareColumns(BaseModel):
    """Columns of one value a step; steps in which nothing was sampled are left out."""

    start: list[datetime] = Field(description="Where the step begins.")
    value: list[int] = Field(description="Seen in the function with what it called.", examples=[[2_500_000]])
    all: list[int] = Field(description="Seen at all.", examples=[[9_000_000]])
    share: list[float] = Field(examples=[[0.28]])


class Share(Head):
    """A function over time."""

    step_s: int = Field(examples=[60])
    columns: ShareColumns


@router.get("/share", response_class=Response, responses=told(Share, named=True, lasting=True))
def share(
    _: Viewer, reads: Asking, chosen: Stacks, answers: Answers,
    function: Annotated[
        str,
        Query(min_length=1, max_length=1000, description="A part of `function (file:line)`.", examples=["load (data"]),
    ],
) -> Response:  # fmt: skip
    """The share of a function, with what it called, over time; a step is a minute or longer, of hours an hour."""
    floor = 3600 if chosen.at.hours else TURN_S
    step_s = -(-max(chosen.window.step_s, floor) // floor) * floor
    columns = reads.json("stack_share", function=function, step_s=step_s, **chosen.parameters())
    return _answer(reads, answers, chosen, columns, {"step_s": step_s})


class DiffColumns(Graph):
    """The same with what was seen before; a share is of all of its own side."""

    base: list[int] = Field(examples=[[8_000_000, 8_000_000, 800_000]])
    base_self: list[int] = Field(examples=[[0, 7_200_000, 800_000]])
    share: list[float] = Field(examples=[[1, 1, 0.28]])
    base_share: list[float] = Field(examples=[[1, 1, 0.1]])


class Diff(Head):
    """What changed."""

    base_since: datetime
    base_until: datetime
    base_tier: StackTier
    columns: DiffColumns


@router.get("/diff", response_class=Response, responses=told(Diff, named=True, lasting=True))
def diff(
    _: Viewer, reads: Asking, chosen: Stacks, settings: Configured, answers: Answers,
    base_since: Annotated[
        str, Query(max_length=100, description="Left out: the window before, or that job's run time.", examples=["-2h"])
    ] = "",
    base_until: Annotated[
        str, Query(max_length=100, description="Left out: as long a window.", examples=["-1h"])
    ] = "",
    base_host: Annotated[
        str, Query(max_length=400, description="Left out: the same host, unless base_job is given.")
    ] = "",
    base_job: Annotated[
        str, Query(max_length=400, description="Left out: the same job, unless base_host is given.")
    ] = "",
    by: PartedBy = None,
    lines: Lines = True,
    least: Least = LEAST,
) -> Response:  # fmt: skip
    """The difference of two windows, hosts or jobs, as a flame graph of both."""
    other = {"base_host": base_host, "base_job_id": base_job}
    if not (base_host or base_job):
        other = {"base_host": chosen.of["host"], "base_job_id": chosen.of["job_id"]}
    since, until = _base(reads, chosen.window, base_since, base_until, base_job)
    kept_from = chosen.window.now - timedelta(days=settings.store.raw_ttl_days)
    threads = by == "thread"
    if threads:
        chosen = _turns(chosen, settings)
    exact = bool(chosen.of["pid"]) or threads
    if exact and since < kept_from:
        apart = "threads" if threads else "pids"
        why = f"turns are kept since {kept_from:%F %T}, and hours do not tell {apart} apart"
        raise invalid("base_since", why, f"{since:%F %T}")
    at = span(since, until, kept_from, exact=exact)
    if not chosen.of["source"]:
        source = _source(reads, at, other["base_host"], other["base_job_id"], chosen.of["unit"])
        chosen = replace(chosen, of={**chosen.of, "source": source})
    before = {"base_since": at.since.isoformat(), "base_until": at.until.isoformat(), "base_windows": at.windows}
    columns = reads.json(
        "stack_diff", by=by or "", lines=int(lines), least=least, **chosen.parameters(), **other, **before
    )
    if _empty(columns):
        _known(reads, base_host, base_job, "base_")
    return _answer(reads, answers, chosen, columns, _told(at, "base_"))


def _base(reads: Reads, window: Window, since: str, until: str, job: str) -> tuple[datetime, datetime]:
    """The window to compare with, as far as it is given; a validation error that names the field."""
    if job and not since and not until:
        return _run_of(reads, job, window)
    length = window.until - window.since
    last = moment_of("base_until", until, window.now) if until else None
    if since:
        first = moment_of("base_since", since, window.now)
    else:
        first = (last or window.since) - length
    last = last or first + length
    if last <= first:
        raise invalid("base_until", f"base_until ({last:%F %T}) is not after base_since ({first:%F %T})", until)
    return first, last


def _run_of(reads: Reads, job: str, window: Window) -> tuple[datetime, datetime]:
    found = reads.rows("job_listed", job_id=job, since=window.since.isoformat(), until=window.until.isoformat())
    if not found:
        raise missing("query", "base_job", f"nothing has been heard of a job {job}: /api/v1/jobs lists them", job)
    first, last = (datetime.fromisoformat(found[0][name]) for name in ("started_at", "last_seen_at"))
    return first, max(last, first + timedelta(seconds=TURN_S))


class SeenColumns(BaseModel):
    """Columns of one value a source and unit."""

    source: list[str] = Field(examples=[["py-spy"]])
    unit: list[StackUnit]
    hosts: list[int] = Field(description="How many.", examples=[[8]])
    processes: list[list[str]] = Field(examples=[[["python3"]]])
    ranks: list[list[int]] = Field(examples=[[[0, 1, 2]]])
    samples: list[int] = Field(examples=[[12_000]])
    value: list[int] = Field(examples=[[9_000_000]])


class Seen(BaseModel):
    """What there is to choose from."""

    columns: SeenColumns


@router.get("/seen", response_class=Response, responses=told(Seen, named=True, lasting=True))
def seen(
    _: Viewer, reads: Asking, window: Asked, settings: Configured, answers: Answers,
    host: Annotated[str, Query(max_length=400)] = "",
    job: Annotated[str, Query(max_length=400)] = "",
) -> Response:  # fmt: skip
    """Which sources sampled stacks in the window, of which processes and ranks; long windows by whole hours."""
    at = span(window.since, window.until, window.now - timedelta(days=settings.store.raw_ttl_days))
    columns = reads.json("stack_seen", host=host, job_id=job, **at.asked())
    if _empty(columns):
        _known(reads, host, job)
    return answers.json(b'{"columns":' + columns + b"}", lasting=window.closed)


def _answer(
    reads: Reads, answers: Answers, chosen: Chosen, columns: bytes, more: dict[str, Any] | None = None
) -> Response:
    """The engine's columns below a head; 404 where there are none and nothing has been heard of what is named."""
    if _empty(columns):
        _known(reads, chosen.of["host"], chosen.of["job_id"])
    head = json.dumps({**chosen.head(), **(more or {})})
    return answers.json(head.encode()[:-1] + b',"columns":' + columns + b"}", lasting=chosen.window.closed)


def _empty(columns: bytes) -> bool:
    return len(columns) < SMALL and not any(json.loads(columns).values())


def _known(reads: Reads, host: str, job: str, prefix: str = "") -> None:
    if host:
        host_or_404(reads, host, "query", f"{prefix}host")
    if job:
        job_or_404(reads, job, "query", f"{prefix}job")

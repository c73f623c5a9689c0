"""The timeline of a rank's trace: what a viewer draws of a stretch, its names, search, and one event with its links."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from warpmeter import __version__
from warpmeter.store import ClickHouseError, cause, code
from warpmeter.web.request.context import Asking
from warpmeter.web.request.times import invalid, missing
from warpmeter.web.store.answers import NotThere
from warpmeter.web.store.reads import Reads
from warpmeter.web.traces import timelines
from warpmeter.web.traces.event import Event, event
from warpmeter.web.traces.timelines import NoTimelineError, Shown, captured, joined

router = APIRouter(
    tags=["timeline"],
    responses={404: {"model": NotThere, "description": "There is no such capture, rank, event or address."}},
)

MOST_NS = 1 << 52
"""Times are whole numbers that JavaScript, too, holds exactly."""
FOR_EVER = "private, max-age=86400, immutable"
"""What a load holds never changes: for addresses that name one."""

NO_EXPRESSION = 427
"""ClickHouse's number of the error that a regular expression is none."""

Since = Annotated[int, Query(ge=0, le=MOST_NS, description="Start, nanoseconds from the first event of the trace.")]
Until = Annotated[int, Query(ge=1, le=MOST_NS, description="End, nanoseconds from the first event of the trace.")]


def between(since_ns: Since = 0, until_ns: Until = 1_000_000_000) -> tuple[int, int]:
    """The stretch that a request is about. Raises 422 where it ends before it begins."""
    if until_ns <= since_ns:
        raise invalid("until_ns", f"until_ns ({until_ns}) is not after since_ns ({since_ns})", until_ns)
    return since_ns, until_ns


Stretch = Annotated[tuple[int, int], Depends(between)]


def of(
    reads: Asking,
    capture: str,
    rank: Annotated[int, Query(ge=0, lt=1 << 32)] = 0,
    sequence: Annotated[int, Query(ge=1, lt=1 << 32, description="Round of a capture that takes several.")] = 1,
    process: Annotated[str, Query(description="Where several processes are that rank: which one.")] = "",
    load: Annotated[str, Query(description="Of `lanes`: given with `process`, the answer may be kept.")] = "",
) -> Shown:
    """The trace that a request is about. Raises 404."""
    name = captured(capture, sequence)
    try:
        if load and process:
            return timelines.loaded(reads, Shown(name, process, load))
        return timelines.shown(reads, name, rank, process)
    except NoTimelineError as error:
        raise missing("path", "capture", str(error), capture) from error


Trace = Annotated[Shown, Depends(of)]


class Columns(BaseModel):
    """Rows as columns of one length."""

    model_config = {"extra": "allow"}


class Lanes(BaseModel):
    """What a viewer asks first. `lanes`, `steps`, `ranks` and `names` are columns.

    `process` and `load` name what is shown: with both in its address, an answer may be kept for ever.
    """

    process: str = Field(examples=["0"])
    load: str
    lanes: Columns = Field(examples=[{"lane": [0], "sort": ["stream"], "stream": [7], "depths": [1]}])
    steps: Columns
    ranks: Columns
    names: Columns


class Timeline(BaseModel):
    """`bucket_ns`: shorter events are merged, a rectangle a lane, depth and bucket. `events` are columns.

    Of each rectangle: `lane`, `depth`, `start_ns`, `duration_ns`, `busy_ns` (how much of it something ran), `count`
    (events; 1: it is one as it is) and `name`: of the name that took most, its number in `names` of `/timeline/lanes`.
    """

    bucket_ns: int
    count: int = Field(le=timelines.MOST)
    events: Columns = Field(examples=[{"lane": [0], "depth": [0], "start_ns": [10], "duration_ns": [5], "count": [1]}])


class Hits(BaseModel):
    """Events whose name matches, in order of time, as columns; `before`: how many begin before `from_ns`."""

    total: int
    before: int
    offset: int
    next: int | None
    hits: Columns
    names: Columns


@router.get("/traces/{capture:path}/timeline/lanes", response_model=Lanes)
def lanes(reads: Asking, shown: Trace, request: Request) -> Response:
    """The lanes of a rank's timeline, its steps, the names of its events, and the ranks of its capture."""

    def answer() -> bytes:
        about = shown.parameters()
        return joined(
            process=msgspec.json.encode(shown.process),
            load=msgspec.json.encode(shown.load),
            lanes=reads.json("timeline_lanes", **about),
            steps=reads.json("timeline_steps", **about),
            ranks=reads.json("timeline_ranks", capture_id=shown.capture_id),
            names=reads.json("timeline_names", **about),
        )

    return _kept(request, shown, answer, "private, no-cache")


@router.get("/traces/{capture:path}/timeline", response_model=Timeline)
def timeline(
    reads: Asking,
    shown: Trace,
    request: Request,
    span: Stretch,
    width: Annotated[int, Query(ge=1, le=8192, description="Pixels that show the stretch.")] = 1024,
) -> Response:
    """What is drawn of a stretch: events that are longer than a pixel, and the shorter ones merged by pixel."""

    def answer() -> bytes:
        wanted = timelines.bucket_ns(*span, width)
        bucket, count, events = timelines.rectangles(reads, shown, *span, wanted)
        return joined(bucket_ns=b"%d" % bucket, count=b"%d" % count, events=events)

    return _kept(request, shown, answer)


@router.get("/traces/{capture:path}/timeline/range", response_model=Columns)
def stretch(
    reads: Asking,
    shown: Trace,
    request: Request,
    span: Stretch,
    top: Annotated[int, Query(ge=1, le=5000)] = 200,
) -> Response:
    """What ran in a stretch, by lane and name: events and their time within it, as columns."""
    since_ns, until_ns = span
    about = {**shown.parameters(), "since_ns": since_ns, "until_ns": until_ns, "top": top}
    return _kept(request, shown, lambda: reads.json("timeline_range", **about))


@dataclass(frozen=True)
class Wanted:
    """What is searched for. Without `offset` the hits are those from `from_ns` on."""

    q: str
    mode: str
    from_ns: int
    limit: int
    offset: int | None

    @property
    def pattern(self) -> str:
        """As a regular expression."""
        return self.q if self.mode == "regex" else timelines.literally(self.q)


def wanted(
    q: Annotated[str, Query(min_length=1, max_length=1000, description="A part of the name.")],
    mode: Annotated[Literal["text", "regex"], Query(description="Case counts in a regular expression alone.")] = "text",
    from_ns: Annotated[int, Query(ge=0, le=MOST_NS, description="`before` counts hits that begin before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    offset: Annotated[int | None, Query(ge=0, le=1 << 40, description="Left out: from `from_ns` on.")] = None,
) -> Wanted:
    """The parameters of a search."""
    return Wanted(q, mode, from_ns, limit, offset)


@router.get("/traces/{capture:path}/timeline/search", response_model=Hits)
def search(reads: Asking, shown: Trace, request: Request, what: Annotated[Wanted, Depends(wanted)]) -> Response:
    """Events whose name holds `q`, in order of time, and how often each such name occurs."""

    def answer() -> bytes:
        try:
            return _found(reads, shown, what)
        except ClickHouseError as error:
            if code(error) == NO_EXPRESSION:
                raise invalid("q", f"no regular expression (RE2): {cause(error)}", what.q) from error
            raise

    return _kept(request, shown, answer)


def _found(reads: Reads, shown: Shown, what: Wanted) -> bytes:
    about = {**shown.parameters(), "pattern": what.pattern}
    names = reads.json("timeline_search_names", **about, before_ns=what.from_ns)
    counts: dict[str, list[int]] = msgspec.json.decode(names)
    total, before = sum(counts["count"]), sum(counts["before"])
    first = before if what.offset is None else what.offset
    hits = reads.json("timeline_search", **about, limit=what.limit, offset=first)
    following = first + what.limit if first + what.limit < total else None
    numbers = {"total": total, "before": before, "offset": first, "next": following}
    return joined(**{name: msgspec.json.encode(value) for name, value in numbers.items()}, hits=hits, names=names)


@router.get("/traces/{capture:path}/timeline/event", response_model=Event)
def one(
    reads: Asking,
    shown: Trace,
    request: Request,
    lane: Annotated[int, Query(ge=0, lt=65_535)],
    start_ns: Annotated[int, Query(ge=0, le=MOST_NS)],
    depth: Annotated[int, Query(ge=0, lt=65_536)] = 0,
) -> Response:
    """One event: its arguments, what is around it, which call and operator launched it, what it launched, its stack."""

    def answer() -> bytes:
        found = event(reads, shown, lane, start_ns, depth)
        if found is None:
            raise missing("query", "start_ns", f"no event begins then at depth {depth} of lane {lane}", str(start_ns))
        return found.model_dump_json().encode()

    return _kept(request, shown, answer)


def _kept(request: Request, shown: Shown, answer: Any, keep: str | None = None) -> Response:
    """The answer, or that it is what the caller has: a load never changes, so its number and the question tell."""
    named = "load" in request.query_params
    tag = hashlib.sha256(f"{__version__} {shown.load} {request.url.path}?{request.url.query}".encode()).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": keep or (FOR_EVER if named else "private, no-cache")}
    if f'"{tag}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(answer(), media_type="application/json", headers=headers)

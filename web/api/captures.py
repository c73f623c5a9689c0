"""Captures: what was asked for and what came of it; to ask for one, and to end one."""

import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from confluent_kafka import KafkaException
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from warpmeter.captures import amounts
from warpmeter.captures.asking import NotTakenError, request
from warpmeter.captures.wishes import Request as Wanted
from warpmeter.captures.wishes import objections
from warpmeter.web.api.listed import Capture, CapturePage, ProcessPage
from warpmeter.web.captures.heard import ASKED, Captures
from warpmeter.web.request import paging
from warpmeter.web.request.access import Operator
from warpmeter.web.request.context import Asking
from warpmeter.web.request.paging import Page
from warpmeter.web.request.times import missing
from warpmeter.web.security import audit

router = APIRouter(tags=["captures"])

MOST: Final = (1 << 32) - 1
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
COLUMNS: Final = (
    "requested_at",
    "capture_id",
    "name",
    "job_id",
    "requested_by",
    "state",
    "captured",
    "bytes",
    "ended_at",
)
FIELDS: Final = {"duration_ms": "duration", "interval_s": "interval"}
"""What a request's fields are called here."""
MOST_LISTED: Final = 100_000
OPEN_SINCE: Final = "-16d"
"""No capture goes on for longer than 14 days."""
State = Literal["requested", "running", "ended", "lost"]


def captures_of(request: Request) -> Captures:
    """Captures, as this process knows them."""
    found: Captures = request.app.state.captures
    return found


Known = Annotated[Captures, Depends(captures_of)]
Sorted = Annotated[Page, Depends(paging.by(COLUMNS, "-requested_at"))]


def _length(text: str) -> str:
    if text and amounts.milliseconds(text) > MOST:
        raise ValueError(f"{text} is too long")
    return text


def _size(text: str) -> str:
    if text and amounts.size(text) >= 1 << 63:
        raise ValueError(f"{text} is too much")
    return text


def _printable(text: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError("control characters are not allowed")
    return text


Length = Annotated[str, Field(max_length=20), AfterValidator(_length)]
Size = Annotated[str, Field(max_length=20), AfterValidator(_size)]
Text = Annotated[str, Field(max_length=500), AfterValidator(_printable)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Pid = Annotated[int, Field(ge=1, le=MOST)]
Hosts = Annotated[list[Text], Field(max_length=10_000, description="On these hosts.", examples=[[]])]
Limit = Annotated[Count, Field(description="Processes in all; 0: no limit.", examples=[0])]
Iterations = Annotated[Count, Field(description="Optimizer steps to trace, in place of a duration.", examples=[0])]
Shapes = Annotated[bool, Field(description="Shapes of the inputs of operators.")]
Memory = Annotated[bool, Field(description="Allocations; over a duration only.")]
Stacks = Annotated[bool, Field(description="Python calls: the costliest.")]
Flops = Annotated[bool, Field(description="Operations of operators.")]
Modules = Annotated[bool, Field(description="Calls of nn.Module.")]


class New(BaseModel):
    """A capture that is wanted. All that is named of the target must hold: a job over all its hosts, hosts, or pids."""

    model_config = ConfigDict(extra="forbid")

    job_id: Text = Field("", description="The processes of this job, on all its hosts.", examples=["4711"])
    hosts: Hosts = []
    pids: list[Pid] = Field(
        [], max_length=10_000, description="These processes, and what they started; of one host.", examples=[[]]
    )
    name: Text = Field("", description="What it is called.", examples=["slow step"])
    capture_id: str = Field(
        "", max_length=100, pattern=rf"^$|{NAME}",
        description="A name made by the caller, so that asking twice asks once; by default by the time.", examples=[""],
    )  # fmt: skip
    process_limit: Limit = 0
    duration: Length = Field(
        "", description="How long to trace: 500ms (the default), 2s; or give iterations.", examples=["2s"]
    )
    iterations: Iterations = 0
    iteration_roundup: Count = Field(
        0, description="Begin at a multiple of so many steps; 0: the scheduler chooses.", examples=[0]
    )
    warmup: Length = Field("", description="Warm-up of a duration; 5s by default.", examples=["5s"])
    warmup_iterations: Count = Field(0, description="Warm-up of iterations.", examples=[0])
    shapes: Shapes = False
    memory: Memory = False
    stacks: Stacks = False
    flops: Flops = False
    modules: Modules = False
    mode: Literal["trace", "continuous"] = Field(
        "trace", description="`count` times, or every `interval` until it is detached."
    )
    count: Count = Field(1, description="How often, of mode trace.", examples=[1])
    interval: Length = Field("", description="Of mode continuous: how often.", examples=[""])
    max_count: Count = Field(0, description="Of mode continuous: it ends after so many rounds.", examples=[0])
    max_bytes: Size = Field("", description="It ends after so much, packed: 20GB.", examples=[""])
    max_time: Length = Field("", description="It ends after so long: 8h.", examples=[""])


class Asked(BaseModel):
    """A capture was asked for, or its end; nothing has happened yet. `follow` says how it goes."""

    capture_id: str = Field(examples=["20260131T120000-1a2b3c"])
    state: str = Field(examples=["requested"])
    follow: str = Field(examples=["/api/v1/captures/20260131T120000-1a2b3c"])


AWAY: Final[dict[int | str, dict[str, Any]]] = {503: {"description": "Kafka or the store does not answer."}}
NONE: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such capture."}}


@router.get("/captures", response_model=CapturePage)
def captures(
    reads: Asking,
    known: Known,
    page: Sorted,
    job: Annotated[str, Query(description="Of this job alone.")] = "",
    host: Annotated[str, Query(description="Of this host alone.")] = "",
    state: Annotated[State | Literal[""], Query(description="In this state alone.")] = "",
    by: Annotated[str, Query(description="Asked for by them alone.")] = "",
    search: Annotated[str, Query(max_length=200, description="In id, name, job, who asked, and why.")] = "",
) -> Any:
    """Captures and how they stand, the latest first. What was asked for here a moment ago comes before the page."""
    asked = {"job_id": job, "host": host, "state": state, "requested_by": by, "search": search}
    latest = page.sort == "requested_at" and page.descending and not (job or host or state or search)
    most = page.offset + page.limit if latest else MOST_LISTED
    since = OPEN_SINCE if state in ("requested", "running") else "2020-01-01"
    rows, total = paging.page_of(reads, "captures_listed", page, since=since, most=most, **asked)
    if latest and rows:
        total = rows[0]["meant"]
    rows = [known.fresh(row) for row in rows]
    if not page.offset and page.sort == "requested_at" and page.descending and not (host or by or search):
        new = [each for each in known.unlisted(rows) if each["job_id"] == (job or each["job_id"])]
        new = [each for each in new if state in ("", each["state"])]
        rows, total = [*new, *rows][: max(page.limit, len(new))], total + len(new)
    return paging.answer(rows, total, page)


@router.post(
    "/captures",
    status_code=202,
    response_model=Asked,
    responses={**AWAY, 409: {"description": "Another capture is called so."}},
)
def create(new: New, who: Operator, known: Known, response: Response) -> Any:
    """Ask for a capture; an operator's. The answer comes once the bus has the request: follow it from there."""
    asked = _wanted(new, who.name)
    for objection in objections(asked):
        raise _refused(FIELDS.get(objection.field, objection.field), objection.why, new)
    if new.capture_id and (before := known.progress(new.capture_id)) is not None:
        return _again(new, before[0], response)
    _ask(known, asked)
    audit.record(
        who, "capture", capture=asked.capture_id, job=new.job_id, hosts=new.hosts, pids=new.pids, mode=new.mode
    )
    return _told(asked.capture_id, "requested", response)


@router.get("/captures/{capture_id:path}/ranks", response_model=ProcessPage, responses=NONE)
def ranks(
    capture_id: str,
    known: Known,
    round_: Annotated[int, Query(alias="round", ge=0, le=MOST, description="This round alone, from 1; 0: all.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Any:
    """Each process of each round: its state, why, what that means, whether its trace is in the store.

    The latest round first; in it those without a trace, then by rank.
    """
    shown = known.shown(capture_id)
    if shown is None:
        raise _missing(capture_id)
    found = [each for each in shown.processes if round_ in (0, each["sequence"])]
    page = paging.answer(found[offset : offset + limit], len(found), Page(limit, offset, "sequence", True))
    return {**page, "capture": shown.row, "states": shown.states}


@router.post("/captures/{capture_id:path}/cancel", status_code=202, response_model=Asked, responses={**AWAY, **NONE})
def cancel(capture_id: str, who: Operator, known: Known, response: Response) -> Any:
    """End a capture at once, and drop what is not done; traces that are stored stay. 200 where it has ended already."""
    return _end(capture_id, "cancel", who, known, response)


@router.post("/captures/{capture_id:path}/detach", status_code=202, response_model=Asked, responses={**AWAY, **NONE})
def detach(capture_id: str, who: Operator, known: Known, response: Response) -> Any:
    """End a continuous capture, when the round that goes on is done. 200 where it has ended already."""
    return _end(capture_id, "detach", who, known, response)


@router.get("/captures/{capture_id:path}", response_model=Capture, responses=NONE)
def capture(capture_id: str, known: Known) -> Any:
    """One capture, and how it stands now."""
    return _known(known, capture_id)[0]


def _wanted(new: New, by: str) -> Wanted:
    """The request of it. All that can be wrong with a single field was checked before."""
    same = {name: getattr(new, name) for name in (
        "job_id", "hosts", "pids", "name", "process_limit", "iterations", "iteration_roundup", "warmup_iterations",
        "shapes", "memory", "stacks", "flops", "modules", "mode", "count", "max_count",
    )}  # fmt: skip
    return request(
        "start", by, new.capture_id, **same,
        duration_ms=amounts.traced_ms(new.duration, new.iterations),
        warmup_s=_seconds(new.warmup), interval_s=_seconds(new.interval), max_seconds=_seconds(new.max_time),
        max_bytes=amounts.size(new.max_bytes) if new.max_bytes else 0,
    )  # fmt: skip


def _seconds(text: str) -> int:
    return amounts.seconds(text) if text else 0


def _refused(field: str, why: str, new: New) -> HTTPException:
    given = getattr(new, field, None)
    return HTTPException(422, [{"type": "value_error", "loc": ["body", field], "msg": why, "input": given}])


def _again(new: New, before: dict[str, Any], response: Response) -> Any:
    """It was asked for already: the same is the same capture, anything else is another that needs another name."""
    asked = _wanted(new, "")
    same = all(before[name] == getattr(asked, name) for name in ("job_id", "mode", *ASKED))
    if not same or (before["asked_hosts"], before["pids"]) != (list(asked.hosts), list(asked.pids)):
        raise HTTPException(409, f"another capture is called {new.capture_id}")
    response.status_code = 200
    return _told(new.capture_id, before["state"], response)


def _end(capture_id: str, action: str, who: Operator, known: Captures, response: Response) -> Any:
    row, _ = _known(known, capture_id)
    if row["state"] == "ended":
        response.status_code = 200
    else:
        _ask(known, request(action, who.name, capture_id))
        audit.record(who, f"{action} capture", capture=capture_id)
    return _told(capture_id, row["state"], response)


def _ask(known: Captures, asked: Wanted) -> None:
    try:
        known.ask(asked)
    except (NotTakenError, KafkaException) as error:
        raise HTTPException(503, str(error)) from error


def _known(known: Captures, capture_id: str) -> tuple[dict[str, Any], Any]:
    found = known.progress(capture_id)
    if found is None:
        raise _missing(capture_id)
    return found


def _missing(capture_id: str) -> HTTPException:
    return missing("path", "capture_id", "there is no such capture", capture_id)


def _told(capture_id: str, state: str, response: Response) -> dict[str, str]:
    follow = f"/api/v1/captures/{quote(capture_id, safe='')}"
    response.headers["location"] = follow
    return {"capture_id": capture_id, "state": state, "follow": follow}

"""Hosts: which there are, how each is, what happened to it, and what ran on it."""

import json
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from warpmeter.web.request import paging
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking
from warpmeter.web.request.known import host_or_404
from warpmeter.web.request.paging import Page
from warpmeter.web.request.times import Asked, Window, missing
from warpmeter.web.store import sparks
from warpmeter.web.store.answers import Answering, Answers, told
from warpmeter.web.store.reads import Reads

GpuState = Literal["busy", "idle", "failing", "gone"]

router = APIRouter(tags=["hosts"])
one = APIRouter(tags=["hosts"])
"""What catches every path below /hosts: comes after all others."""


class Host(BaseModel):
    """A host with its latest values; null is what is not known."""

    host: str = Field(examples=["gpu-0001"])
    state: Literal["ok", "failing", "silent"]
    first_seen_at: str
    last_seen_at: str
    agent_version: str
    kernel: str
    uptime_s: int | None
    cores: int | None
    cpu_util: float | None
    load1: float | None
    mem_total_bytes: int | None
    mem_available_bytes: int | None
    swap_used_bytes: int | None
    psi_cpu_some: float | None
    psi_memory_full: float | None
    psi_io_full: float | None
    gpus: int
    gpus_ok: int
    gpus_gone: int
    gpu_util: float | None = Field(description="Mean of its GPUs.")
    gpu_power_watts: float | None = Field(description="Sum of its GPUs.")
    sources_failing: int
    problems: list[str]
    sm_active: float | None
    l2_hit_ratio: float | None
    l3_hit_ratio: float | None
    mem_bandwidth_bytes_per_s: int | None
    network_bytes_per_s: int | None
    storage_bytes_per_s: int | None
    spark: list[float | None] = Field(description="GPU utilisation over the window, in at most 30 steps.")


class Hosts(BaseModel):
    """A page of hosts."""

    data: list[Host]
    total: int
    next: int | None = Field(description="Offset of the page after; null on the last.")
    spark_step_s: int
    spark_since: int = Field(description="Where the first step begins, seconds since the epoch.")


SORTABLE: Final = tuple(name for name in Host.model_fields if name not in ("problems", "spark"))


@router.get("/hosts", response_class=Response, responses=told(Hosts))
def hosts(
    _: Viewer, reads: Asking, window: Asked, answers: Answers,
    page: Annotated[Page, Depends(paging.by(SORTABLE, "host"))],
    search: Annotated[str, Query(max_length=400, description="In the name.")] = "",
    state: Annotated[Literal["ok", "failing", "silent"] | None, Query(description="In this state alone.")] = None,
    gpus: Annotated[GpuState | None, Query(description="With a GPU that is so now.")] = None,
) -> Response:  # fmt: skip
    """Hosts as they are now, each with a line of its GPU utilisation over the window."""
    given = {"search": search, "state": state or "", "gpus": gpus or ""}
    ask = partial(paging.page_of, reads, "hosts_listed", page, **given)
    if page.limit > sparks.NAMED and not any(given.values()):
        data, total = sparks.drawn_beside(ask, sparks.HOSTS, reads, window)
    else:
        data, total = ask()
        data = sparks.drawn(data, sparks.HOSTS, reads, window)
    return answers.json({**paging.answer(data, total, page), **sparks.told(window)})


class Event(BaseModel):
    """Something that happened to a host."""

    at: str
    until: str | None = Field(description="null while it lasts.")
    kind: Literal["xid", "gone", "throttle", "source"]
    gpu: int | None
    uuid: str = Field(description="Of the GPU, or what of the source it is about.")
    what: str = Field(examples=["XID 79: GPU has fallen off the bus"])
    why: str
    job_ids: list[str]


class Events(BaseModel):
    """Events, the latest first."""

    data: list[Event]


@router.get("/hosts/{host:named}/events", response_class=Response, responses=told(Events, named=True))
def events(
    _: Viewer, host: str, reads: Asking, window: Asked, answers: Answers,
    limit: Annotated[int, Query(ge=1, le=5000, description="The latest so many.")] = 500,
) -> Response:  # fmt: skip
    """What happened to it in the window: XIDs, lost GPUs, clocks held down, sources that changed their state."""
    return _all(reads, answers, "host_events", host, limit=limit, **_bounds(window))


class Source(BaseModel):
    """The last word of a source of the host's agent, or of what it could not read."""

    source: str = Field(examples=["gpu"])
    subject: str = Field(description="What of it: empty for the source, a GPU's uuid, uuid/column.")
    state: str = Field(examples=["ok", "unsupported", "failed", "gone", "timeout", "denied", "paused"])
    why: str
    seconds: float | None = Field(description="What the read took.")
    count: int | None
    ok_at: str | None
    first_at: str
    last_seen_at: str
    silent: bool = Field(description="The last word is old.")


class Sources(BaseModel):
    """Sources, those that fail first."""

    data: list[Source]


@router.get("/hosts/{host:named}/sources", response_class=Response, responses=told(Sources, named=True))
def sources(_: Viewer, host: str, reads: Asking, answers: Answers) -> Response:
    """What its agent's sources say of themselves now, and of what they could not read."""
    return _all(reads, answers, "host_sources", host)


class Band(BaseModel):
    """A job on a host, from when to when."""

    job_id: str
    name: str
    user: str
    state: Literal["running", "lost", "ended"]
    from_: str = Field(alias="from")
    until: str | None = Field(description="null while it runs.")
    last_seen_at: str
    gpus: int = Field(description="GPUs that it ever held here.")


class Bands(BaseModel):
    """Jobs, the latest first."""

    data: list[Band]


@router.get("/hosts/{host:named}/jobs", response_class=Response, responses=told(Bands, named=True))
def bands(_: Viewer, host: str, reads: Asking, window: Asked, answers: Answers) -> Response:
    """Which jobs ran on it in the window, as bands of time."""
    return _all(reads, answers, "host_jobs", host, **_bounds(window))


@one.get("/hosts/{host:named}", response_class=Response, responses=told(Host, named=True))
def host_of(_: Viewer, host: str, reads: Asking, window: Asked, answers: Answers) -> Response:
    """One host as it is now; `/gpus?host=` lists its GPUs."""
    found, _total = paging.rows(reads, "hosts_listed", host=host, limit=1)
    if not found:
        why = f"nothing has been heard of a host {host}: /api/v1/hosts lists them"
        raise missing("path", "host", why, host)
    return answers.json(sparks.drawn(found, sparks.HOSTS, reads, window)[0])


def _bounds(window: Window) -> dict[str, str]:
    return {"since": window.since.isoformat(), "until": window.until.isoformat()}


def _all(reads: Reads, answers: Answering, query: str, host: str, **given: object) -> Response:
    """All rows of a query about a host; 404 when nothing has been heard of it."""
    data = json.loads(reads.json(query, form="JSON", host=host, **given))["data"]
    if not data:
        host_or_404(reads, host)
    return answers.json({"data": data})

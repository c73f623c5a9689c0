"""Jobs: which ran, how well each used its GPUs, and which of its ranks is the odd one."""

import json
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from warpmeter.web.request import paging
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking
from warpmeter.web.request.known import job_or_404
from warpmeter.web.request.paging import Page
from warpmeter.web.request.times import SUFFIX, WINDOWS_S, Asked, Window, missing
from warpmeter.web.store import sparks
from warpmeter.web.store.answers import Answering, Answers, told
from warpmeter.web.store.reads import Reads

router = APIRouter(tags=["jobs"])
one = APIRouter(tags=["jobs"])
"""What catches every path below /jobs: comes after all others."""

State = Literal["running", "lost", "ended"]
GpuState = Literal["busy", "idle", "failing", "gone"]


class Job(BaseModel):
    """A job over all its hosts and ranks; null is what is not known."""

    job_id: str = Field(examples=["95999653"])
    name: str
    command: str
    user: str
    account: str = Field(description="Who is charged, else team, queue or namespace.")
    scheduler: str = Field(examples=["slurm"])
    state: State
    hosts: list[str]
    hosts_lost: list[str]
    gpus: int = Field(description="GPUs that it ever held.")
    world_size: int | None
    started_at: str
    ended_at: str | None
    last_seen_at: str
    duration_s: float
    processes: int | None
    cpu_cores: float | None
    rss_bytes: int | None
    gpu_memory_bytes: int | None
    gpu_hours: float | None = Field(description="Of the window, by whole hours; so are those that follow.")
    idle_gpu_hours: float | None
    gpu_util: float | None
    sm_active: float | None
    tensor_active: float | None
    power_watts: float | None = Field(description="Mean of a GPU.")
    spark: list[float | None] = Field(description="GPU utilisation over the window, in at most 30 steps.")


class Jobs(BaseModel):
    """A page of jobs."""

    data: list[Job]
    total: int
    next: int | None = Field(description="Offset of the page after; null on the last.")
    spark_step_s: int
    spark_since: int = Field(description="Where the first step begins, seconds since the epoch.")


SORTABLE: Final = tuple(name for name in Job.model_fields if name not in ("hosts", "hosts_lost", "spark"))


@router.get("/jobs", response_class=Response, responses=told(Jobs))
def jobs(
    _: Viewer, reads: Asking, window: Asked, answers: Answers,
    page: Annotated[Page, Depends(paging.by(SORTABLE, "-started_at"))],
    state: Annotated[State | None, Query(description="In this state alone.")] = None,
    user: Annotated[str, Query(max_length=400, description="Of this user alone.")] = "",
    host: Annotated[str, Query(max_length=400, description="On this host alone.")] = "",
    gpus: Annotated[GpuState | None, Query(description="With a GPU that is so now.")] = None,
    search: Annotated[str, Query(max_length=400, description="In id, name, command, user or account.")] = "",
) -> Response:  # fmt: skip
    """Jobs that ran in the window, each with a line of its GPU utilisation."""
    given = {
        "state": state or "",
        "user": user,
        "host": host,
        "search": search,
        "gpus": gpus or "",
        **_bounds(window),
    }
    data, total = paging.page_of(reads, "jobs_listed", page, **given)
    data = sparks.drawn(data, sparks.JOBS, reads, window)
    return answers.json({**paging.answer(data, total, page), **sparks.told(window)})


class Efficiency(BaseModel):
    """How well a job used its GPUs over its whole life, from its hours; all null before it has any."""

    job_id: str
    gpu_hours: float | None
    wasted_gpu_hours: float | None = Field(description="Its GPUs were known to be below 5 %.")
    wasted: float | None
    gpu_util: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    power_watts: float | None = Field(description="Mean of a GPU.")
    energy_joules: float | None
    fb_used_bytes_max: int | None = Field(description="Most on one GPU.")
    cpu_cores: float | None = Field(description="Mean of a process tree.")
    rss_bytes_max: int | None = Field(description="Most of a process tree.")
    read_bytes: int | None
    written_bytes: int | None


@router.get("/jobs/{job_id:named}/efficiency", response_class=Response, responses=told(Efficiency, named=True))
def efficiency(_: Viewer, job_id: str, reads: Asking, answers: Answers) -> Response:
    """GPU hours, how many were wasted, utilisation and energy, over its whole life."""
    found = json.loads(reads.json("job_efficiency_of", form="JSON", job_id=job_id))["data"]
    if not found:
        job_or_404(reads, job_id)
    unknown: dict[str, Any] = dict.fromkeys(Efficiency.model_fields)
    return answers.json({**unknown, **(found[0] if found else {}), "job_id": job_id})


class Rank(BaseModel):
    """A GPU that a job held, with its means over the window while the job ran."""

    rank: int | None = Field(description="Of the process on the GPU, else of the process tree that held it.")
    host: str
    pid: int | None
    gpu: int | None
    uuid: str
    gpu_util: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    power_watts: float | None
    temperature_celsius: float | None
    sm_clock_hertz: float | None
    fb_used_bytes: float | None
    odd: list[str] = Field(description="Metrics in which it is far from the others.", examples=[["sm_active"]])


class Ranks(BaseModel):
    """Ranks side by side."""

    data: list[Rank]


@router.get("/jobs/{job_id:named}/ranks", response_class=Response, responses=told(Ranks, named=True))
def ranks(_: Viewer, job_id: str, reads: Asking, window: Asked, answers: Answers) -> Response:
    """Its GPUs side by side, the odd ones marked: more than six median deviations from the median."""
    return _all(reads, answers, "job_ranks", "gpu_heatmap", job_id, window)


class JobHost(BaseModel):
    """What a job did on one of its hosts; from gpu_hours on over the window."""

    host: str
    state: State
    pids: list[int]
    ranks: list[int]
    gpus: int
    started_at: str
    ended_at: str | None
    last_seen_at: str
    gpu_hours: float | None
    wasted_gpu_hours: float | None
    wasted: float | None
    gpu_util: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    power_watts: float | None
    energy_joules: float | None
    fb_used_bytes_max: int | None
    cpu_cores: float | None
    rss_bytes_max: int | None
    read_bytes: int | None
    written_bytes: int | None


class JobHosts(BaseModel):
    """Its hosts, by name."""

    data: list[JobHost]


@router.get("/jobs/{job_id:named}/hosts", response_class=Response, responses=told(JobHosts, named=True))
def job_hosts(_: Viewer, job_id: str, reads: Asking, window: Asked, answers: Answers) -> Response:
    """What it did on each of its hosts."""
    return _all(reads, answers, "job_hosts", "job_windows", job_id, window)


class OneJob(Job):
    """A job with all that is known of it."""

    pids: list[int]
    gpu_uuids: list[str]
    ranks: list[int]
    labels: dict[str, str]
    tree_id: str


@one.get("/jobs/{job_id:named}", response_class=Response, responses=told(OneJob, named=True))
def job_of(_: Viewer, job_id: str, reads: Asking, window: Asked, answers: Answers) -> Response:
    """One job, whenever it ran; what is said of the window is null when it did not run in it."""
    found = json.loads(reads.json("job_listed", form="JSON", job_id=job_id, **_bounds(window)))["data"]
    if not found:
        raise missing("path", "job_id", f"nothing has been heard of a job {job_id}: /api/v1/jobs lists them", job_id)
    return answers.json(sparks.drawn(found, sparks.JOBS, reads, window)[0])


def _bounds(window: Window) -> dict[str, str]:
    return {"since": window.since.isoformat(), "until": window.until.isoformat()}


def _all(reads: Reads, answers: Answering, query: str, table: str, job_id: str, window: Window) -> Response:
    """All rows of a query about a job, from minutes or hours; 404 when nothing has been heard of it."""
    tier = window.spark.tier if window.tier == "raw" else window.tier
    given = {"job_id": job_id, "windows": f"{table}_{SUFFIX[tier]}", "step_s": WINDOWS_S[tier], **_bounds(window)}
    data = json.loads(reads.json(query, form="JSON", **given))["data"]
    if not data:
        job_or_404(reads, job_id)
    return answers.json({"data": data})

"""The fleet as a whole: statistics, states, series, heatmap."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from warpmeter.schemas.metrics import Metric
from warpmeter.web.request import paging
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking
from warpmeter.web.request.known import host_or_404, job_or_404
from warpmeter.web.request.times import SUFFIX, WINDOWS_S, Asked, Tier, Window
from warpmeter.web.store import series
from warpmeter.web.store.answers import Answers, told
from warpmeter.web.store.reads import Reads

router = APIRouter(tags=["fleet"])


class Statistic(BaseModel):
    """A headline metric over the window, and its mean over the window of the same length before."""

    metric: str = Field(examples=["gpu_util"])
    unit: str = Field(examples=["ratio 0-1"])
    mean: float | None = Field(examples=[0.81])
    p50: float | None = Field(examples=[0.93])
    p95: float | None = Field(examples=[0.99])
    before: float | None = Field(examples=[0.76])
    change: float | None = Field(description="mean - before", examples=[0.05])


class Statistics(BaseModel):
    """Headline statistics of the fleet; null is what is not known."""

    metrics: list[Statistic]
    gpus: int = Field(description="GPUs seen in the window.", examples=[512])
    hosts: int = Field(examples=[64])
    gpu_hours: float = Field(examples=[512.0])
    idle_gpu_hours: float = Field(description="Of them, known to be below 5 %.", examples=[31.5])
    since: str
    until: str
    tier: Tier


@router.get("/fleet/statistics", response_class=Response, responses=told(Statistics, lasting=True))
def statistics(_: Viewer, reads: Asking, window: Asked, answers: Answers) -> Response:
    """Means, medians and 95th percentiles of the headline metrics, and the change against the window before.

    A window of up to half an hour is taken from the samples; a longer one begins with a whole minute, beyond two days
    with a whole hour.
    """
    given: dict[str, Any] = {"before": window.before.since.isoformat(), "since": window.since.isoformat()}
    given["until"] = window.until.isoformat()
    tier = _tier_of_statistics(window)
    if tier == "raw":
        rows = json.loads(reads.json("fleet_statistics_raw", form="JSON", **given))["data"]
    else:
        given |= {"windows": f"fleet_windows_{SUFFIX[tier]}", "step_s": WINDOWS_S[tier]}
        rows = json.loads(reads.json("fleet_statistics", form="JSON", **given))["data"]
    counts = json.loads(reads.json("fleet_counts", form="JSON", since=given["since"], until=given["until"]))["data"][0]
    metrics = [{name: row[name] for name in Statistic.model_fields} for row in rows]
    hours = {name: rows[0][name] for name in ("gpu_hours", "idle_gpu_hours")}
    told = {"since": given["since"], "until": given["until"], "tier": tier}
    return answers.json({"metrics": metrics, **counts, **hours, **told}, lasting=window.closed)


def _tier_of_statistics(window: Window) -> Tier:
    if window.tier == "raw":
        return "raw"
    return "hour" if window.tier == "hour" or (window.until - window.since).days >= 2 else "minute"


class GpuStates(BaseModel):
    """Columns of one value a GPU."""

    host: list[str]
    gpu: list[int]
    uuid: list[str]
    job_id: list[str]
    state: list[str]
    why: list[str]


class States(BaseModel):
    """How many GPUs are in each state now."""

    busy: int = Field(examples=[440])
    idle: int = Field(description="Below 5 %.", examples=[68])
    failing: int = Field(
        description="An XID stands, memory has errors, or what harms holds its clocks down: `problems` of /gpus.",
        examples=[3],
    )
    gone: int = Field(description="Lost, or nothing has been heard of it for a minute.", examples=[1])
    total: int = Field(examples=[512])
    gpus: GpuStates | None = Field(default=None, description="With `gpus=true`.")


@router.get("/fleet/states", response_class=Response, responses=told(States))
def states(
    _: Viewer,
    reads: Asking,
    answers: Answers,
    gpus: Annotated[bool, Query(description="Each GPU's state as well.")] = False,
) -> Response:
    """How many GPUs are busy, idle, failing and gone now."""
    counts = json.loads(reads.json("fleet_states", form="JSON"))["data"][0]
    if gpus:
        counts["gpus"] = json.loads(reads.json("gpu_states"))
    return answers.json(counts)


class Series(BaseModel):
    """One line: a value a step, null where nothing is known."""

    key: str = Field(description="Unique in the answer, and what to call it.", examples=["gpu-0001/3"])
    host: str
    gpu: int | None
    uuid: str
    job_id: str
    kind: str = Field("", description="Of a device.")
    device: str = ""
    mean: float | None = Field(description="Over the window.")
    values: list[float | None]


class Chart(BaseModel):
    """Series of one metric, in SI units."""

    metric: str = Field(examples=["gpu_util"])
    unit: str = Field(examples=["ratio 0-1"])
    topic: str = Field(examples=["gpu-samples"])
    tier: Tier
    series: list[Series]
    total: int = Field(description="How many series there were; those with the highest means are in the answer.")


class Charts(BaseModel):
    """Metrics over a window."""

    since: str
    until: str
    step_s: int = Field(examples=[60])
    times: list[int] = Field(description="Where each step begins, seconds since the epoch.")
    charts: list[Chart] = Field(description="One of each metric, in the order in which they were asked for.")


NOT_OF_LINES: Final = ("metric", "stored_mean")
"""Columns of queries for series that are said once a chart, or order it."""
MetricName = Annotated[str, Field(max_length=100)]


@router.get("/series", response_class=Response, responses=told(Charts, named=True, lasting=True))
def charts(
    _: Viewer, reads: Asking, window: Asked, answers: Answers,
    metric: Annotated[list[MetricName], Query(
        min_length=1, max_length=20, examples=[["gpu_util", "power_watts"]],
        description="SI name of a metric; of several at once: `metric=gpu_util&metric=power_watts`.",
    )],
    by: Annotated[series.By, Query(description="What a series is of.")] = "fleet",
    topic: Annotated[series.Topic | None, Query(description="Whose metric, where several have that name.")] = None,
    host: Annotated[str, Query(max_length=400)] = "",
    job: Annotated[str, Query(max_length=400, description="Of its GPUs or hosts alone, while it ran.")] = "",
    gpu: Annotated[str, Query(max_length=100, description="Index or uuid.")] = "",
    device: Annotated[str, Query(max_length=400, examples=["eth0"])] = "",
    kind: Annotated[str, Query(max_length=100, description="nic, rdma, disk, mount, numa, socket.")] = "",
    top: Annotated[int, Query(ge=1, le=1000, description="Series with the highest means.")] = 20,
) -> Response:  # fmt: skip
    """Metrics over time, by fleet, host, GPU, job or device; from samples, minutes or hours as the window allows."""
    found = [series.metric(name, topic, by, bool(device or kind)) for name in dict.fromkeys(metric)]
    asked = [series.Question(each, by, host, gpu, job, device, kind, top) for each in found]
    answered = (_charts(reads, plan, some) for plan, some in series.together(asked, window))
    of = {chart["metric"]: chart for charts in answered for chart in charts}
    drawn = [of[each.name] for each in found]
    if not any(each["series"] for each in drawn):
        _known(reads, host, job)
    return answers.json({**_over(window), "times": window.times, "charts": drawn}, lasting=window.closed)


def _charts(reads: Reads, plan: series.Plan, asked: Sequence[series.Question]) -> Iterator[dict[str, Any]]:
    """What one query answers: a chart for each question."""
    rows, total = paging.rows(reads, plan.query, **plan.given)
    for each in asked:
        found = [row for row in rows if row.get("metric", each.metric.name) == each.metric.name]
        lines = [{name: value for name, value in row.items() if name not in NOT_OF_LINES} for row in found]
        if each.by == "job" and each.job:
            lines = [line | {"key": each.job, "job_id": each.job} for line in lines]
        yield {**_told(each.metric, plan.tier), "series": lines, "total": max(total, len(lines))}


def _told(metric: Metric, tier: Tier) -> dict[str, Any]:
    return {"metric": metric.name, "unit": metric.unit, "topic": metric.topic, "tier": tier}


def _over(window: Window) -> dict[str, Any]:
    return {"since": window.since.isoformat(), "until": window.until.isoformat(), "step_s": window.step_s}


def _known(reads: Reads, host: str, job: str) -> None:
    if host:
        host_or_404(reads, host, "query")
    if job:
        job_or_404(reads, job, "query", "job")


class Columns(BaseModel):
    """Columns of one value a GPU."""

    host: list[str]
    gpu: list[int]
    uuid: list[str]
    job_id: list[str] = Field(description="The job that it last had, or ''.")
    start: list[str]
    values: list[list[float | None]]


class Heat(BaseModel):
    """A metric of every GPU over a window, in SI units: a value a step."""

    metric: str = Field(examples=["gpu_util"])
    unit: str
    topic: str
    since: str
    until: str
    first: int = Field(description="Where the first step begins, seconds since the epoch.")
    step_s: int
    tier: Tier
    columns: Columns


@router.get("/heatmap", response_class=Response, responses=told(Heat, named=True, lasting=True))
def heatmap(
    _: Viewer, reads: Asking, window: Asked, answers: Answers,
    metric: Annotated[str, Query(max_length=100, description="SI name of a GPU's metric.")] = "gpu_util",
    host: Annotated[str, Query(max_length=400)] = "",
    job: Annotated[str, Query(max_length=400, description="Of its GPUs alone, while it ran.")] = "",
) -> Response:  # fmt: skip
    """A row a GPU, in columns, a value a step: `{"columns": {"host": [...], "gpu": [...], "values": [[...]]}}`."""
    found = series.metric(metric, "gpu-samples", "gpu", device=False)
    tier: Tier = window.tier if found.rolled_up else "raw"
    given: dict[str, Any] = {"metric": metric, "host": host, "job_id": job, **window.parameters()}
    if tier == "raw":
        columns = reads.json("heatmap_raw", **given)
    else:
        columns = reads.json("heatmap", windows=f"gpu_heatmap_{SUFFIX[tier]}", **given)
    if len(columns) < 300 and not json.loads(columns)["host"]:
        _known(reads, host, job)
    head = json.dumps({**_told(found, tier), **_over(window), "first": window.first})
    return answers.json(head.encode()[:-1] + b',"columns":' + columns + b"}", lasting=window.closed)

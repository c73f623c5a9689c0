"""Which named query answers a question for series, from which tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from warpmeter import queries
from warpmeter.schemas.metrics import METRICS, Metric
from warpmeter.web.request.times import SUFFIX, Tier, Window, invalid

By = Literal["fleet", "host", "gpu", "job", "device"]
Topic = Literal["gpu-samples", "host-samples", "device-samples"]
TOPICS: Final[tuple[Topic, ...]] = ("gpu-samples", "host-samples", "device-samples")
BY: Final[Mapping[str, tuple[By, ...]]] = {
    "gpu-samples": ("fleet", "host", "gpu", "job"),
    "host-samples": ("fleet", "host"),
    "device-samples": ("fleet", "host", "device"),
}
OF_FLEET: Final = frozenset({
    "gpu_util", "sm_active", "tensor_active", "dram_active", "fb_used_bytes", "fb_total_bytes", "power_watts",
    "temperature_celsius",
})  # fmt: skip
"""Metrics that fleet_windows keeps."""
RATIOS: Final = ("gpu_util", "sm_active", "tensor_active", "dram_active")
OF_JOBS: Final[Mapping[str, tuple[str, str]]] = {
    **{ratio: (f"{ratio}_seconds", f"{ratio}_known_seconds") for ratio in RATIOS},
    "power_watts": ("energy_joules", "power_known_seconds"),
}
"""Metrics that job_windows keeps: the metric times seconds, and the seconds in which it was known."""


@dataclass(frozen=True)
class Question:
    """What is asked: a metric by `by`, of what the other fields narrow it to; '' where they do not."""

    metric: Metric
    by: By
    host: str = ""
    gpu: str = ""
    job: str = ""
    device: str = ""
    kind: str = ""
    top: int = 20


@dataclass(frozen=True)
class Plan:
    """The named query, what it is given, and which tables it reads."""

    query: str
    given: Mapping[str, Any]
    tier: Tier


AT_ONCE: Final = 8
"""Metrics of one query: with the longest names of hosts and jobs, an address still holds them."""


def together(asked: Iterable[Question], window: Window) -> Iterator[tuple[Plan, list[Question]]]:
    """How to answer: each plan, and what it answers. One query answers metrics that differ in nothing but the name.

    Raises a validation error where the tables cannot.
    """
    alike: dict[tuple[object, ...], list[tuple[Plan, Question]]] = {}
    for each in asked:
        found = plan(each, window)
        beside = tuple((name, value) for name, value in found.given.items() if name not in queries.METRICS)
        alone = "" if queries.get(found.query).many else each.metric.name
        alike.setdefault((found.query, alone, *beside), []).append((found, each))
    for pairs in alike.values():
        for start in range(0, len(pairs), AT_ONCE):
            some = pairs[start : start + AT_ONCE]
            yield _joined([found for found, _ in some]), [each for _, each in some]


def _joined(plans: Sequence[Plan]) -> Plan:
    names = {name: ",".join(each.given[name] for each in plans) for name in plans[0].given if name in queries.METRICS}
    return replace(plans[0], given={**plans[0].given, **names})


def metric(name: str, topic: Topic | None, by: By, device: bool) -> Metric:
    """The metric that a name means: of `topic`, else of devices where these are asked for, else GPUs before hosts.

    Raises a validation error that names the field.
    """
    if topic is None and (device or by == "device"):
        topic = "device-samples"
    named = {found.topic: found for found in METRICS if found.name == name and found.topic in TOPICS}
    for candidate in TOPICS if topic is None else (topic,):
        if candidate in named and (topic is not None or by in BY[candidate]):
            return named[candidate]
    if named and topic is None:
        raise invalid("by", f"{name} is not kept by {by}; take {', '.join(BY[next(iter(named))])}", by)
    raise invalid(
        "metric", f"there is no metric {name}{f' in {topic}' if topic else ''}: /api/v1/metrics lists them", name
    )


def plan(asked: Question, window: Window) -> Plan:
    """How to answer; raises a validation error where the tables cannot."""
    if asked.by not in BY[asked.metric.topic]:
        allowed = ", ".join(BY[asked.metric.topic])
        raise invalid("by", f"{asked.metric.name} of {asked.metric.topic} comes by {allowed}", asked.by)
    if asked.metric.topic == "device-samples":
        return _of_devices(asked, window)
    if asked.metric.topic == "host-samples":
        return _of_hosts(asked, window)
    return _by_job(asked, window) if asked.by == "job" else _of_gpus(asked, window)


def _tier(metric: Metric, window: Window) -> Tier:
    return window.tier if metric.rolled_up else "raw"


def _of_gpus(asked: Question, window: Window) -> Plan:
    tier = _tier(asked.metric, window)
    name = {"metric": asked.metric.name, **window.parameters()}
    narrowed = asked.host or asked.gpu or asked.job
    if tier != "raw" and asked.by == "fleet" and not narrowed and asked.metric.name in OF_FLEET:
        return Plan("series_fleet", {**name, "windows": f"fleet_windows_{SUFFIX[tier]}"}, tier)
    given = {**name, "by": asked.by, "host": asked.host, "gpu": asked.gpu, "job_id": asked.job, "top": asked.top}
    if tier == "raw":
        return Plan("series_gpu_raw", given, tier)
    return Plan("series_gpu", {**given, "windows": f"gpu_heatmap_{SUFFIX[tier]}"}, tier)


def _by_job(asked: Question, window: Window) -> Plan:
    if asked.gpu:
        raise invalid("gpu", "a job's series is over all its GPUs; take by=gpu for one", asked.gpu)
    tier = _tier(asked.metric, window)
    given = {**window.parameters(), "host": asked.host, "job_id": asked.job, "top": asked.top}
    if tier == "raw":
        return Plan("series_job_raw", {**given, "metric": asked.metric.name}, tier)
    if asked.metric.name in OF_JOBS:
        total, known = OF_JOBS[asked.metric.name]
        return Plan(
            "series_job", {**given, "total": total, "known": known, "windows": f"job_windows_{SUFFIX[tier]}"}, tier
        )
    if not asked.job:
        kept = ", ".join(OF_JOBS)
        why = f"for more than half an hour jobs keep {kept}; for {asked.metric.name} name one job, or take by=gpu"
        raise invalid("metric", why, asked.metric.name)
    given |= {"metric": asked.metric.name, "by": "fleet", "windows": f"gpu_heatmap_{SUFFIX[tier]}"}
    return Plan("series_gpu", given, tier)


def _of_hosts(asked: Question, window: Window) -> Plan:
    tier = _tier(asked.metric, window)
    given = {"host_metric": asked.metric.name, **window.parameters(), "by": asked.by}
    given |= {"host": asked.host, "job_id": asked.job, "top": asked.top}
    if tier == "raw":
        return Plan("series_host_raw", given, tier)
    return Plan("series_host", {**given, "windows": f"host_windows_{SUFFIX[tier]}"}, tier)


def _of_devices(asked: Question, window: Window) -> Plan:
    """Devices have no minutes: hours, or the raw rows. Rates add up over the devices of a host, all else is a mean."""
    given = {"device_metric": asked.metric.name, **window.parameters(), "by": asked.by, "host": asked.host}
    given |= {"kind": asked.kind, "device": asked.device, "job_id": asked.job, "top": asked.top}
    given |= {"total": int(asked.metric.kind == "rate")}
    hours = asked.metric.rolled_up and window.tier == "hour"
    return Plan("series_device" if hours else "series_device_raw", given, "hour" if hours else "raw")

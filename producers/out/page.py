"""The latest rows as Prometheus metrics: what prometheus-client's registry collects at each scrape.

No timestamps: a value that is not there any more is absent from the next page, and Prometheus marks it stale then.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

from warpmeter.producers.out import names
from warpmeter.producers.out.latest import Kept
from warpmeter.rows import scaled
from warpmeter.schemas.exposed import WHAT, Exposed, exposed
from warpmeter.schemas.metrics import Metric, of_topic

Labels = dict[str, str]
EXPOSED: Final[Mapping[str, Mapping[str, tuple[Metric, Exposed]]]] = {
    topic: {metric.column: (metric, exposed(metric)) for metric in of_topic(topic)} for topic in WHAT
}
LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu-samples": ("host", "gpu", "uuid"),
    "gpu-processes": ("host", "gpu", "uuid", "pid", "job_id", "name", "user"),
    "gpu-events": ("host", "gpu", "uuid", "kind", "code", "what"),
    "host-samples": ("host",),
    "device-samples": ("host", "kind", "device"),
    "job-events": ("host", "job_id", "pid"),
    "source-health": ("host", "source", "subject", "state"),
}
INFO: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "gpu-samples": ("warpmeter_gpu_info", "what a GPU or MIG instance is", ("model",)),
    "gpu-events": ("warpmeter_gpu_event_raised", "1 from an event of a GPU (XID) until it is cleared", ()),
    "host-samples": ("warpmeter_host_info", "what a host runs", ("kernel", "agent_version")),
    "job-events": ("warpmeter_job_info", "whose a job is", ("name", "user", "scheduler")),
    "source-health": ("warpmeter_source_state", "1 for the state that a source of the agent is in", ()),
}
"""Always 1: name, meaning, and the fields that its labels add."""
OF_THE_JOB: Final = frozenset({"account", "partition", "step", "namespace", "pod", "container", "team", "queue"})
"""Labels of a job that `warpmeter_job_info` has too, where they are known."""


class Page:
    """The page of some rows; add each, then take the families."""

    def __init__(self, dynolog: bool) -> None:
        self._dynolog = dynolog
        self._families: dict[str, Family] = {}

    def families(self) -> list[Family]:
        """All of them, in the order in which they were met."""
        return list(self._families.values())

    def add(self, kept: Kept) -> None:
        """The metrics of one row."""
        topic, row = kept.topic, kept.row
        labels = labels_of(topic, row)
        for name, help_, more in _info(topic, row):
            self._put(name, "gauge", help_, {**labels, **more}, 1.0)
        if topic == "gpu-samples":
            self._shares(row, labels)
            if row.job_ids:
                labels["job_id"] = ",".join(row.job_ids)
        if topic in EXPOSED:
            self._measured(topic, row, labels)
        if self._dynolog and topic == "host-samples":
            for name, told in names.of_host(row).items():
                self._put(name, "gauge", "as dynolog has it, over all cores", labels, told)

    def _measured(self, topic: str, row: Any, labels: Labels) -> None:
        known = EXPOSED[topic]
        theirs = names.aliases(topic, row.kind if topic == "device-samples" else "") if self._dynolog else {}
        for field, value in row.ListFields():
            if (column := field.name) in theirs:
                metric, alias = theirs[column]
                told = names.dynolog_value(alias, metric, value, row.period_ms)
                self._put(names.at_metrics(alias, labels.get("device", "")), "gauge", metric.meaning, labels, told)
            elif column in known:
                metric, ours = known[column]
                self._put(ours.name, ours.kind, metric.meaning, labels, scaled(value, ours.factor))

    def _shares(self, row: Any, labels: Labels) -> None:
        help_ = "share of a GPU's busy time that a job on it had"
        for job, share in zip(row.job_ids, row.job_share_permille, strict=False):
            self._put("warpmeter_gpu_job_share_ratio", "gauge", help_, {**labels, "job_id": job}, scaled(share, 0.001))

    def _put(self, name: str, kind: str, help_: str, labels: Labels, value: float) -> None:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = Family(name.removesuffix("_total"), help_, kind)
        family.samples.append(Sample(name, labels, value))


class Collected:
    """A collector for prometheus-client: the page of what stands when it is asked."""

    def __init__(self, rows: Callable[[], list[Kept]], dynolog: bool) -> None:
        self._rows, self._dynolog = rows, dynolog

    def collect(self) -> Iterator[Family]:
        """Every family, for one scrape."""
        page = Page(self._dynolog)
        for kept in self._rows():
            page.add(kept)
        yield from page.families()


def labels_of(topic: str, row: Any) -> Labels:
    """The labels that tell a row from others; those that are empty are left out."""
    found = ((name, str(getattr(row, name))) for name in LABELS[topic])
    labels = {name: value for name, value in found if value}
    if topic == "gpu-samples":
        labels |= {name: str(getattr(row, name)) for name in ("gpu_instance", "compute_instance") if row.HasField(name)}
    return labels


def _info(topic: str, row: Any) -> Iterator[tuple[str, str, Labels]]:
    if topic in INFO:
        name, meaning, fields = INFO[topic]
        more = {field: getattr(row, field) for field in fields if getattr(row, field)}
        if topic == "job-events":
            more |= {key: value for key, value in row.labels.items() if key in OF_THE_JOB}
        yield name, meaning, more

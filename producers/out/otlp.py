"""The latest rows as an OTLP request. Imported only where OTLP is asked for.

Protobuf by OpenTelemetry's own generated messages (opentelemetry-proto): 72 kB that need nothing but the Protobuf that
the agent has loaded anyway. OTLP/JSON with the standard library would save that, for bodies more than twice as large.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
    NumberDataPoint,
    ScopeMetrics,
)

from warpmeter import __version__
from warpmeter.producers.out.latest import Kept
from warpmeter.rows import scaled
from warpmeter.schemas import metrics
from warpmeter.schemas.exposed import WHAT, Otel, otel

DEVICES: Final = {
    "nic": "network.interface.name",
    "rdma": "network.interface.name",
    "disk": "system.device",
    "mount": "system.filesystem.mountpoint",
}
"""Kind of device -> the attribute that the conventions have for its name."""


def attribute(key: str, value: str | int) -> KeyValue:
    """One attribute."""
    told = AnyValue(string_value=value) if isinstance(value, str) else AnyValue(int_value=value)
    return KeyValue(key=key, value=told)


def _gpu(row: Any) -> dict[str, str | int]:
    told: dict[str, str | int] = {
        "hw.id": row.uuid,
        "hw.type": "gpu",
        "hw.name": f"gpu{row.gpu}",
        "hw.model": row.model,
    }
    return {**told, "gpu.uuid": row.uuid, "gpu.index": row.gpu, "job.id": ",".join(row.job_ids)}


def _process(row: Any) -> dict[str, str | int]:
    process = {"process.pid": row.pid, "process.executable.name": row.name, "process.owner": row.user}
    return {"gpu.uuid": row.uuid, "gpu.index": row.gpu, "job.id": row.job_id, **process}


def _device(row: Any) -> dict[str, str | int]:
    return {"device.kind": row.kind, DEVICES.get(row.kind, "device.name"): row.device}


def _job(row: Any) -> dict[str, str | int]:
    return {"job.id": row.job_id, "job.name": row.name, "process.pid": row.pid, "process.owner": row.user}


ABOUT: Final[Mapping[str, Callable[[Any], Mapping[str, str | int]]]] = {
    "gpu-samples": _gpu,
    "gpu-processes": _process,
    "host-samples": lambda _: {},
    "device-samples": _device,
    "job-events": _job,
}


@cache
def _known(topic: str) -> Mapping[str, tuple[metrics.Metric, Otel, tuple[KeyValue, ...]]]:
    told = ((metric, otel(metric)) for metric in metrics.of_topic(topic))
    return {
        metric.column: (metric, known, tuple(attribute(*each) for each in known.attributes.items()))
        for metric, known in told
    }


class Request:
    """One export: add the rows, then take its bytes. `points`: how many values it has."""

    def __init__(self, host: str) -> None:
        self.points = 0
        self._request = ExportMetricsServiceRequest()
        resource = self._request.resource_metrics.add()
        who = {"host.name": host, "service.name": "warpmeter-agent", "service.version": __version__}
        resource.resource.attributes.extend(attribute(*each) for each in who.items())
        self._scope: ScopeMetrics = resource.scope_metrics.add()
        self._scope.scope.name, self._scope.scope.version = "warpmeter", __version__
        self._metrics: dict[str, Metric] = {}

    def add(self, rows: Iterable[Kept]) -> None:
        """The values of these rows; rows that measure nothing (health, events) have none."""
        for kept in rows:
            if kept.topic in WHAT:
                self._add(kept.topic, kept.row)

    def packed(self) -> bytes:
        """What goes over the wire, before gzip."""
        return self._request.SerializeToString()

    def _add(self, topic: str, row: Any) -> None:
        known, at = _known(topic), round(row.ts * 1e9)
        about = [attribute(key, value) for key, value in ABOUT[topic](row).items() if value != ""]
        for field, value in row.ListFields():
            if (found := known.get(field.name)) is None:
                continue
            metric, told, more = found
            point = self._point(metric, told)
            point.time_unix_nano = at
            point.attributes.extend(about)
            point.attributes.extend(more)
            number = scaled(value, metric.factor)
            if isinstance(number, int):
                point.as_int = number
            else:
                point.as_double = number
            self.points += 1

    def _point(self, metric: metrics.Metric, told: Otel) -> NumberDataPoint:
        made = self._metrics.get(told.name)
        if made is None:
            made = self._metrics[told.name] = self._scope.metrics.add()
            made.name, made.unit, made.description = told.name, told.unit, metric.meaning
            if told.kind != "gauge":
                made.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
                made.sum.is_monotonic = told.kind == "counter"
        data = made.gauge if told.kind == "gauge" else made.sum
        return data.data_points.add()

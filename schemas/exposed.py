"""What our metrics are called outside of Kafka and ClickHouse: at `/metrics` of Prometheus and in OpenTelemetry.

Prometheus: base units and suffixes as its naming practices ask, so that `promtool check metrics` has nothing to say.
OpenTelemetry: its semantic conventions for hardware, GPUs and systems (docs/hardware and docs/system there; all still
marked as in development) where they have the metric, `warpmeter.<what>.<metric>` elsewhere; units in UCUM, not in the
name. What they have as a counter of bytes is a rate here, so it keeps our name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from warpmeter.schemas.metrics import Metric

WHAT: Final[Mapping[str, str]] = {
    "gpu-samples": "gpu",
    "gpu-processes": "gpu_process",
    "host-samples": "host",
    "device-samples": "device",
    "job-events": "job",
}
"""Topic -> the thing that its metrics are of, in their names."""

UNIT_SUFFIXES: Final = (
    "_bytes_per_s", "_bits_per_s", "_per_s", "_bytes", "_watts", "_joules", "_celsius", "_hertz", "_seconds", "_s",
)  # fmt: skip
"""How a unit ends an SI name, the longer before the shorter."""

_IN_FULL: Final = {"_bytes_per_s": "_bytes_per_second", "_per_s": "_per_second", "_s": "_seconds"}
UCUM: Final = {"W": "W", "J": "J", "°C": "Cel", "B": "By", "B/s": "By/s", "bit/s": "bit/s", "1/s": "1/s", "Hz": "Hz",
               "s": "s", "ratio 0-1": "1", "1": "1"}  # fmt: skip


@dataclass(frozen=True)
class Exposed:
    """A metric at `/metrics`: value = stored value * factor. A counter's name ends in `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    factor: float


@dataclass(frozen=True)
class Otel:
    """A metric in OpenTelemetry, in SI. `updown`: a sum that also falls, as the conventions have of memory."""

    name: str
    kind: Literal["gauge", "counter", "updown"]
    unit: str
    attributes: Mapping[str, str] = field(default_factory=dict)


def without_unit(metric: Metric) -> str:
    """Its SI name without the unit: `power` of `power_watts`."""
    return next((metric.name.removesuffix(end) for end in UNIT_SUFFIXES if metric.name.endswith(end)), metric.name)


def exposed(metric: Metric) -> Exposed:
    """The metric as Prometheus sees it: `warpmeter_gpu_power_watts`."""
    what = WHAT[metric.topic]
    name, factor = metric.name.removeprefix(f"{what}_"), metric.factor
    if name.endswith("_bits_per_s"):  # Prometheus knows bytes alone
        name, factor = name.removesuffix("_bits_per_s") + "_bytes_per_s", factor / 8
    for short, full in _IN_FULL.items():
        if name.endswith(short):
            name = name.removesuffix(short) + full
            break
    if metric.unit == "ratio 0-1" and not name.endswith("_ratio"):
        name += "_ratio"
    if metric.kind == "counter":
        return Exposed(f"warpmeter_{what}_{name}_total", "counter", factor)
    return Exposed(f"warpmeter_{what}_{name.removesuffix('_total')}", "gauge", factor)  # that is how counters end


def otel(metric: Metric) -> Otel:
    """The metric as OpenTelemetry sees it: `hw.power`, or `warpmeter.gpu.power_limit`."""
    if known := CONVENTIONS.get(metric.topic, {}).get(metric.column):
        return known
    what = WHAT[metric.topic]
    name = f"warpmeter.{what}.{without_unit(metric).removeprefix(f'{what}_')}"
    return Otel(name, "counter" if metric.kind == "counter" else "gauge", UCUM[metric.unit])


def _of_gpu(task: str) -> Otel:
    return Otel("hw.gpu.utilization", "gauge", "1", {"hw.gpu.task": task})


def _errors(kind: str) -> Otel:
    return Otel("hw.errors", "counter", "{error}", {"error.type": kind})


def _cpu(mode: str) -> Otel:
    return Otel("system.cpu.utilization", "gauge", "1", {"cpu.mode": mode})


def _memory(state: str) -> Otel:
    return Otel("system.memory.usage", "updown", "By", {"system.memory.state": state})


# Topic, then stored column.
CONVENTIONS: Final[Mapping[str, Mapping[str, Otel]]] = {
    "gpu-samples": {
        "gpu_util_permille": _of_gpu("general"),
        "encoder_util_permille": _of_gpu("encoder"),
        "decoder_util_permille": _of_gpu("decoder"),
        "fb_used_mebibytes": Otel("hw.gpu.memory.usage", "updown", "By"),
        "fb_total_mebibytes": Otel("hw.gpu.memory.limit", "updown", "By"),
        "power_deciwatts": Otel("hw.power", "gauge", "W"),
        "energy_joules": Otel("hw.energy", "counter", "J"),
        "temperature_celsius": Otel("hw.temperature", "gauge", "Cel", {"hw.sensor_location": "gpu"}),
        "mem_temperature_celsius": Otel("hw.temperature", "gauge", "Cel", {"hw.sensor_location": "memory"}),
        "ecc_corrected_errors": _errors("corrected"),
        "ecc_uncorrected_errors": _errors("uncorrected"),
    },
    "host-samples": {
        "uptime_s": Otel("system.uptime", "gauge", "s"),
        "cores": Otel("system.cpu.logical.count", "updown", "{cpu}"),
        "cpu_user_permille": _cpu("user"),
        "cpu_nice_permille": _cpu("nice"),
        "cpu_system_permille": _cpu("system"),
        "cpu_iowait_permille": _cpu("iowait"),
        "cpu_irq_permille": _cpu("interrupt"),
        "cpu_softirq_permille": _cpu("softirq"),
        "cpu_steal_permille": _cpu("steal"),
        "cpu_idle_permille": _cpu("idle"),
        "mem_total_mebibytes": Otel("system.memory.limit", "updown", "By"),
        "mem_free_mebibytes": _memory("free"),
        "mem_cached_mebibytes": _memory("cached"),
        "mem_buffers_mebibytes": _memory("buffers"),
    },
}

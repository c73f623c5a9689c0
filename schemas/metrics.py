"""The metric table: every measured column, its SI form, unit, kind, meaning and sources.

A stored column carries its scale in its name (`power_deciwatts`); what people read is SI (`power_watts`, an ALIAS
of the table). `SCALES` is the one place that says what a suffix means. What other systems call a metric is in
`equals.py`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from warpmeter.schemas.measured import devices, gpu, host, jobs, processes

Kind = Literal["gauge", "counter", "ratio", "rate", "bits"]


@dataclass(frozen=True)
class Scale:
    """A suffix of a stored column: the SI suffix in its place, the factor to multiply by, and the unit."""

    si_suffix: str
    factor: float
    unit: str


SCALES: Final[Mapping[str, Scale]] = {
    "_permille": Scale("", 0.001, "ratio 0-1"),
    "_deciwatts": Scale("_watts", 0.1, "W"),
    "_megabytes_per_s": Scale("_bytes_per_s", 1e6, "B/s"),
    "_kilobytes_per_s": Scale("_bytes_per_s", 1e3, "B/s"),
    "_megabits_per_s": Scale("_bits_per_s", 1e6, "bit/s"),
    "_milli_per_s": Scale("_per_s", 0.001, "1/s"),
    "_kilo_per_s": Scale("_per_s", 1e3, "1/s"),
    "_mega_per_s": Scale("_per_s", 1e6, "1/s"),
    "_mebibytes": Scale("_bytes", 1048576, "B"),
    "_megahertz": Scale("_hertz", 1e6, "Hz"),
    "_microseconds": Scale("_seconds", 1e-6, "s"),
    "_centi": Scale("", 0.01, "1"),
    "_milli": Scale("", 0.001, "1"),
}

# Units of columns that are stored in SI already.
PLAIN: Final[Mapping[str, str]] = {
    "_joules": "J",
    "_celsius": "°C",
    "_bytes": "B",
    "_per_s": "1/s",
    "_s": "s",
}


@dataclass(frozen=True)
class Metric:
    """One measured column of one topic's table; the unit is derived from the column's name."""

    topic: str
    column: str
    kind: Kind
    meaning: str
    sources: tuple[str, ...] = ()
    rolled_up: bool = False
    """Kept in windows of minutes and hours too (of devices in hours), long after the raw rows are gone."""

    @property
    def suffix(self) -> str:
        """The scale suffix of the column, or '' when it is stored in SI."""
        return next((suffix for suffix in SCALES if self.column.endswith(suffix)), "")

    @property
    def name(self) -> str:
        """The name in SI units, e.g. `power_watts`: the ALIAS column."""
        suffix = self.suffix
        return self.column.removesuffix(suffix) + SCALES[suffix].si_suffix if suffix else self.column

    @property
    def factor(self) -> float:
        """SI value = stored value * factor."""
        return SCALES[self.suffix].factor if self.suffix else 1.0

    @property
    def unit(self) -> str:
        """SI unit, '1' for a plain number."""
        if self.suffix:
            return SCALES[self.suffix].unit
        return next((unit for suffix, unit in PLAIN.items() if self.column.endswith(suffix)), "1")


def _metrics(topic: str, rows: Sequence[tuple[str, ...]], rolled_up: Collection[str] = ()) -> Iterator[Metric]:
    for column, kind, meaning, *sources in rows:
        yield Metric(topic, column, cast(Kind, kind), meaning, tuple(sources), column in rolled_up)


def _but(rows: Sequence[tuple[str, ...]], raw_only: Collection[str]) -> Collection[str]:
    return {column for column, *_ in rows} - set(raw_only)


METRICS: Final[tuple[Metric, ...]] = (
    *_metrics("gpu-samples", gpu.ROWS, _but(gpu.ROWS, gpu.RAW_ONLY)),
    *_metrics("gpu-processes", processes.ROWS),
    *_metrics("host-samples", host.ROWS, _but(host.ROWS, host.RAW_ONLY)),
    *_metrics("device-samples", devices.ROWS, devices.ROLLED_UP),
    *_metrics("job-events", jobs.ROWS),
)


def of_topic(topic: str) -> tuple[Metric, ...]:
    """The metrics of one topic, in the order of their columns."""
    return tuple(metric for metric in METRICS if metric.topic == topic)

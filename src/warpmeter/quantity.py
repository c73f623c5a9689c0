"""Measured values as people read them: 9.4GiB, 25%, 1.2MB/s. Shared by what prints rows; programs get bare numbers."""

from collections.abc import Sequence
from typing import Final

from warpmeter.schemas.exposed import without_unit
from warpmeter.schemas.metrics import Metric

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_DECIMAL: Final = ("", "k", "M", "G", "T", "P")


def bare_name(metric: Metric) -> str:
    """Its SI name without the unit, for where the value has its own: `power` of `power_watts`."""
    return without_unit(metric)


def quantity(value: float, unit: str) -> str:
    """A value in an SI unit of the metric table, with the prefix that keeps it short; shares as per cent."""
    if unit == "ratio 0-1":
        return f"{100 * value:.4g}%"
    if unit == "B":
        return _prefixed(value, 1024, _BINARY, unit)
    if unit in ("B/s", "bit/s", "Hz"):
        return _prefixed(value, 1000, _DECIMAL, unit)
    if unit == "s" and 0 < value < 1:
        return f"{1000 * value:.4g}ms"
    return f"{value:.{10 if abs(value) < 1e10 else 15}g}{unit.removeprefix('1')}"  # a counter keeps its last digits


def _prefixed(value: float, step: int, prefixes: Sequence[str], unit: str) -> str:
    power = 0
    while value >= step and power < len(prefixes) - 1:
        value, power = value / step, power + 1
    return f"{value:.4g}{prefixes[power]}{unit}"

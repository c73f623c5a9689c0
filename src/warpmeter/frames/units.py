"""The units of columns, by their names: every warpmeter name says its unit, and the metric table knows the rest."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from warpmeter.schemas.metrics import METRICS

SUFFIXES: Final[Mapping[str, str]] = {
    "_bytes_per_s": "B/s", "_bits_per_s": "bit/s", "_per_s": "1/s", "_bytes": "B", "_watts": "W", "_joules": "J",
    "_kwh": "kWh", "_celsius": "°C", "_hertz": "Hz", "_hours": "h", "_seconds": "s", "_s": "s", "_ms": "ms",
    "_ns": "ns", "_permille": "permille", "_share": "ratio 0-1", "_cores": "cores", "_bytes_max": "B",
    "_watts_max": "W", "_celsius_max": "°C", "_bytes_min": "B", "_hertz_min": "Hz",
}  # fmt: skip
"""What a name ends in, and its unit."""
RATIOS: Final = frozenset({"wasted", "idle", "share", "behind", "of_best", "free", "mfu"})


@cache
def _metrics() -> Mapping[str, str]:
    return {metric.name: metric.unit for metric in METRICS if metric.unit != "1"}


def of_name(name: str) -> str:
    """The unit of a column, '' where its name tells none."""
    if name in RATIOS:
        return "ratio 0-1"
    if found := _metrics().get(name):
        return found
    ending = max((suffix for suffix in SUFFIXES if f"_{name}".endswith(suffix)), key=len, default="")
    return SUFFIXES.get(ending, "")


def of_columns(names: Iterable[str]) -> dict[str, str]:
    """Those of columns whose names tell one."""
    return {name: found for name in names if (found := of_name(name))}


def unit(column: Any) -> str:
    """The unit of a column of a frame, `unit(df["power_watts"])`, or of all of a heatmap or of series; '' for none.

    pandas keeps what frames carry (`attrs`) through selections and copies, and drops it where frames are joined; then
    the column's name tells.
    """
    attrs: Mapping[str, Any] = column.attrs
    name = getattr(column, "name", None)
    told = attrs.get("units", {}).get(name) or attrs.get("unit")
    return str(told or (of_name(name) if isinstance(name, str) else ""))

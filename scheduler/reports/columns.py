"""What columns are called on a page and how values are written there: by the name, which ends in the unit."""

from collections.abc import Callable
from typing import Any, Final

from warpmeter.analysis.words import digits, duration, percent, size

NOT_TOLD: Final = "not told"
"""A name that is not known, as a page writes it."""

_LABELS: Final = {
    "available_gpu_hours": "Available, GPU h",
    "unmeasured_gpu_hours": "Unmeasured, GPU h",
    "allocated_gpu_hours": "Allocated, GPU h",
    "free_gpu_hours": "Free, GPU h",
    "used_gpu_hours": "Used, GPU h",
    "wasted_gpu_hours": "Wasted, GPU h",
    "unknown_gpu_hours": "Unknown, GPU h",
    "idle_gpu_hours": "Idle, GPU h",
    "missing_gpu_hours": "Missing, GPU h",
    "gpu_util_gpu_hours": "By utilisation, GPU h",
    "sm_active_gpu_hours": "By SM activity, GPU h",
    "gpu_util_share": "By utilisation",
    "sm_active_share": "By SM activity",
    "gpu_util": "Utilisation",
    "gpu_util_p50": "Utilisation, median",
    "gpu_util_p95": "Utilisation, 95th percentile",
    "sm_active": "SM active",
    "sm_active_p50": "SM active, median",
    "sm_active_p95": "SM active, 95th percentile",
    "tensor_active": "Tensor active",
    "dram_active": "DRAM active",
    "energy_kwh": "Energy, kWh",
    "held_back_hours": "Held back, in hours",
    "held_back_minutes": "Held back, min",
    "heat_hours": "Heat, in hours",
    "power_brake_hours": "Power brake, in hours",
    "hardware_hours": "Hardware, in hours",
    "gpu_memory_bytes": "GPU memory",
    "fb_used_bytes": "GPU memory used",
    "fb_used_bytes_max": "GPU memory used, most",
    "rss_bytes": "RSS",
    "rss_bytes_max": "RSS, most",
    "gpu": "GPU",
    "gpus": "GPUs",
    "uuid": "UUID",
    "xids": "XIDs",
    "xid": "XID",
    "sort": "Kind",
    "xid_reports": "XID reports",
    "job_id": "Job",
    "capture_id": "Capture",
    "cpu_cores": "CPU cores",
    "of": "Of",
    "pid": "Process",
    "user": "User",
}
_WORDS: Final = ("sort", "reason", "cause", "rule", "finding")
"""Columns whose values are words with underscores between."""
_COUNTED: Final = ("held_back_hours", "heat_hours", "power_brake_hours", "hardware_hours")
"""Hours that are counted, for something in them: not how long it took."""
_RATIOS: Final = ("gpu_util", "sm_active", "tensor_active", "dram_active", "cpu_util", "slowdown")


def label(column: str, currency: str = "") -> str:
    """What a column is called: its own words where it has some, else its name's, without the unit that values show."""
    if column in _LABELS:
        return _LABELS[column]
    if column.endswith("_cost"):
        return f"{column.removesuffix('_cost').capitalize()} cost, {currency}"
    for unit, said in (
        ("_watts", ", W"),
        ("_celsius", ", °C"),
        ("_hours", ", h"),
        ("_minutes", ", min"),
        ("_percent", ""),
    ):
        if column.endswith(unit):
            return column.removesuffix(unit).replace("_", " ").capitalize() + said
    for unit in ("_share", "_at", "_bytes", "_seconds", "_ns", "_ms"):
        column = column.removesuffix(unit)
    return column.replace("_", " ").capitalize()


def is_number(column: str, type_: str) -> bool:
    """Whether its values stand right-aligned."""
    return column not in ("xid", "xids", "pid") and ("Int" in type_ or "Float" in type_) and "Array" not in type_


def said(column: str, value: Any) -> str:
    """A value as people read it; '' for what is not known, but for names."""
    if value is None:
        return NOT_TOLD if column in ("name", "user", "team", "partition") else ""
    if isinstance(value, list):
        return _list([said(column, each) for each in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return _time(value) if column.endswith("_at") else value.replace("_", " ") if column in _WORDS else value
    return _how(column)(value) if isinstance(value, int | float) else str(value)


def _time(value: str) -> str:
    """To the minute; a midnight is a day."""
    return value[:10] if value[10:19] == " 00:00:00" else value[:16]


def _how(column: str) -> Callable[[float], str]:
    if column.endswith("_share") or (column.startswith(_RATIOS) and not column.endswith("_hours")):
        return percent
    if column.endswith(("_cost", "_ratio")):
        return "{:,.2f}".format
    if column.endswith("_bytes"):
        return size
    if column.endswith("_ns"):
        return duration
    if column.endswith("_ms"):
        return lambda ms: duration(ms * 1e6)
    if column.endswith("_seconds"):
        return longest
    if column.endswith(("_hours", "_kwh")) and column not in _COUNTED:
        return lambda value: f"{value:,.1f}" if abs(value) >= 0.05 or value == 0 else f"{value:.2g}"
    return lambda value: f"{value:,}" if isinstance(value, int) else digits(value)


def longest(seconds: float) -> str:
    """Seconds as `2 d 3 h`, `4 h 5 min`, `6 min 7 s`, or below a minute `1.2 s`."""
    if abs(seconds) < 60:
        return duration(seconds * 1e9)
    whole = round(seconds)
    for unit, of, rest, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= of:
            more = whole % of // part
            return f"{whole // of} {unit}" + (f" {more} {rest}" if more else "")
    return duration(seconds * 1e9)


def _list(values: list[str], most: int = 4) -> str:
    shown = ", ".join(values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")

"""Which named query answers for a metric over time, and its rows of arrays as a matrix."""

import difflib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from warpmeter.frames.asking import AskError
from warpmeter.schemas.metrics import Metric, of_topic

By = Literal["", "fleet", "host", "gpu", "job"]
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
POINTS: Final = 300
"""A step is chosen so that there are no more."""
OF_JOBS: Final = {"power_watts": ("energy_joules", "power_known_seconds")} | {
    name: (f"{name}_seconds", f"{name}_known_seconds")
    for name in ("gpu_util", "sm_active", "tensor_active", "dram_active")
}
"""Metrics that are kept by job: what is summed, and the seconds in which it was known."""
MOST_STEPS: Final = 100_000


@dataclass(frozen=True)
class Window:
    """Times of an answer: from `since` rounded down to a whole step on; `step_s` seconds each."""

    since: datetime
    until: datetime
    step_s: int

    @property
    def asked(self) -> dict[str, str]:
        """As named queries take it."""
        given = {"since": self.since.isoformat(), "until": self.until.isoformat(), "step_s": str(self.step_s)}
        return given

    def times(self, zone: tzinfo) -> pd.DatetimeIndex:
        """The beginnings of its steps."""
        first = int(self.since.timestamp()) // self.step_s * self.step_s
        last = -(-int(self.until.timestamp()) // self.step_s) * self.step_s
        stamps = np.arange(first, last, self.step_s, dtype="int64").astype("datetime64[s]")
        return pd.DatetimeIndex(stamps, name="time").tz_localize("UTC").tz_convert(zone)


def window(since: datetime, until: datetime, step_s: int | None) -> Window:
    """Checked; without a step one with at most POINTS steps is taken. Raises AskError."""
    length = (until - since).total_seconds()
    if length <= 0:
        raise AskError(f"the window is empty: since {since.isoformat()} is not before until {until.isoformat()}")
    chosen = step_s or next((step for step in STEPS if step >= 60 and length / step <= POINTS), STEPS[-1])
    if length / chosen > MOST_STEPS:
        raise AskError(f"{length / chosen:,.0f} steps of {chosen} s are more than {MOST_STEPS:,}: take longer ones")
    return Window(since, until, chosen)


def metric(name: str) -> Metric:
    """A metric of GPUs, else of hosts; raises AskError naming those that are spelled alike."""
    found = {each.name: each for topic in ("host-samples", "gpu-samples") for each in of_topic(topic)}
    if name not in found:
        meant = difflib.get_close_matches(name, found, 3, 0.5)
        raise AskError(
            f"no metric {name}; " + (f"did you mean {', '.join(meant)}?" if meant else "see docs/metrics.md")
        )
    return found[name]


@dataclass(frozen=True)
class Asked:
    """A named query and what it is given."""

    query: str
    given: Mapping[str, str]


def heatmap(of: Metric, when: Window, host: str, job: str) -> Asked:
    """GPUs by time. Raises AskError for a metric of hosts."""
    if of.topic != "gpu-samples":
        raise AskError(f"{of.name} is of hosts: a heatmap is of GPUs; ask series({of.name!r}, …)")
    raw = _raw(of, when)
    given = {"metric": of.name, **when.asked, "host": host, "job_id": job}
    return Asked("heatmap_raw", given) if raw else Asked("heatmap", {**given, "windows": _windows("gpu_heatmap", when)})


def _raw(of: Metric, when: Window) -> bool:
    """Whether only raw samples answer."""
    return when.step_s % 60 != 0 or not of.rolled_up


def _windows(table: str, when: Window) -> str:
    return f"{table}_1h" if when.step_s % 3600 == 0 else f"{table}_1m"


@dataclass(frozen=True)
class Line:
    """Which series are asked for."""

    by: By
    host: str
    gpu: str
    job: str
    top: int


def series(of: Metric, when: Window, line: Line) -> Asked:
    """Lines over time. Raises AskError for a `by` that the metric does not have."""
    if line.by not in get_args(By):
        raise AskError(f"there are no lines by {line.by!r}: by is {', '.join(filter(None, get_args(By)))}")
    raw = _raw(of, when)
    narrowed = {"host": line.host, "job_id": line.job, "top": str(line.top)}
    if of.topic == "host-samples":
        if line.gpu or line.by in ("gpu", "job"):
            raise AskError(f"{of.name} is of hosts: it has no line {'of a GPU' if line.gpu else 'by ' + line.by}")
        given = {"host_metric": of.name, **when.asked, **narrowed, "by": line.by or "host"}
        return Asked("series_host_raw", given) if raw else Asked("series_host", given | _of("host_windows", when))
    if line.by == "job":
        return _by_job(of, when, line, raw)
    by = line.by or ("gpu" if line.host or line.gpu or line.job else "fleet")
    given = {"metric": of.name, **when.asked, **narrowed, "gpu": line.gpu, "by": by}
    return Asked("series_gpu_raw", given) if raw else Asked("series_gpu", given | _of("gpu_heatmap", when))


def _of(table: str, when: Window) -> dict[str, str]:
    return {"windows": _windows(table, when)}


def _by_job(of: Metric, when: Window, line: Line, raw: bool) -> Asked:
    if line.gpu:
        raise AskError("a line by job is of all its GPUs: leave gpu out, or by")
    given = {**when.asked, "host": line.host, "job_id": line.job, "top": str(line.top)}
    if raw or of.name not in OF_JOBS:
        return Asked("series_job_raw", given | {"metric": of.name})
    total, known = OF_JOBS[of.name]
    return Asked("series_job", given | _of("job_windows", when) | {"total": total, "known": known})


def matrix(arrays: Sequence[Sequence[float | None]], width: int) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Rows of arrays as floats, what is not known as NaN."""
    if not len(arrays):
        return np.empty((0, width))
    return np.array([np.asarray(each, dtype="float64") for each in arrays])


def warn_of_more(shown: int, there: int) -> None:
    """Say that there are more series than were asked for."""
    if there > shown:
        warnings.warn(f"{shown} of {there} series, those with the highest means: give top=…", stacklevel=3)

"""Heatmaps and lines of frames, drawn with matplotlib on axes of one's own: nothing global is changed.

    from warpmeter.frames import plots
    ax = plots.heatmap(wm.heatmap("sm_active", "-24h"))
    ax.figure.savefig("day.png")

Without axes a figure is made that pyplot does not know, so nothing is left open; a notebook shows it when the figure
is a cell's last value (`ax.figure`).
"""

import io
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from warpmeter.frames.asking import AskError

LABELS_AT_MOST: Final = 40
"""Rows of a heatmap that are named; of more, some are."""
PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
UNKNOWN: Final = "#d9d9d9"
"""Of what is not known: grey, which no colour map has."""


def heatmap(
    found: pd.DataFrame, ax: Axes | None = None, *, cmap: str = "viridis", title: str = "", **options: Any
) -> Axes:
    """Draw a frame of `Frames.heatmap`: a row a GPU, time to the right, grey where nothing is known.

    `options` go to matplotlib's `pcolormesh` (`vmin`, `vmax`, …). Ratios are drawn from 0 to 1. Raises AskError for a
    frame that is none of a heatmap, or has no rows.
    """
    times: pd.Index[Any] = found.columns
    if not isinstance(found.index, pd.MultiIndex) or not isinstance(times, pd.DatetimeIndex):
        raise AskError("that is no heatmap: give what wm.heatmap(…) returned")
    if found.empty:
        raise AskError("the heatmap has no GPUs: nothing is known of that window")
    axes = ax if ax is not None else _axes(10, min(12, 1.5 + 0.18 * len(found)))
    unit = str(found.attrs.get("unit", ""))
    if unit.startswith("ratio") and "norm" not in options:
        options = {"vmin": 0, "vmax": 1, **options}
    edges = _edges(times, int(found.attrs.get("step_s", 60)))
    values = np.ma.masked_invalid(found.to_numpy(dtype="float64"))
    axes.set_facecolor(UNKNOWN)
    drawn = axes.pcolormesh(edges, np.arange(len(found) + 1), values, cmap=cmap, **options)
    axes.invert_yaxis()
    _rows(axes, found.index)
    _time(axes, times)
    bar = axes.figure.colorbar(drawn, ax=axes, format=_formatter(unit), pad=0.01)
    bar.set_label(_label(found, unit))
    axes.set_title(title or str(found.attrs.get("metric", "")))
    return axes


def series(found: pd.DataFrame, ax: Axes | None = None, *, title: str = "", **options: Any) -> Axes:
    """Draw a frame of `Frames.series`: a line a column; gaps where nothing is known.

    `options` go to matplotlib's `plot`. Raises AskError for a frame whose rows are no times, or that has no columns.
    """
    if not isinstance(found.index, pd.DatetimeIndex):
        raise AskError("its rows are no times: give what wm.series(…) returned")
    if found.empty:
        raise AskError("there is no line: nothing is known of that window")
    axes = ax if ax is not None else _axes(10, 4)
    unit = str(found.attrs.get("unit", ""))
    times = date2num(found.index.to_pydatetime())  # type: ignore[no-untyped-call]
    for name in found.columns:
        axes.plot(times, found[name].to_numpy(dtype="float64"), label=str(name), **options)
    _time(axes, found.index)
    axes.yaxis.set_major_formatter(_formatter(unit))
    axes.set_ylabel(_label(found, unit))
    axes.set_ylim(bottom=0, top=1 if unit.startswith("ratio") else None)
    axes.grid(alpha=0.3)
    axes.set_title(title or str(found.attrs.get("metric", "")))
    if 1 < len(found.columns) <= 12:
        axes.legend(fontsize="small")
    return axes


class Drawn(Figure):
    """A figure that a notebook shows, whether its matplotlib is set up for that or not."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def _axes(width: float, height: float) -> Axes:
    return Drawn(figsize=(width, height), layout="constrained").add_subplot()


def _edges(times: pd.DatetimeIndex, step_s: int) -> "np.ndarray[Any, Any]":
    last = times[-1] + pd.Timedelta(seconds=step_s)
    ends = [*times.to_pydatetime(), last.to_pydatetime()]
    return np.asarray(date2num(ends))  # type: ignore[no-untyped-call]


def _rows(axes: Axes, index: pd.MultiIndex) -> None:
    names = [f"{host}/{gpu}" for host, gpu in zip(index.get_level_values(0), index.get_level_values(1), strict=True)]
    every = -(-len(names) // LABELS_AT_MOST)
    axes.set_yticks(np.arange(0, len(names), every) + 0.5, names[::every], fontsize="small")


def _time(axes: Axes, times: pd.DatetimeIndex) -> None:
    locator = AutoDateLocator(tz=times.tz)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    concise = ConciseDateFormatter(locator, tz=times.tz)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(concise)
    axes.set_xlabel(str(times.tz))


def _label(found: pd.DataFrame, unit: str) -> str:
    shown = "" if unit.startswith("ratio") or unit == "1" else unit
    metric = str(found.attrs.get("metric", ""))
    return f"{metric} [{shown}]" if shown else metric


def _formatter(unit: str) -> FuncFormatter | PercentFormatter:
    if unit.startswith("ratio"):
        return PercentFormatter(1)
    return FuncFormatter(lambda value, _: _scaled(value))


def _scaled(value: float) -> str:
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if abs(value) >= size), (1.0, ""))
    return f"{value / size:g} {prefix}".rstrip()

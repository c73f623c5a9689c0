"""Figures as PNG: matplotlib without a display and without its global state; the same bytes for the same numbers."""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, FAINT, LINE = "#1c2430", "#667085", "#dfe3ea"
COLOURS: Final = {
    "used": "#2b6cb0", "wasted": "#dd6b20", "free": "#d5dae2", "unknown": "#9aa3b0", "energy": "#805ad5",
    "gpu_util": "#2b6cb0", "sm_active": "#2c9c8f", "tensor_active": "#805ad5",
}  # fmt: skip
WIDTH_INCHES, DPI = 7.2, 150

Values = Sequence[float | None]


@dataclass(frozen=True)
class Series:
    """Values under one name; `kind` picks the colour."""

    name: str
    kind: str
    values: Values


def stacked(places: Sequence[str], bars: Sequence[Series], unit: str, lines: Sequence[Series] = ()) -> bytes:
    """Bars on top of each other, one a place; `lines` are shares of 0-1 with an axis of their own on the right."""
    canvas, axes = _canvas(2.9)
    below = [0.0] * len(places)
    for series in bars:
        values = [value or 0.0 for value in series.values]
        axes.bar(range(len(places)), values, 0.72, bottom=below, label=series.name, color=COLOURS[series.kind])
        below = [base + value for base, value in zip(below, values, strict=True)]
    axes.set_ylabel(unit, color=FAINT, fontsize=8)
    _ticks(axes, places)
    if lines:
        beside = axes.twinx()
        _lines(beside, range(len(places)), lines)
        _share(beside)
        _bare(beside, "right")
        _legend(canvas, axes, beside)
    else:
        _legend(canvas, axes)
    return _png(canvas)


def across(names: Sequence[str], bars: Sequence[Series], unit: str) -> bytes:
    """Bars to the right, on top of each other, one a name from the top down."""
    canvas, axes = _canvas(0.9 + 0.26 * max(1, len(names)))
    left = [0.0] * len(names)
    for series in bars:
        values = [value or 0.0 for value in series.values]
        axes.barh(range(len(names)), values, 0.7, left=left, label=series.name, color=COLOURS[series.kind])
        left = [base + value for base, value in zip(left, values, strict=True)]
    axes.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_xlabel(unit, color=FAINT, fontsize=8)
    _legend(canvas, axes)
    return _png(canvas)


def beside(places: Sequence[str], bars: Sequence[Series], unit: str, shares: bool = False) -> bytes:
    """Bars side by side, one group a place."""
    canvas, axes = _canvas(2.7)
    width = 0.8 / max(1, len(bars))
    for number, series in enumerate(bars):
        at = [place - 0.4 + width * (number + 0.5) for place in range(len(places))]
        axes.bar(
            at, [value or 0.0 for value in series.values], width * 0.94, label=series.name, color=COLOURS[series.kind]
        )
    axes.set_ylabel(unit, color=FAINT, fontsize=8)
    _ticks(axes, places)
    if shares:
        _percents(axes)
    _legend(canvas, axes)
    return _png(canvas)


def over_time(hours: Sequence[float], lines: Sequence[Series], unit: str) -> bytes:
    """Shares of 0-1 over hours since the start; a line breaks where nothing is known."""
    canvas, axes = _canvas(2.5)
    _lines(axes, hours, lines, marker="" if len(hours) > 1 else "o")
    axes.set_xlabel(unit, color=FAINT, fontsize=8)
    _share(axes)
    _legend(canvas, axes)
    return _png(canvas)


def _canvas(height: float) -> "tuple[Canvas, Axes]":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    _bare(axes, "left")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    return canvas, axes


def _bare(axes: "Axes", side: str) -> None:
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.spines["bottom"].set_visible(side == "left")
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(colors=FAINT, labelsize=8, length=0)


def _lines(axes: "Axes", places: Sequence[float], lines: Sequence[Series], marker: str = "o") -> None:
    for series in lines:
        values = [float("nan") if value is None else value for value in series.values]
        axes.plot(
            places, values, label=series.name, color=COLOURS[series.kind], linewidth=1.4, marker=marker, markersize=3
        )


def _share(axes: "Axes") -> None:
    axes.set_ylim(0, 1.04)
    _percents(axes)


def _percents(axes: "Axes") -> None:
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")


def _ticks(axes: "Axes", places: Sequence[str]) -> None:
    each = max(1, -(-len(places) // 16))
    axes.set_xticks(range(0, len(places), each), list(places)[::each], fontsize=8, parse_math=False)


def _legend(canvas: "Canvas", *axes: "Axes") -> None:
    found = [each.get_legend_handles_labels() for each in axes]
    handles, labels = [h for each in found for h in each[0]], [name for each in found for name in each[1]]
    canvas.legend(
        handles, labels, loc="outside upper left", ncols=6, frameon=False, fontsize=8, labelcolor=INK, handlelength=1.1
    )


def _short(name: str, most: int = 32) -> str:
    name = "".join(each if each.isprintable() else "\ufffd" for each in name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _png(canvas: "Canvas") -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph", UserWarning
        )  # of a name whose script the font lacks: the table has it
        canvas.savefig(file, format="png", metadata={"Software": None}, facecolor="white")
    return file.getvalue()

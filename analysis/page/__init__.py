"""The report as one page of HTML that needs nothing else: no server, no network, no other file."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import jinja2
from markupsafe import Markup

from warpmeter import __version__
from warpmeter.analysis.capture import Document
from warpmeter.analysis.page import drawing
from warpmeter.analysis.page.flames import as_json, flame
from warpmeter.analysis.words import digits, duration, percent, rate, size

TEMPLATES: Final = Path(__file__).parent / "templates"

NODES: Final = 20_000
"""Nodes of flame graphs that a page carries, over all its ranks."""

ROWS: Final = 2000
"""Rows of each table that a page carries, over all its ranks; at least 40 a rank."""

SPREAD: Final[Mapping[str, str]] = {
    "duration_ns": "host time",
    "work.busy_ns": "its GPU work",
    "work.compute_ns": "computation",
    "work.comm_ns": "communication",
    "work.exposed_comm_ns": "exposed communication",
    "during.idle_ns": "idle in the window",
    "tail_ns": "work after its end",
    "wait_ns": "host waits",
    "input_ns": "fetching input",
}
"""Figures whose spread between steps is shown, and what they are called."""

_STEERING: Final = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), 127, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)
"""What HTML does not allow, and what turns the direction of all text that follows."""


def render(document: Document, version: str = __version__) -> str:
    """The page of a capture. Texts out of traces are escaped, whatever they hold."""
    many = len(document.ranks)
    page: str = (
        _environment()
        .get_template("page.html")
        .render(
            document=document,
            title=_title(document),
            subtitle=", ".join(rank.file for rank in document.ranks[:4])
            + (f" and {many - 4} more" if many > 4 else ""),
            css=Markup((TEMPLATES / "page.css").read_text("utf-8")),
            js=Markup((TEMPLATES / "page.js").read_text("utf-8")),
            version=version,
            most_nodes=max(500, NODES // max(1, many)),
            most_lanes=40 if many <= 8 else 6,
            most_rows=max(40, ROWS // max(1, many)),
            spread_figures=SPREAD,
        )
    )
    return page.translate(_STEERING)


def _title(document: Document) -> str:
    if len(document.ranks) == 1:
        return PurePosixPath(document.ranks[0].file).name
    return f"{len(document.ranks)} ranks"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _filters()
    return environment


def _filters() -> dict[str, Callable[..., Any]]:
    return {
        "ns": _or_empty(duration),
        "bytes": _or_empty(size),
        "pct": _or_empty(percent),
        "num": _or_empty(_number),
        "rate": lambda value, unit: "" if value is None else rate(value, unit),
        "unit": _unit,
        "part": lambda part, whole: part / whole if part is not None and whole else None,
        "base": lambda file: PurePosixPath(file).name,
        "dims": _dims,
        "words": lambda text: text.replace("_", " "),
        "sort_kind": lambda sort: {"memcpy": "mem", "memset": "mem"}.get(sort, sort),
        "time_bar": drawing.time_bar,
        "idle_bar": drawing.idle_bar,
        "areas": drawing.lane_areas,
        "step_marks": drawing.step_marks,
        "step_columns": drawing.step_columns,
        "time_ticks": drawing.time_ticks,
        "size_ticks": drawing.size_ticks,
        "memory_path": drawing.memory_path,
        "memory_most": drawing.memory_most,
        "roof": drawing.roof,
        "flame": flame,
        "json": lambda value: Markup(as_json(value)),
    }


def _or_empty(say: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: "" if value is None else say(value)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else digits(value)


def _unit(value: float, unit: str) -> str:
    said = {"ns": duration, "B": size, "ratio": percent, "count": "{:,.0f}".format}
    return said[unit](value) if unit in said else f"{digits(value)} {unit}"


def _dims(value: list[Any] | None) -> str:
    """Sizes or types without the empty ones behind them: scalars and what was not given."""
    if value is None:
        return ""
    last = max((place for place, each in enumerate(value, 1) if each), default=0)
    return ", ".join(str(each) for each in value[:last])

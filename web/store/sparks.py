"""Small lines of GPU utilisation for the rows of a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec

from warpmeter.web.request.times import SUFFIX, Window
from warpmeter.web.store.beside import beside
from warpmeter.web.store.reads import Reads

Lines = dict[str, list[float | None]]
Rows = list[dict[str, Any]]
LONGEST: Final = 2500
"""Bytes of names, as in an address, that are asked for by name: past it, all are. An address takes 4 KiB of values."""

NAMED: Final = 100
"""Rows whose names mostly are no longer than that."""


@dataclass(frozen=True)
class Kind:
    """What lines are of: the column with its name, the named query that draws them, its parameter, and its table."""

    name: str
    query: str
    parameter: str
    table: str


HOSTS: Final = Kind("host", "host_sparks", "hosts", "gpu_heatmap")
JOBS: Final = Kind("job_id", "job_sparks", "jobs", "job_windows")


def drawn(rows: Rows, kind: Kind, reads: Reads, window: Window) -> Rows:
    """The rows, each with its line; an empty one where it had no GPU in the window."""
    return _with(rows, kind, _lines(reads, window, kind, [row[kind.name] for row in rows]))


def drawn_beside(ask: Callable[[], tuple[Rows, int]], kind: Kind, reads: Reads, window: Window) -> tuple[Rows, int]:
    """What `ask` answers, so drawn: the lines of all are read meanwhile. For rows too many to be asked for by name."""
    lines = beside(_lines, reads, window, kind, None)
    rows, total = ask()
    return _with(rows, kind, lines.result()), total


def _with(rows: Rows, kind: Kind, lines: Lines) -> Rows:
    return [row | {"spark": lines.get(row[kind.name], [])} for row in rows]


def told(window: Window) -> dict[str, Any]:
    """What the lines' values are of: the length of a step, and where the first begins."""
    return {"spark_step_s": window.spark.step_s, "spark_since": window.spark.first}


def _lines(reads: Reads, window: Window, kind: Kind, names: Sequence[str] | None) -> Lines:
    """By name; None: of all."""
    if names is not None and not names:
        return {}
    small, listed = window.spark, msgspec.json.encode(names).decode() if names else ""
    given = {
        kind.parameter: listed if len(quote(listed)) <= LONGEST else "",
        "windows": f"{kind.table}_{SUFFIX[small.tier]}",
        **small.parameters(),
    }
    key, values = msgspec.json.decode(reads.json(kind.query, **given)).values()
    return dict(zip(key, values, strict=True))

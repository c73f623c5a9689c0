"""Small lines of GPU utilisation for the rows of a table."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from warpmeter.web.request.times import SUFFIX, Window
from warpmeter.web.store.reads import Reads

Lines = dict[str, list[float | None]]
LONGEST: Final = 2500
"""Bytes of names, as in an address, that are asked for by name: past it, all are. An address takes 4 KiB of values."""


def of_hosts(reads: Reads, window: Window, hosts: Sequence[str]) -> Lines:
    """A line for each host that had a GPU in the window, by name."""
    return _lines(reads, window, "host_sparks", "gpu_heatmap", "hosts", hosts)


def of_jobs(reads: Reads, window: Window, jobs: Sequence[str]) -> Lines:
    """A line for each job that had a GPU in the window, by id."""
    return _lines(reads, window, "job_sparks", "job_windows", "jobs", jobs)


def told(window: Window) -> dict[str, Any]:
    """What the lines' values are of: the length of a step, and where the first begins."""
    return {"spark_step_s": window.spark.step_s, "spark_since": window.spark.first}


def _lines(reads: Reads, window: Window, query: str, table: str, field: str, names: Sequence[str]) -> Lines:
    if not names:
        return {}
    small, listed = window.spark, msgspec.json.encode(names).decode()
    given = {
        field: listed if len(quote(listed)) <= LONGEST else "",
        "windows": f"{table}_{SUFFIX[small.tier]}",
        **small.parameters(),
    }
    found = msgspec.json.decode(reads.json(query, **given))
    key, values = found.values()
    wanted = set(names)
    return {name: line for name, line in zip(key, values, strict=True) if name in wanted}

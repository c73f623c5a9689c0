"""A report's JSON as CSV tables: single figures of a rank in one row, each list of objects a table of its own."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from warpmeter.analysis.capture import Document
from warpmeter.analysis.stacks import folded

Row = dict[str, Any]
Tables = dict[str, list[Row]]

ELSEWHERE: Final = ("stacks", "overview")
"""Parts of a report that are no tables: the one has files of its own, the other is for drawing."""


def tables(document: Document) -> Tables:
    """`ranks` with a row a rank, `kernels`, `steps`, … with rank and file before each row, `job_…`, `diff_…`.

    Rows within a row that has a name (the operators that launched a kernel) or an id have it in `of`.
    """
    found: Tables = {}
    for rank in document.ranks:
        parts = {field.name: getattr(rank, field.name) for field in fields(rank) if field.name not in ELSEWHERE}
        _add(found, "ranks", "", {"rank": rank.rank, "file": rank.file}, msgspec.to_builtins(parts))
    _list(found, "findings_of_job", {}, msgspec.to_builtins(document.findings))
    for name, part in (("job", document.job), ("diff", document.diff)):
        if part is not None:
            _add(found, name, name, {}, msgspec.to_builtins(part))
    return found


def _add(found: Tables, name: str, prefix: str, key: Row, value: Mapping[str, Any]) -> None:
    """One object: its own row in table `name`, and a table for each list of objects anywhere in it."""
    found.setdefault(name, []).append(key | _row(value))
    called = value.get("name", value.get("id"))
    within = key if called is None else key | {"of": called}
    for path, rows in _lists(value, prefix):
        _list(found, path, within, rows)


def _list(found: Tables, name: str, key: Row, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        _add(found, name, name, key, row)


def _row(value: Mapping[str, Any], prefix: str = "") -> Row:
    """Single figures, those of objects inside under their joined names; lists of plain values as JSON."""
    row: Row = {}
    for name, each in value.items():
        if isinstance(each, Mapping):
            row |= _row(each, f"{prefix}{name}_")
        elif not isinstance(each, list | tuple):
            row[prefix + name] = each
        elif not _objects(each):
            row[prefix + name] = json.dumps(each, ensure_ascii=False) if each else None
    return row


def _lists(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    for name, each in value.items():
        path = f"{prefix}_{name}" if prefix else name
        if isinstance(each, Mapping):
            yield from _lists(each, path)
        elif isinstance(each, list | tuple) and _objects(each):
            yield path, each


def _objects(value: Sequence[Any]) -> bool:
    return bool(value) and isinstance(value[0], Mapping)


def write(document: Document, folder: Path) -> list[Path]:
    """Write each table to `folder` (made where it is not there), with a header; empty cells are what is not known.

    The stacks are `stacks_cpu.folded` and `stacks_gpu.folded`, as flame graph tools read them: a stack a line, the
    outermost first (`rank N` where there are several), and its own nanoseconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write(folder / f"{name}.csv", rows) for name, rows in tables(document).items()]
    return [*written, _folded(document, folder, "cpu"), _folded(document, folder, "gpu")]


def _folded(document: Document, folder: Path, weight: Literal["cpu", "gpu"]) -> Path:
    path = folder / f"stacks_{weight}.folded"
    several = len(document.ranks) > 1
    with path.open("w", encoding="utf-8") as file:
        for rank in document.ranks:
            if rank.stacks is not None:
                root = f"rank {rank.rank};" if several else ""
                file.writelines(f"{root}{line}\n" for line in folded(rank.stacks, weight))
    return path


def _write(path: Path, rows: Sequence[Row]) -> Path:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path

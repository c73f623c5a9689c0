"""A report's JSON as CSV tables: single figures of a rank in one row, each list of objects a table of its own."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def tables(document: Mapping[str, Any]) -> Tables:
    """`ranks` with a row a rank, `kernels`, `operators`, … with rank and file before each row, `job_…`, `diff_…`."""
    found: Tables = {}
    for rank in document["ranks"]:
        key = {"rank": rank["rank"], "file": rank["file"]}
        _add(found, "ranks", "", key, rank)
    for part in ("job", "diff"):
        if document.get(part):
            _add(found, part, part, {}, document[part])
    return found


def _add(found: Tables, name: str, prefix: str, key: Row, value: Mapping[str, Any]) -> None:
    """One object: its own row in table `name`, and a table for each list of objects anywhere in it."""
    found.setdefault(name, []).append(key | _row(value))
    for path, rows in _lists(value, prefix):
        for row in rows:
            _add(found, path, path, key, row)


def _row(value: Mapping[str, Any], prefix: str = "") -> Row:
    """Single figures, those of objects inside under their joined names; lists of plain values as JSON."""
    row: Row = {}
    for name, each in value.items():
        if isinstance(each, Mapping):
            row |= _row(each, f"{prefix}{name}_")
        elif not isinstance(each, list):
            row[prefix + name] = each
        elif not _objects(each):
            row[prefix + name] = json.dumps(each, ensure_ascii=False) if each else None
    return row


def _lists(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    for name, each in value.items():
        path = f"{prefix}_{name}" if prefix else name
        if isinstance(each, Mapping):
            yield from _lists(each, path)
        elif isinstance(each, list) and _objects(each):
            yield path, each


def _objects(value: Sequence[Any]) -> bool:
    return bool(value) and isinstance(value[0], Mapping)


def write(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write each table to `folder` (made where it is not there), with a header; empty cells are what is not known."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / f"{name}.csv", rows) for name, rows in tables(document).items()]


def _write(path: Path, rows: Sequence[Row]) -> Path:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path

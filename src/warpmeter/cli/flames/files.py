"""A graph as others read it: a page, folded stacks, speedscope, the rows themselves. And what comes before: words."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from warpmeter.cli import common
from warpmeter.cli.flames.asking import FlameError, Found, Row
from warpmeter.stacks import Unit, Weighed, folded, speedscope
from warpmeter.stacks.profile import Part, Profile, Who

SCALES: Final[Mapping[Unit, Sequence[tuple[float, str]]]] = {
    "microseconds": ((3600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms"), (1, "µs")),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "count": ((1, ""),),
}


def amount(value: float, unit: Unit) -> str:
    """A weight as people read it: `12.3 min`."""
    size, name = next((scale for scale in SCALES[unit] if value >= scale[0]), SCALES[unit][-1])
    return f"{value / size:.3g} {name}" if name else f"{value:,.0f}"


def head(found: Found) -> dict[str, Any]:
    """What an answer is of, as the API says it."""
    told: dict[str, Any] = {
        "since": found.at.since,
        "until": found.at.until,
        "tier": "hour" if found.at.hours else "raw",
    }
    if found.base is not None:
        told |= {"base_since": found.base.since, "base_until": found.base.until, "base_total": found.base_total}
    return {**told, "source": found.whose.source, "unit": found.whose.unit, "total": found.total}


def put(path: Path, text: str) -> None:
    """Write a file as a whole or not at all: what was there stays until then. Raises FlameError."""
    target = path.resolve()
    part = target.with_name(f".warpmeter-{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():  # a pipe, or what is none to write
            target.write_text(text, "utf-8")
            return
        part.write_text(text, "utf-8")
        part.replace(target)
    except OSError as error:
        raise FlameError(f"{path} cannot be written ({error.strerror}); what was there is as it was") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _html(found: Found, top: Sequence[Row]) -> str:
    from warpmeter.web.flame_page import page

    shown: dict[str, Any] = {"columns": _columns(found.rows), "unit": found.whose.unit}
    if top:
        shown["top"] = _columns(top)
    shown["first"] = found.first
    return page(f"Flame graph: {found.whose}", f"{found.about()}; {amount(found.total, found.whose.unit)}", shown)


def _json(found: Found, top: Sequence[Row]) -> str:
    told = {**head(found), "columns": _columns(found.rows)}
    if top:
        told["top"] = _columns(top)
    return json.dumps(common.plain(told), ensure_ascii=False) + "\n"


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _folded(found: Found, _: Sequence[Row]) -> str:
    """Of a difference each line has two numbers, before and now, as difffolded.pl writes them."""
    if found.base is None:
        return "".join(folded.lines(Weighed(path, row["self"]) for path, row in _paths(found.rows) if row["self"]))
    stacks = ((path, row) for path, row in _paths(found.rows) if row["self"] or row["base_self"])
    lines = (
        (next(folded.lines([Weighed(path, row["base_self"])])).removesuffix("\n"), row["self"]) for path, row in stacks
    )
    return "".join(f"{line} {now}\n" for line, now in lines)


def _speedscope(found: Found, _: Sequence[Row]) -> str:
    parts: dict[str, list[Weighed]] = {}
    for path, row in _paths(found.rows):
        if row["self"]:
            part, frames = (path[0], path[1:]) if found.wanted.by else ("all", path)
            parts.setdefault(part, []).append(Weighed(frames, row["self"]))
    profile = Profile(found.whose.unit, tuple(Part(Who(thread=name), tuple(stacks)) for name, stacks in parts.items()))
    return json.dumps(speedscope.document(profile, str(found.whose)), ensure_ascii=False) + "\n"


def _paths(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, ...], Row]]:
    """Each row with its path below all."""
    path: list[str] = []
    for row in rows:
        path[row["level"] :] = [row["label"]]
        yield tuple(path[1:]), row


TEXTS: Final[Mapping[str, Callable[[Found, Sequence[Row]], str]]] = {
    ".html": _html,
    ".json": _json,
    ".folded": _folded,
    ".speedscope.json": _speedscope,
}

"""Analysed captures out of the store: which load a request means, and what to say of one that is not analysed."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fastapi import HTTPException

from warpmeter.web.request import paging
from warpmeter.web.request.times import invalid, missing
from warpmeter.web.store.reads import Reads

State = Literal["analysed", "capturing", "waiting", "failed"]
CONFLICT: Final = 409
KNOWN_S: Final = 2.0
"""A page asks a dozen things of a capture at once: which ranks it has is asked once."""
KNOWN: Final = 200
_known: dict[tuple[str, str, str], tuple[float, list[dict[str, Any]]]] = {}


@dataclass(frozen=True)
class Shown:
    """A capture as it is loaded, and one process of it; empty: all."""

    capture_id: str
    process: str = ""

    def parameters(self) -> dict[str, Any]:
        """As named queries take it."""
        return {"capture_id": self.capture_id, "process": self.process}


@dataclass(frozen=True)
class Standing:
    """How far a capture is, in words; counts are of its processes, None where nobody asked for it (loaded by hand)."""

    state: State
    why: str = ""
    processes: int | None = None
    captured: int | None = None
    analysed: int | None = None
    failed: int | None = None


def name(capture: str, sequence: int) -> str:
    """Under which name the round `sequence` of a capture is loaded: the first under the capture's own."""
    return capture if sequence <= 1 else f"{capture}-{sequence}"


def ranks(reads: Reads, capture: str, sequence: int = 1) -> list[dict[str, Any]]:
    """What of a capture is loaded, a row a process; empty where nothing is. What is loaded is known for `KNOWN_S`."""
    key = (reads.store.dsn, reads.store.database, name(capture, sequence))
    until, found = _known.get(key, (0.0, []))
    if time.monotonic() < until:
        return found
    found = paging.rows(reads, "capture_loaded", capture_id=key[2])[0]
    if found:
        if len(_known) >= KNOWN:
            _known.clear()
        _known[key] = (time.monotonic() + KNOWN_S, found)
    return found


def shown(reads: Reads, capture: str, sequence: int, rank: int | None, process: str) -> Shown:
    """What a request is about. Raises 404 when there is no such capture or rank, 409 when it is not analysed (yet)."""
    loaded = ranks(reads, capture, sequence)
    if not loaded:
        raise HTTPException(CONFLICT, standing(reads, capture, sequence).why)
    if rank is None and not process:
        return Shown(name(capture, sequence))
    found = [row for row in loaded if process in ("", row["process"]) and rank in (None, row["rank"])]
    if not found:
        there = ", ".join(row["process"] for row in loaded[:20])
        asked = f"process {process}" if process else f"rank {rank}"
        raise missing(
            "query", "process" if process else "rank", f"{asked} of {capture} is not analysed; there are {there}", rank
        )
    if len(found) > 1:
        there = ", ".join(row["process"] for row in found[:20])
        raise invalid("rank", f"several processes of {capture} are rank {rank}: name one (process=) of {there}", rank)
    return Shown(name(capture, sequence), found[0]["process"])


def rounds(reads: Reads, capture: str) -> list[int]:
    """Rounds of a capture of which something is analysed."""
    found = paging.rows(reads, "capture_state", capture_id=capture)[0]
    return [row["sequence"] for row in found if row["analysed"]]


def standing(reads: Reads, capture: str, sequence: int = 1, loaded: bool = False) -> Standing:
    """How far a capture is. Raises 404 when nothing has been heard of it."""
    found = paging.rows(reads, "capture_state", capture_id=capture)[0]
    if not found:
        if loaded:
            return Standing("analysed")
        raise missing("path", "capture", _unknown(name(capture, sequence)), capture)
    row = next((each for each in found if each["sequence"] == sequence), {**found[0], **_NOTHING})
    counts = {key: row[key] for key in ("processes", "captured", "analysed", "failed")}
    return Standing("analysed", _incomplete(row), **counts) if loaded else Standing(*_why_not(capture, row), **counts)


_NOTHING: Final = {
    "processes": 0, "captured": 0, "analysed": 0, "analysis_failed": 0, "failed": 0, "analysis_why": "",
    "failed_why": "",
}  # fmt: skip


def _unknown(capture: str) -> str:
    return (
        f"there is no capture {capture}: /profiling lists what was captured, `warpmeter queries captures_analysed` "
        f"what is analysed; load a trace by hand with `warpmeter analyze FILE --load --capture {capture}`"
    )


def _why_not(capture: str, row: Mapping[str, Any]) -> tuple[State, str]:
    if row["analysis_failed"]:
        return "failed", f"{capture} is captured, and its analysis failed: {row['analysis_why']}"
    if row["captured"]:
        by_hand = f"`warpmeter analyze FILE --load --capture {capture}`"
        return "waiting", (
            f"{capture} is captured and not analysed yet ({_traces(row['captured'])}): the scheduler does it within a "
            f"minute or so where it runs with scheduler.analyse; by hand: {by_hand}"
        )
    if row["state"] in ("requested", "running"):
        return "capturing", f"{capture} is being captured: no trace of its {row['processes']} processes is there yet"
    return "failed", f"nothing of {capture} was captured: {row['failed_why'] or row['why'] or 'nobody says why'}"


def _incomplete(row: Mapping[str, Any]) -> str:
    """What of it is missing in the analysis; empty where nothing is."""
    said = []
    if row["failed"]:
        said.append(f"{row['failed']} of {row['processes']} processes were not captured ({row['failed_why']})")
    if row["analysis_failed"]:
        said.append(f"the analysis of {_traces(row['analysis_failed'])} failed ({row['analysis_why']})")
    return "; ".join(said)


def _traces(count: int) -> str:
    return f"{count} trace{'s' * (count != 1)}"

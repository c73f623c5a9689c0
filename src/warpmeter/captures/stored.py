"""Captures out of the store, where they are long after the bus has forgotten them."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from warpmeter import queries
from warpmeter.captures.progress import Progress
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Request
from warpmeter.store import Client

Row = dict[str, Any]
SINCE: Final = "2020-01-01"
_REQUEST: Final = (
    "name", "requested_by", "job_id", "mode", "duration_ms", "iterations", "count", "interval_s", "shapes", "memory",
    "stacks", "flops", "modules", "max_count", "max_bytes", "max_seconds", "pids",
)  # fmt: skip
_JSON: Final = {"date_time_output_format": "iso", "output_format_json_quote_64bit_integers": 0}


def progress(client: Client, capture_id: str) -> Progress | None:
    """How a capture stands by the store; None where it knows none. Raises ClickHouseError."""
    rows = _rows(client, "captures_listed", capture_id=capture_id, since=SINCE, limit="1")
    if not rows:
        return None
    known = Progress(capture_id, _request(rows[0]))
    for event in events(capture_id, rows[0], _rows(client, "capture_states", capture_id=capture_id)):
        known.hear(event)
    return known


def _rows(client: Client, name: str, **given: str) -> list[Row]:
    asked = queries.get(name).statement(given)
    found = client.raw_query(asked.sql, dict(asked.values), settings=dict(_JSON), fmt="JSON")
    return list(json.loads(found)["data"])


def _request(row: Row) -> Request:
    return Request(
        capture_id=row["capture_id"], ts=_seconds(row["requested_at"]), action="start", hosts=row["asked_hosts"],
        where=row["condition"], **{name: row[name] for name in _REQUEST},
    )  # fmt: skip


def events(capture_id: str, row: Row | None, processes: Sequence[Row]) -> list[Event]:
    """What the store knows of a capture, as the events that it knows it from.

    `row`: of the query captures_listed, None where it has none; `processes`: of capture_states; times in ISO 8601.
    """
    found = []
    if row is not None and row["begun_at"] is not None:
        found.append(Event(capture_id=capture_id, state="requested", ts=_seconds(row["begun_at"])))
    if row is not None and row["ended_at"] is not None:
        found.append(
            Event(
                capture_id=capture_id, state="ended", ts=_seconds(row["ended_at"]), reason=row["reason"], why=row["why"]
            )
        )
    for process in processes:
        found += _of_process(capture_id, process)
    return found


def _of_process(capture_id: str, row: Row) -> list[Event]:
    event = Event(
        capture_id=capture_id, sequence=row["sequence"], host=row["host"], job_id=row["job_id"], state=row["state"],
        reason=row["reason"], why=row["why"], **_set(row, "pid", "rank"), **_times(row, "start_at"),
    )  # fmt: skip
    if not row["url"]:
        return [event]
    trace = Event(
        url=row["url"], sha256=row["sha256"], **_set(row, "bytes", "raw_bytes", "slowdown_permille"),
        **_times(row, "traced_from", "traced_until"),
    )  # fmt: skip
    trace.MergeFrom(event)
    trace.state = "captured"
    return [trace] if row["state"] == "captured" else [trace, event]  # a second word on the trace would not name it


def _set(row: Row, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names if row[name] is not None}


def _times(row: Row, *names: str) -> dict[str, Any]:
    return {name: _seconds(row[name]) for name in names if row[name] is not None}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

"""Where triggers ask for captures, and what is known of these: the bus and the store."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from warpmeter import queries
from warpmeter.captures import stored
from warpmeter.captures.asking import Asker
from warpmeter.captures.progress import Progress
from warpmeter.captures.wishes import Request
from warpmeter.quantity import quantity
from warpmeter.scheduler.alerts.budget import Spent
from warpmeter.settings import Settings
from warpmeter.store import client

TOLD: Final = 5
"""Findings that are attached; the capture has them all."""
LONGEST: Final = 600
PATIENCE_S: Final = 30
_JSON: Final = {"date_time_output_format": "iso", "output_format_json_quote_64bit_integers": 0}


class Desk(Protocol):
    """Where captures are asked for, and what is known of them. Any call may wait. Raises ClickHouseError, and `ask`
    NotTakenError.
    """

    def spent(self, now: float) -> Sequence[Spent]:
        """What alerts asked for in the last day."""

    def ask(self, request: Request) -> None:
        """Ask for a capture."""

    def outcome(self, capture_id: str) -> tuple[str, ...]:
        """In words what it found, or why it captured nothing; empty while it goes on or is not known yet."""


class StoreDesk:
    """The real one. For one thread; raises KafkaException at its making, for options that are refused."""

    def __init__(self, settings: Settings) -> None:
        self._store = settings.store
        self._asker = Asker(settings.kafka, "scheduler")

    def spent(self, now: float) -> Sequence[Spent]:
        """By the store, which may not know yet what was asked for seconds ago."""
        until = datetime.fromtimestamp(now, UTC).isoformat()
        rows = self._rows("captures_triggered", since="-24h", until=until)
        return [_spent(row) for row in rows]

    def ask(self, request: Request) -> None:
        """Returns once the broker has it."""
        self._asker.ask(request)

    def outcome(self, capture_id: str) -> tuple[str, ...]:
        """Once it has ended, which it does when it is analysed."""
        known = stored.progress(client(self._store, PATIENCE_S), capture_id)
        if known is None or known.ended is None:
            return ()
        if not known.captured:
            return (f"not captured: {reason(known)}"[:LONGEST],)
        found = self._rows("capture_findings", capture_id=capture_id)
        told = tuple(finding(row)[:LONGEST] for row in found[:TOLD])
        return told or (nothing(known),)

    def _rows(self, name: str, **given: str) -> list[dict[str, Any]]:
        asked = queries.get(name).statement(given)
        answer = client(self._store, PATIENCE_S).raw_query(
            asked.sql, dict(asked.values), settings=dict(_JSON), fmt="JSON"
        )
        found: list[dict[str, Any]] = json.loads(answer)["data"]
        return found


def _spent(row: dict[str, Any]) -> Spent:
    at = datetime.fromisoformat(row["requested_at"]).timestamp()
    vain = row["state"] in ("ended", "lost") and not row["captured"]
    return Spent(row["capture_id"], row["rule"], row["subject"], at, vain)


def reason(known: Progress) -> str:
    """Why a capture got nothing: what most of its processes and hosts say, else what the capture says."""
    said = Counter(rank.why for rank in known.ranks.values() if rank.why)
    said.update(event.why for event in known.hosts.values() if event.why)
    return said.most_common(1)[0][0] if said else known.summary()


def nothing(known: Progress) -> str:
    """Of a capture without findings: that there are none, or that it was not analysed, and why."""
    traces = f"{len(known.captured)} trace{'s' * (len(known.captured) > 1)}"
    failed = Counter(rank.last.why for rank in known.ranks.values() if rank.last.reason and rank.captured is not None)
    if failed:
        return f"{traces}, not analysed: {failed.most_common(1)[0][0]}"[:LONGEST]
    return f"{traces}, in which nothing stands out"


def finding(row: dict[str, Any]) -> str:
    """One finding in words, with what it costs."""
    cost = f" ({quantity(row['cost_seconds'], 's')})" if row["cost_seconds"] else ""
    return f"{row['text']}{cost}"

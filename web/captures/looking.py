"""Whether the processes of a job can be traced, as their agents say: asked as the scheduler asks, with a `look`.

A look changes nothing, and belongs to no capture: the web asks itself. All who ask about one job within a few seconds
get one answer.
"""

import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from warpmeter.captures import REASONS
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Command
from warpmeter.schemas.topics import TOPICS
from warpmeter.web.captures.heard import Captures, Row
from warpmeter.web.request import paging

COMMANDS: Final = TOPICS["capture-commands"]
LOOK_S: Final = 3.0
"""An agent waits for commands at the broker, so it answers within tenths of a second."""
EXPIRES_S: Final = 30.0
"""Clocks differ."""
KEPT_S: Final = 4.0
KEPT: Final = 200
PREFIX: Final = "look-"


@dataclass
class Looked:
    """What was answered about a job. `processes`: a row each, those of silent hosts as the store has them.

    `known`: there is such a job; `ended_at`: of one that runs nowhere.
    """

    processes: list[Row]
    hosts: int = 0
    silent: int = 0
    known: bool = True
    ended_at: str = ""
    at: float = 0.0


@dataclass
class Turn:
    """Of those who ask about one job: how many have it or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


@dataclass
class Looking:
    """Asks agents about jobs. Raises NotTakenError, KafkaException, ClickHouseError."""

    captures: Captures
    _kept: dict[str, Looked] = field(default_factory=dict)
    _turns: dict[str, Turn] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, job_id: str) -> Looked:
        """How it is now, or was a moment ago. A job that runs nowhere has no hosts."""
        with self._turn(job_id):
            kept = self._kept.get(job_id)
            if kept is None or time.monotonic() - kept.at >= KEPT_S:
                kept = self._look(job_id)
                kept.at = time.monotonic()
                self._keep(job_id, kept)
            return kept

    @contextmanager
    def _turn(self, job_id: str) -> Iterator[None]:
        """One at a time of those who ask about a job; forgotten with the last of them, whatever came of it."""
        with self._lock:
            turn = self._turns.setdefault(job_id, Turn())
            turn.wanted += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.wanted -= 1
                if not turn.wanted:
                    del self._turns[job_id]

    def _keep(self, job_id: str, looked: Looked) -> None:
        with self._lock:
            self._kept[job_id] = looked
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]

    def _look(self, job_id: str) -> Looked:
        trees, _ = paging.rows(self.captures.reads, "job_trees_of", job_id=job_id)
        alive = [tree for tree in trees if tree["state"] != "ended"]
        hosts = sorted({tree["host"] for tree in alive})
        if not hosts:
            return Looked([], known=bool(trees), ended_at=max((tree["ended_at"] for tree in trees), default=""))
        events = self._answers(job_id, hosts)
        answered = {event.host for event in events}
        rows = [_told(event) for event in events]
        rows += [_silent(tree, job_id) for tree in alive if tree["host"] not in answered]
        return Looked(sorted(rows, key=_order), len(hosts), len(set(hosts) - answered))

    def _answers(self, job_id: str, hosts: Sequence[str]) -> list[Event]:
        name, now = f"{PREFIX}{secrets.token_hex(8)}", time.time()
        self.captures.live.until_ready()
        self.captures.asker.put(COMMANDS, {host: _command(name, host, job_id, now) for host in hosts})
        wanted = set(hosts)
        return self.captures.live.wait(name, lambda heard: wanted <= {each.host for each in heard}, LOOK_S)


def _command(name: str, host: str, job_id: str, now: float) -> Command:
    return Command(
        host=host, ts=round(now, 3), capture_id=name, sequence=1, action="look", job_id=job_id,
        expires_at=now + EXPIRES_S, deadline_at=now + EXPIRES_S,
    )  # fmt: skip


def _told(event: Event) -> Row:
    return {
        "host": event.host,
        "pid": event.pid if event.HasField("pid") else None,
        "rank": event.rank if event.HasField("rank") else None,
        "ready": event.reason == "",
        "reason": event.reason,
        "why": event.why,
        "meaning": REASONS.get(event.reason, ""),
    }


def _silent(tree: Mapping[str, Any], job_id: str) -> Row:
    host = tree["host"]
    lost = tree["state"] == "lost"
    heard = f"nothing was heard of it since {tree['last_at']}" if lost else f"it spoke of job {job_id} a moment ago"
    why = f"the agent of {host} did not answer within {LOOK_S:g} s ({heard}): does it run there (`warpmeter status`)?"
    return {
        "host": host, "pid": tree["pid"], "rank": tree["rank"], "ready": False, "reason": "agent_away", "why": why,
        "meaning": REASONS["agent_away"],
    }  # fmt: skip


def _order(row: Row) -> tuple[bool, int, str, int]:
    return row["rank"] is None, row["rank"] or 0, row["host"], row["pid"] or 0

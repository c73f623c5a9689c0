"""What is known of a capture from its request and its events, in any order. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warpmeter.captures.ranks import Event, Rank
from warpmeter.captures.wishes import Request
from warpmeter.quantity import quantity
from warpmeter.rows import fields

WANTED_BY_LIMIT: Final = "limit"
"""Left out because fewer processes were asked for: nothing failed."""


@dataclass
class Progress:
    """One capture. `hosts`: what was said of hosts as a whole that could not take part; `warnings`: of clocks."""

    capture_id: str
    request: Request | None = None
    asked_to: str = ""
    begun: Event | None = None
    ranks: dict[tuple[int, str, int], Rank] = field(default_factory=dict)
    hosts: dict[tuple[int, str], Event] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    start_at: dict[int, float] = field(default_factory=dict)
    ended: Event | None = None

    def ask(self, request: Request) -> None:
        """Take a request for it, or for its end."""
        if request.action in ("cancel", "detach"):
            self.asked_to = request.action
        elif self.request is None:
            self.request = request

    def hear(self, event: Event) -> None:
        """Take an event, in any order; one that comes twice says nothing new."""
        if not event.sequence:
            self.begun = event if event.state == "requested" and self.begun is None else self.begun
            self.ended = event if event.state == "ended" else self.ended
        elif event.HasField("pid"):
            key = (event.sequence, event.host, event.pid)
            self.ranks.setdefault(key, Rank(event.host, event.pid)).hear(event)
            if event.state == "requested" and event.HasField("start_at"):
                self.start_at[event.sequence] = event.start_at
        elif event.state in ("failed", "cancelled"):
            self.hosts[event.sequence, event.host] = event
        elif event.reason == "clock_skew":
            self.warnings[event.host] = event.why

    @property
    def state(self) -> str:
        """In a word, as the view `captures` has it."""
        if self.ended is not None:
            return "ended"
        return "running" if self.begun is not None else "requested"

    @property
    def captured(self) -> list[Event]:
        """Of each trace in the store, the word on it; in the order of rounds, hosts and pids."""
        return [rank.captured for _, rank in sorted(self.ranks.items()) if rank.captured is not None]

    @property
    def whole(self) -> bool:
        """It ended, there are traces, and nobody who was meant is without one."""
        said = [rank.last for rank in self.ranks.values() if rank.captured is None] + list(self.hosts.values())
        return self.ended is not None and bool(self.captured) and all(each.reason == WANTED_BY_LIMIT for each in said)

    def summary(self) -> str:
        """How it stands, in a line."""
        if self.ended is not None:
            reason = f" ({self.ended.reason})" if self.ended.reason else ""
            return f"ended{reason}: {self.ended.why}" if self.ended.why else f"ended{reason}"
        if self.begun is None:
            return "asked for; no scheduler has taken it yet"
        final = sum(rank.final for rank in self.ranks.values())
        return f"{len(self.captured)} captured, {final} of {len(self.ranks)} processes done"

    def document(self) -> Mapping[str, Any]:
        """All of it for programs."""
        return {
            "capture_id": self.capture_id,
            "state": self.state,
            "reason": self.ended.reason if self.ended is not None else "",
            "why": self.ended.why if self.ended is not None else "",
            "request": None if self.request is None else fields(self.request),
            "ranks": [_rank(number, rank) for (number, _, _), rank in sorted(self.ranks.items())],
            "hosts": [fields(event) for _, event in sorted(self.hosts.items())],
            "warnings": dict(self.warnings),
        }


def _rank(number: int, rank: Rank) -> Mapping[str, Any]:
    stored = rank.captured if rank.captured is not None else rank.last
    known = fields(stored)
    kept = ("url", "bytes", "raw_bytes", "sha256", "start_at", "traced_from", "traced_until", "slowdown_permille")
    return {
        "sequence": number, "host": rank.host, "pid": rank.pid, "state": rank.state,
        "rank": rank.last.rank if rank.last.HasField("rank") else None, "job_id": rank.last.job_id,
        "reason": rank.last.reason, "why": rank.why, **{name: known[name] for name in kept},
    }  # fmt: skip


def target(request: Request) -> str:
    """Who is meant, as it was asked."""
    parts = [f"job {request.job_id}" if request.job_id else "", ", ".join(request.hosts)]
    parts.append("pid " + ", ".join(map(str, request.pids)) if request.pids else "")
    parts.append(f"where {request.where}" if request.where else "")
    return "; ".join(part for part in parts if part)


def what(request: Request) -> str:
    """What is traced, and how often, as it was asked."""
    much = f"{request.iterations} iterations" if request.iterations else quantity(request.duration_ms / 1000, "s")
    options = [name for name in ("shapes", "memory", "stacks", "flops", "modules") if getattr(request, name)]
    often = f"every {request.interval_s} s" if request.mode == "continuous" else ""
    often = often or (f"{request.count} times" if request.count > 1 else "")
    return ", ".join(part for part in (much, often, *options) if part)

"""One round of a capture: who is there, one start for all, and the end of each. Pure over events and time.

Everything that a round must not forget is in the events, the scheduler's own among them; so whoever takes over reads
the events and goes on. Events may come twice, or late: each is taken as what it says, and states only go forward.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from warpmeter.captures import wishes
from warpmeter.captures.ranks import Event, Rank
from warpmeter.captures.wishes import Command, Request
from warpmeter.scheduler import clocks
from warpmeter.scheduler.hosts import Host
from warpmeter.settings import Scheduler

QUIET_S: Final = 0.5
"""After the last answer: the events of a host's processes come together."""
SLACK_S: Final = 10.0
"""For an agent's last word to arrive after its deadline."""


@dataclass(frozen=True)
class Target:
    """What is meant on one host: a job's processes, or these pids and whoever descends from them; else all."""

    host: str
    job_id: str = ""
    pids: tuple[int, ...] = ()


@dataclass
class Said:
    """What a round has to say: to agents, and to everybody."""

    commands: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass
class Round:
    """The round `sequence` of `request`. `void_at`: it had nobody to ask, since then. `later_s`: its start is so much
    further ahead than others'.
    """

    request: Request
    sequence: int
    limits: Scheduler
    hosts: dict[str, Host] = field(default_factory=dict)
    start_at: float | None = None
    void_at: float | None = None
    later_s: float = 0.0
    heard_at: float = 0.0
    cancel_told_at: float | None = None
    analyse_since: float | None = None
    over_at: float | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    """Of hosts where no process could be asked, and of the round as a whole ('')."""

    # --- what is known ---------------------------------------------------------------------------------------

    @property
    def looked_at(self) -> float:
        """When it began."""
        asked = [host.looked_at for host in self.hosts.values() if host.looked_at is not None]
        return self.void_at or min(asked, default=0.0)

    @property
    def begun(self) -> bool:
        """Somebody was asked, or nobody was there to be."""
        return self.looked_at > 0

    @property
    def over(self) -> bool:
        """Every process has its final state, and every host has had its say."""
        return self.begun and not any(host.open for host in self.hosts.values())

    @property
    def ranks(self) -> list[Rank]:
        """All processes that were named."""
        return [rank for host in self.hosts.values() for rank in host.ranks.values()]

    @property
    def captured(self) -> list[Rank]:
        """Processes whose traces are in the store."""
        return [rank for rank in self.ranks if rank.captured is not None]

    @property
    def unanalysed(self) -> list[Rank]:
        """Those of them of which no analysis is known."""
        return [rank for rank in self.captured if rank.state != "analysed"]

    @property
    def deadline(self) -> float:
        """When every process that was told to start has its final state, by its agent."""
        return wishes.deadline(self.request, self.start_at or self.looked_at, self.limits, self._step_s)

    @property
    def _counting(self) -> list[Event]:
        """What was said of processes that count their steps."""
        seen = [rank.seen for rank in self.ranks if rank.seen is not None]
        return [event for event in seen if event.HasField("step_us") and event.HasField("step_count")]

    @property
    def _step_s(self) -> float | None:
        """What an optimizer step takes, where it is counted."""
        counting = [event.step_us for event in self._counting]
        return wishes.step_s(median(counting)) if counting else None

    def _pace(self, now: float) -> wishes.Pace | None:
        counts, step_s = [event.step_count for event in self._counting], self._step_s
        if step_s is None:
            return None
        since = math.ceil((now - self.looked_at) / step_s)
        return wishes.Pace(min(counts), max(counts) + since, step_s)

    # --- what is heard ---------------------------------------------------------------------------------------

    def hear(self, event: Event, at: float | None = None) -> None:
        """Take an event; `at` is when it came, None where it is read again."""
        self.heard_at = max(self.heard_at, event.ts if at is None else at)
        if event.state == "failed" and not event.HasField("pid"):
            self.reasons[event.host] = event.reason
        if not event.host:
            if event.state == "failed":
                self.void_at = event.ts
        elif event.HasField("pid"):
            self._hear_rank(event)
        else:
            self._hear_host(event)
        if event.by == "agent" and event.state == "seen":
            self._answered(event, at)

    def _hear_rank(self, event: Event) -> None:
        host = self.hosts.setdefault(event.host, Host())
        host.ranks.setdefault(event.pid, Rank(event.host, event.pid)).hear(event)
        if event.state == "requested" and event.HasField("start_at"):
            self.start_at = event.start_at

    def _hear_host(self, event: Event) -> None:
        host = self.hosts.setdefault(event.host, Host())
        if event.by == "scheduler":
            if event.state == "requested":
                host.looked_at = event.ts
            host.skew_told |= event.state == "seen"
            host.given_up |= event.state in ("failed", "cancelled")
        elif event.state in ("failed", "cancelled") and self.start_at is not None:
            host.lost = event
        elif event.reason:
            host.nothing = event
            host.answered_at = host.answered_at or event.ts

    def _answered(self, event: Event, at: float | None) -> None:
        host = self.hosts.setdefault(event.host, Host())
        host.answered_at = event.ts if at is None else at
        if at is not None and host.looked_at is not None:
            host.skew = clocks.measured(host.looked_at, event.ts, at).within(host.skew)

    # --- what is to be said ----------------------------------------------------------------------------------

    def look(self, targets: Sequence[Target], now: float) -> Said:
        """Ask who is there."""
        said = Said()
        for target in targets:
            told = self._command(target.host, "look", now, now + self.limits.look_s)
            told.deadline_at, told.job_id = now + self.limits.look_s, target.job_id
            told.pids.extend(target.pids)
            said.commands.append(told)
            said.events.append(self._event(now, "requested", target.host))
        return said

    def void(self, reason: str, why: str, now: float) -> Said:
        """There is nobody to ask."""
        return Said(events=[self._event(now, "failed", reason=reason, why=why)])

    def turn(self, now: float, cancelled_at: float | None) -> Said:
        """What the time that has passed asks for."""
        if not self.begun or self.over:
            return Said()
        if cancelled_at is not None:
            return self._cancel(now, cancelled_at)
        if self.start_at is None:
            return self._start(now) if self._all_there(now) else Said()
        overdue = now >= self.deadline + SLACK_S
        return Said(events=[self._silent(rank, now) for rank in self._open_ranks() if overdue or self._lost(rank)])

    def _all_there(self, now: float) -> bool:
        if now >= self.looked_at + self.limits.look_s:
            return True
        asked = [host for host in self.hosts.values() if host.looked_at is not None]
        waited = [host for host in asked if host.answered_at is None and not host.given_up]
        return not waited and now >= self.heard_at + QUIET_S

    def _start(self, now: float) -> Said:
        """One start for all that are ready; a word on each of the others."""
        said = Said(events=[*self._skews(now), *self._absent(now)])
        ready = sorted((rank for rank in self.ranks if rank.ready), key=_order)
        limit = self.request.process_limit or len(ready)
        for rank in self.ranks:
            if rank.state == "seen" and not rank.ready:
                said.events.append(self._of(rank, now, "failed", rank.last.reason, rank.last.why))
        why = f"{len(ready)} processes could be traced, and the limit is {limit}"
        said.events += [self._of(rank, now, "cancelled", "limit", why) for rank in ready[limit:]]
        self._start_those(ready[:limit], now, said)
        return said

    def _start_those(self, ranks: Sequence[Rank], now: float, said: Said) -> None:
        start_at = now + wishes.lead_s(self.request) + self.later_s
        for host in sorted({rank.host for rank in ranks}):
            chosen = [rank for rank in ranks if rank.host == host]
            told = self._command(host, "start", now, start_at)
            told.deadline_at = wishes.deadline(self.request, start_at, self.limits, self._step_s)
            if self.request.iterations:
                told.iteration_roundup = wishes.roundup(self.request, self._pace(now))
            else:
                told.start_at, told.expires_at = start_at, start_at - wishes.warmup_s(self.request)
            jobs = {rank.last.job_id for rank in chosen}
            told.job_id = jobs.pop() if len(jobs) == 1 else ""
            told.pids.extend(rank.pid for rank in chosen)
            said.commands.append(told)
        for rank in ranks:
            event = self._of(rank, now, "requested")
            event.start_at = start_at
            said.events.append(event)

    def _skews(self, now: float) -> Iterator[Event]:
        for name, host in self.hosts.items():
            if host.skew is None or host.skew_told:
                continue
            ms = host.skew.milliseconds
            event = self._event(now, "seen", name)
            event.clock_skew_ms = max(-(1 << 31), min(ms, (1 << 31) - 1))
            if host.skew.beyond:
                event.reason = "clock_skew"
                event.why = (
                    f"the clock of {name} is {abs(ms)} ms {'ahead' if ms > 0 else 'behind'}: its traces begin so much "
                    f"{'earlier' if ms > 0 else 'later'} than the others'; synchronise it (chrony, PTP)"
                )
            yield event

    def _absent(self, now: float) -> Iterator[Event]:
        """Hosts that have not answered, and those that have nobody."""
        for name, host in self.hosts.items():
            if host.given_up or host.looked_at is None or host.ranks:
                continue
            if host.nothing is not None:
                yield self._event(now, "failed", name, host.nothing.reason, host.nothing.why)
                continue
            if host.answered_at is not None:
                yield self._event(now, "failed", name, "no_process", f"nothing that is meant runs on {name}")
                continue
            why = (
                f"the agent of {name} did not answer within {self.limits.look_s:g} s; does it run (`warpmeter status`)?"
            )
            yield self._event(now, "failed", name, "agent_away", why)

    def _lost(self, rank: Rank) -> Event | None:
        return self.hosts[rank.host].lost

    def _silent(self, rank: Rank, now: float) -> Event:
        if (lost := self._lost(rank)) is not None:
            return self._of(rank, now, lost.state, lost.reason, lost.why)
        taken = rank.state not in ("requested", "seen")
        last = f"its last word was {rank.state}" if taken else "it has not even taken the command"
        why = f"the agent of {rank.host} said nothing more by the deadline, {last}; does it run (`warpmeter status`)?"
        return self._of(rank, now, "failed", "agent_away", why)

    def late(self, now: float) -> Said:
        """A word on those that came too late to take part: at the end of all."""
        why = f"it was named when the {self.limits.look_s:g} s for an answer were over"
        rest = [rank for rank in self.ranks if not rank.final]
        return Said(events=[self._of(rank, now, "failed", "agent_away", why) for rank in rest])

    def unanalysable(self, why: str, now: float) -> Said:
        """The analysis of what it captured is given up."""
        return Said(events=[self._of(rank, now, "analysed", "analysis_failed", why) for rank in self.unanalysed])

    def _cancel(self, now: float, cancelled_at: float) -> Said:
        open_ranks = self._open_ranks()
        if self.start_at is not None and self.cancel_told_at is None and open_ranks:
            self.cancel_told_at = now
            hosts = sorted({rank.host for rank in open_ranks})
            return Said([self._ending(host, now) for host in hosts])
        if self.start_at is not None and now < cancelled_at + self.limits.cancel_s:
            return Said()
        why = "somebody cancelled it"
        if self.start_at is not None:
            why += f", and the agent has not said what became of it within {self.limits.cancel_s:g} s"
        events = [self._of(rank, now, "cancelled", "cancelled_by_request", why) for rank in open_ranks]
        gone = {rank.host for rank in open_ranks}
        events += [
            self._event(now, "cancelled", host, "cancelled_by_request", why)
            for host in self.hosts
            if host not in gone and self.hosts[host].open
        ]
        return Said(events=events)

    def _ending(self, host: str, now: float) -> Command:
        told = self._command(host, "cancel", now, now + self.limits.cancel_s)
        told.deadline_at = now + self.limits.cancel_s
        return told

    def _open_ranks(self) -> list[Rank]:
        return [rank for rank in self.ranks if not rank.final and (rank.told or self.start_at is None)]

    def _command(self, host: str, action: str, now: float, expires_at: float) -> Command:
        told = wishes.command(self.request, host, self.sequence, action, now)
        told.expires_at = expires_at
        return told

    def _of(self, rank: Rank, now: float, state: str, reason: str = "", why: str = "") -> Event:
        event = self._event(now, state, rank.host, reason, why)
        event.pid, event.job_id = rank.pid, rank.last.job_id
        if rank.last.HasField("rank"):
            event.rank = rank.last.rank
        return event

    def _event(self, now: float, state: str, host: str = "", reason: str = "", why: str = "") -> Event:
        return Event(
            capture_id=self.request.capture_id, ts=now, sequence=self.sequence, state=state, by="scheduler",
            host=host, reason=reason, why=why, job_id=self.request.job_id,
        )  # fmt: skip


def _order(rank: Rank) -> tuple[bool, int, str, int]:
    """By rank, else by host and pid."""
    known = rank.last.HasField("rank")
    return not known, rank.last.rank if known else 0, rank.host, rank.pid

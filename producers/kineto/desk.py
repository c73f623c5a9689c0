"""Where it comes together: commands in, what is seen of each process, what is told of it. One thread uses it."""

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, Final

from warpmeter import log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers import files
from warpmeter.producers.jobs.process import parse_stat
from warpmeter.producers.kineto import explain, steps
from warpmeter.producers.kineto.captures import (
    Capture,
    CaptureCommand,
    Failure,
    Look,
    Member,
    Told,
    advance,
    tracing_of,
    warmup_s,
)
from warpmeter.producers.kineto.collector import Collector
from warpmeter.producers.kineto.configuration import ACTIVITY_TYPES
from warpmeter.producers.kineto.files import HELP, Folder, environment, trace_folder
from warpmeter.producers.kineto.journal import Journal
from warpmeter.producers.kineto.registry import Client, Registry
from warpmeter.producers.kineto.targets import Target, targets
from warpmeter.producers.kineto.upload import Place, Store, Stored, store_of, upload
from warpmeter.producers.source import JobTree
from warpmeter.schemas.generated.capture_events_pb2 import Envelope
from warpmeter.settings import Settings, Traces

CaptureEvent = Envelope.CaptureEvent
Publish = Callable[[Sequence[CaptureEvent]], None]
LONGEST_MS: Final = 3_600_000
OPEN_S: Final = 5.0
LOOK_S: Final = 1.0
"""How fast processes are is asked of them for so long."""
BUSY: Final = Failure("busy", "it traces already, for another capture or by a profiler in its own code")
CAPTURES = selfmetrics.counter("warpmeter_captures_total")
logger = log.get("kineto")


@dataclass(frozen=True)
class Surroundings:
    """What the desk asks of its agent. `trees`: of the jobs on this host, now; each of the pids is looked at again."""

    settings: Settings
    registry: Registry
    clock: Clock
    trees: Callable[[Iterable[int]], Sequence[JobTree]]

    @property
    def proc(self) -> str:
        """Where the processes of the host are."""
        return files.below(self.settings.agent.root, "proc")


class Desk:
    """Captures of this host. `publish` takes events of one capture."""

    def __init__(self, around: Surroundings, journal: Journal, publish: Publish) -> None:
        """Takes up what an earlier agent had begun."""
        self._around, self._journal, self._publish = around, journal, publish
        self._captures: dict[str, Capture] = {}
        self._collectors: dict[str, Collector] = {}
        self._dropped: dict[int, float] = {}
        self._finished: dict[int, float] = {}
        self._store: Store | None = None
        for capture in journal.load():
            self._collected(capture)

    @property
    def busy(self) -> bool:
        """Whether something is under way, so that `tick` is to be called often."""
        return bool(self._captures)

    def take(self, command: CaptureCommand) -> None:
        """Carry out a command, once; one that came too late is left alone."""
        now = self._around.clock.now()
        meant = f"{command.job_id}/{','.join(map(str, command.pids))}"  # one host may have several jobs of a capture
        key = f"{command.capture_id}/{command.sequence}/{command.action}/{meant}"
        if command.host != self._around.settings.agent.host or key in self._journal.handled:
            return
        if now >= command.expires_at:
            logger.warning(
                "a command came too late and is left out", capture=command.capture_id, command=command.action
            )
            return
        self._journal.handled[key] = max(command.expires_at, now) + 60.0
        if command.action == "cancel":
            self._cancel(command)
        elif problem := _problem(command):
            self._tell(command, _failed(problem))
        elif command.action == "look":
            self._look(command)
        elif command.action == "start":
            self._start(command)
        else:
            logger.warning(
                "a command that this agent does not know; is it older than the scheduler?", it=command.action
            )

    def tick(self) -> None:
        """See how every capture fares."""
        changed = False
        for key, capture in list(self._captures.items()):
            after, told = advance(capture, self._seen(key, capture))
            if told is not None and told.reason == "not_polling" and not self._withdrawn(capture):
                continue  # it took it at this very moment
            changed |= after.phase != capture.phase or told is not None
            self._captures[key] = after
            if told is not None:
                self._tell(after.command, told, after.member, after.start_at)
                if told.state != "started":
                    self._finish(key, still_comes=told.reason in ("expired", "no_step"))
        if changed:
            self._save()

    def close(self) -> None:
        """Leave everything as it is, for the next agent."""
        for collector in self._collectors.values():
            collector.leave()
        self._save()

    # Looking.

    def _targets(self, command: CaptureCommand) -> list[Target]:
        """As they are at this moment: of a job that has just begun the last tick knows no ranks yet, and who has just
        ended is registered still."""
        clients = [client for client in self._around.registry.clients() if _started(self._around.proc, client.pid)]
        trees = self._around.trees([client.pid for client in clients])
        return targets(command.job_id, tuple(command.pids), clients, trees)

    def _look(self, command: CaptureCommand) -> None:
        found = self._targets(command)
        if not found:
            self._tell(command, Told("seen", "no_process", _no_process(command)))
        events = []
        asking = [(target.client.pid, target.client.own_pid) for target in found if target.client is not None]
        paces = steps.paces(self._around.proc, asking, LOOK_S)
        for target in found:
            problem, pid = self._problem_of(target)
            told = Told("seen") if problem is None else Told("seen", problem.reason, problem.why)
            event = self._event(command, told, self._member(target, pid))
            if (pace := paces.get(pid)) is not None:
                event.step_count, event.step_us = pace.count, pace.step_us
            events.append(event)
        if events:
            self._publish(events)

    def _problem_of(self, target: Target) -> tuple[Failure | None, int]:
        """What keeps a process from being traced, and the pid to speak of."""
        around = self._around
        if target.client is None:
            pid = explain.worker(around.proc, target.pids, target.pid)
            return explain.obstacle(around.proc, pid, around.settings.agent.kineto_socket_dir), pid
        if self._is_busy(target.client):
            return BUSY, target.pid
        return None, target.pid

    def _is_busy(self, client: Client) -> bool:
        """Also one whose capture was cancelled after it took the request: it traces all the same."""
        mine = any(capture.member.pid == client.pid for capture in self._captures.values())
        mine = mine or self._around.clock.now() < self._dropped.get(client.pid, 0.0)
        return mine or client.tracing or bool(client.wanted) or client.fetched == client.seen

    def _member(self, target: Target, pid: int) -> Member:
        client = target.client
        own, uid = (client.own_pid, client.uid) if client is not None else (0, 0)
        return Member(pid, _started(self._around.proc, pid) or 0, own, uid, target.rank, target.job_id)

    # Starting.

    def _start(self, command: CaptureCommand) -> None:
        found = self._targets(command)
        if not found:
            self._tell(command, Told("failed", "no_process", _no_process(command)))
        limit = command.process_limit or len(found)
        prepared = [self._prepared(command, target) for target in found[:limit]]
        until = self._around.clock.monotonic() + OPEN_S
        accepted = [capture for capture in prepared if capture is not None and self._is_open(capture, until)]
        self._save()  # before any of them is offered: after a kill nothing is begun twice
        for capture in accepted:
            self._offer(capture)

    def _prepared(self, command: CaptureCommand, target: Target) -> Capture | None:
        """The capture of one process, its folder about to be opened; None when it failed, which is told."""
        problem, pid = self._problem_of(target)
        member = self._member(target, pid)
        if problem is None:
            problem = self._too_late(command)
        if problem is None:
            try:
                folder = trace_folder(environment(self._around.proc, member.pid))
                name = f"warpmeter-{member.pid}-{secrets.token_hex(8)}_{member.own_pid}.json"
                capture = Capture(command, member, folder, name, self._around.clock.now())
                return self._collected(capture)
            except PermissionError:
                problem = Failure("file_refused", f"process {member.pid} may not be looked at: {HELP}")
            except OSError as error:
                problem = Failure("process_ended", f"the process ended: {error.strerror}")
        self._tell(command, _failed(problem), member)
        return None

    def _too_late(self, command: CaptureCommand) -> Failure | None:
        begins = command.start_at - warmup_s(command) if command.HasField("start_at") else math.inf
        if command.iterations or begins <= 0 or self._around.clock.now() < begins:
            return None
        return Failure(
            "expired", "the order came when the warm-up had to begin already: is the bus slow, or a clock off?"
        )

    def _is_open(self, capture: Capture, until: float) -> bool:
        key = _key(capture)
        problem = self._collectors[key].problem(until - self._around.clock.monotonic())
        if problem is not None:
            self._tell(capture.command, _failed(problem), capture.member)
            self._finish(key)
        return problem is None

    def _collected(self, capture: Capture) -> Capture:
        member, own = capture.member, self._around.settings.traces.max_file_bytes
        opened = partial(Folder, self._around.proc, member.pid, member.uid, capture.folder)
        limit = min(own, capture.command.max_file_bytes or own)
        quiet_since = max(self._finished.get(member.pid, 0.0), self._dropped.get(member.pid, 0.0))
        collector = Collector(opened, capture.name, limit, partial(self._put, capture, limit, quiet_since))
        self._captures[_key(capture)], self._collectors[_key(capture)] = capture, collector.start()
        return capture

    def _put(
        self, capture: Capture, limit: int, quiet_since: float, file: BinaryIO, given_up: Callable[[], bool]
    ) -> Stored:
        """On the collector's thread. `quiet_since`: when the capture before this one was done with the process."""
        traces, command, member = self._around.settings.traces, capture.command, capture.member
        at = capture.start_at or capture.offered_at
        place = Place(member.job_id, command.capture_id, command.sequence, command.host, member.pid, member.rank, at)
        late = lambda: given_up() or self._around.clock.now() >= command.deadline_at  # noqa: E731
        name, store = place.name(traces.compression), self._opened_store(traces)
        stored = upload(file, limit, store, name, late, traces.compression)
        slowdown = steps.measured(self._around.proc, member, stored, warmup_s(command), quiet_since)
        return replace(stored, slowdown_permille=slowdown)

    def _opened_store(self, traces: Traces) -> Store:
        if self._store is None:
            self._store = store_of(traces)
        return self._store

    def _offer(self, capture: Capture) -> None:
        outcome = self._around.registry.offer(capture.member.pid, _text(capture))
        if outcome == "taken":
            self._tell(capture.command, Told("accepted"), capture.member, capture.start_at)
            return
        problem = BUSY if outcome == "busy" else Failure("process_ended", "the process does not ask any more")
        self._tell(capture.command, _failed(problem), capture.member)
        self._finish(_key(capture))

    def _cancel(self, command: CaptureCommand) -> None:
        """What a process has taken it traces to the end, for Kineto cannot be stopped; nobody keeps it then."""
        now = self._around.clock.now()
        self._dropped = {pid: until for pid, until in self._dropped.items() if now < until}
        for key, capture in list(self._captures.items()):
            mine = capture.command
            if mine.capture_id == command.capture_id and command.sequence in (0, mine.sequence):
                if not self._withdrawn(capture):
                    self._dropped[capture.member.pid] = capture.done_by
                why = "somebody cancelled the capture"
                self._tell(mine, Told("cancelled", "cancelled_by_request", why), capture.member)
                self._finish(key, still_comes=True)
        self._save()

    # Seeing.

    def _seen(self, key: str, capture: Capture) -> Look:
        client = self._around.registry.client(capture.member.pid)
        collector = self._collectors[key]
        resumed = client is not None and client.fetched is None and not client.wanted
        if resumed and capture.phase == "offered" and client is not None and not client.tracing:
            self._around.registry.offer(client.pid, _text(capture))
        fetched = client is not None and (client.fetched is not None or (resumed and client.tracing))
        asked_since = client is not None and (client.fetched is None or client.seen > client.fetched)
        now = self._around.clock.now()
        return Look(
            now=now,
            alive=_started(self._around.proc, capture.member.pid) == capture.member.start,
            fetched=fetched,
            tracing=client is not None and client.tracing,
            asked_at=now - (self._around.clock.monotonic() - client.seen) if client is not None else 0.0,
            idle=client is not None and asked_since and not client.tracing and not client.wanted,
            file=collector.state,
            free_bytes=collector.free_bytes,
        )

    def _withdrawn(self, capture: Capture) -> bool:
        """Whether a process can no longer take what was wanted of it; takes it back."""
        client = self._around.registry.client(capture.member.pid)
        if client is None or (client.fetched is None and not client.wanted):
            return True
        return self._around.registry.withdraw(client.pid)

    # Telling.

    def _finish(self, key: str, still_comes: bool = False) -> None:
        """Done with: what there is of its file, or still comes, is removed."""
        capture, collector = self._captures.pop(key), self._collectors.pop(key)
        if collector.state not in ("absent", "under way"):
            self._around.registry.finished(capture.member.pid)
        alive = {client.pid for client in self._around.registry.clients()}
        self._finished = {pid: at for pid, at in self._finished.items() if pid in alive}
        self._finished[capture.member.pid] = self._around.clock.now()
        collector.discard(still_comes)

    def _tell(
        self, command: CaptureCommand, told: Told, member: Member | None = None, start_at: float | None = None
    ) -> None:
        if told.state not in ("seen", "accepted", "started"):
            CAPTURES.labels(told.state, told.reason).inc()
            pid = member.pid if member is not None else None
            logger.info("capture", id=command.capture_id, pid=pid, state=told.state, reason=told.reason, why=told.why)
        self._publish([self._event(command, told, member, start_at)])

    def _event(
        self, command: CaptureCommand, told: Told, member: Member | None = None, start_at: float | None = None
    ) -> CaptureEvent:
        event = CaptureEvent(
            capture_id=command.capture_id,
            ts=round(self._around.clock.now(), 3),
            sequence=command.sequence,
            state=told.state,
            reason=told.reason,
            why=told.why,
            by="agent",
            host=command.host,
            job_id=command.job_id,
            start_at=start_at,
        )
        if member is not None:
            event.pid, event.job_id = member.pid, member.job_id or command.job_id
            if member.rank is not None:
                event.rank = member.rank
        if told.stored is not None:
            _tell_stored(event, told.stored)
        return event

    def _save(self) -> None:
        self._journal.save(self._captures, self._around.clock.now())


def _tell_stored(event: CaptureEvent, stored: Stored) -> None:
    event.url, event.bytes, event.raw_bytes, event.sha256 = stored.url, stored.bytes, stored.raw_bytes, stored.sha256
    if stored.traced_from is not None:
        event.traced_from = stored.traced_from
    if stored.traced_until is not None:
        event.traced_until = stored.traced_until
    if stored.slowdown_permille is not None:
        event.slowdown_permille = stored.slowdown_permille


def _text(capture: Capture) -> str:
    """What Kineto is told; it puts its own pid before `.json`."""
    file = f"{capture.folder.rstrip('/')}/{capture.name.rpartition('_')[0]}.json"
    return tracing_of(capture.command).text(file, secrets.token_hex(8))


def _key(capture: Capture) -> str:
    return f"{capture.command.capture_id}/{capture.command.sequence}/{capture.member.pid}"


def _failed(problem: Failure) -> Told:
    return Told("failed", problem.reason, problem.why)


def _no_process(command: CaptureCommand) -> str:
    if command.pids:
        return f"no process {', '.join(map(str, command.pids))} that asks for captures is on this host"
    if command.job_id:
        return f"no process of job {command.job_id} is on this host"
    return "no process on this host asks for captures: start jobs by `warpmeter run`, or set KINETO_USE_DAEMON=1"


def _problem(command: CaptureCommand) -> Failure | None:
    """What no process is to be told; the text that it reads has a line for each."""
    if unknown := sorted(set(command.activities) - ACTIVITY_TYPES):
        return Failure(
            "bad_request", f"{unknown[0]!r} is no activity type of Kineto: {', '.join(sorted(ACTIVITY_TYPES))}"
        )
    if command.duration_ms > LONGEST_MS:
        return Failure("bad_request", f"{command.duration_ms} ms is longer than a trace may be ({LONGEST_MS} ms)")
    return None


def _started(proc: str, pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when it is no more, or is a zombie."""
    try:
        stat = parse_stat(files.read(f"{proc}/{pid}/stat"))
    except (OSError, ValueError):
        return None
    return None if stat.ended else stat.start

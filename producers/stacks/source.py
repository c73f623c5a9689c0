"""The source of sampled stacks: once a second it looks which samplers are done, and begins a turn when one is due."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from warpmeter.clock import Clock, SystemClock
from warpmeter.producers import files
from warpmeter.producers.source import Attribution, Health, JobTree, Reading, Sample, SourceError
from warpmeter.producers.stacks import perf, pyspy
from warpmeter.producers.stacks.backoff import Backoff
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.producers.stacks.rotation import Key, Met, Rotation, Target, candidates
from warpmeter.producers.stacks.rows import Rows, Sampled, StackSample, Whose
from warpmeter.producers.stacks.sampler import Begun, Finished, HostFinished, HostSampler, ProcessSampler
from warpmeter.producers.stacks.slowing import Slowing
from warpmeter.producers.stacks.words import about_perf, held_back, told, without_c
from warpmeter.settings import Agent
from warpmeter.stacks.profile import Who

AGAIN_S: Final = 600.0
"""What is not supported, or not allowed, is tried again after so long."""
WITHOUT_C_S: Final = 3600.0
"""A process that py-spy held still for too long, as it does to read the names of large libraries, is sampled without C
frames for so long: it would be stopped again, and give nothing, in each turn."""
HOST: Final = (0, 0)
"""The whole host, where processes have their keys."""
NOBODY: Final = Met()
BUSY: Final = "the samplers of the turn before were not done when the next one was due, so that one was left out"


@dataclass(frozen=True)
class StacksRaw:
    """What finished since the last read; of the whole host, also who was met. `health`: of all that stands."""

    finished: Sequence[Finished]
    host: HostFinished | None
    met: Met
    health: Sequence[Health]


class StackSource:
    """`stack-samples` of this host.

    Turns begin at whole multiples of their interval since the epoch: all hosts of a job sample at the same time, so
    that those who wait for each other lose that time once.
    """

    name: Final = "stacks"
    topic: Final = "stack-samples"
    period_s: Final = 1.0
    timeout_s: Final = 10.0

    def __init__(self, agent: Agent, attribution: Attribution, clock: Clock | None = None) -> None:
        self._agent, self._attribution, self._clock = agent, attribution, clock or SystemClock()
        self._proc = files.below(agent.root, "proc")
        self._rotation = Rotation(agent.stacks_processes)
        self._backoff = Backoff(agent.stacks_rate_hz, agent.stacks_interval_s)
        self._host_backoff = Backoff(1, agent.stacks_interval_s)
        self._slowing = Slowing(self._proc)
        self._rows = Rows(agent.stacks_paths)
        self._turn: int | None = None
        self._programs = Programs("", "", ())
        self._running: list[ProcessSampler] = []
        self._host: HostSampler | None = None
        self._troubles: dict[Key, tuple[Target, Trouble, float]] = {}
        self._without_c: dict[Key, tuple[Target, float]] = {}
        self._known: set[Key] = set()
        self._perf_rests_until = 0.0
        self._enter = True
        self._met = NOBODY
        self._met_in: Sequence[JobTree] | None = None
        self._about_perf: Sequence[Health] = ()
        self._skipped: Sequence[Health] = ()

    def read(self) -> StacksRaw:
        """Take what is done, and begin a turn when one is due; raises SourceError where nothing can sample."""
        now = self._clock.monotonic()
        finished, host = self._collect(now), self._collect_host(now)
        if self._is_due():
            self._begin(now)
        if not self._programs.any:
            raise SourceError("unsupported", self._programs.missing[0].why)
        return StacksRaw(finished, host, self._meet(host is not None), self._health())

    def parse(self, sample: Sample[StacksRaw], before: Sample[StacksRaw] | None) -> Reading:  # noqa: ARG002
        """Rows of what finished; of output that is none of the sampler's own, its health alone."""
        raw = sample.raw
        rows: list[StackSample] = []
        broken: list[Health] = []
        for finished in raw.finished:
            try:
                rows += self._of_process(finished, sample.monotonic)
            except ValueError as error:
                broken = [Health("output", "failed", f"what py-spy wrote cannot be read: {error}")]
        if raw.host is not None:
            try:
                rows += self._of_host(raw, raw.host, sample.monotonic)
            except ValueError as error:
                broken.append(Health("perf/output", "failed", f"what perf printed cannot be read: {error}"))
        return Reading(rows, [*raw.health, *broken])

    def close(self) -> None:
        """End the samplers; what they have is not told."""
        for sampler in self._running:
            sampler.close()
        if self._host is not None:
            self._host.close()
        self._running, self._host = [], None

    def _meet(self, last: bool) -> Met:
        """Who is met while perf is at work; `last`: it is done."""
        if not last and self._host is None:
            return NOBODY
        trees = self._attribution.trees
        if trees is not self._met_in:
            self._met, self._met_in = self._met.also(trees), trees
        met = self._met
        if last:
            self._met, self._met_in = NOBODY, None
        return met

    def _is_due(self) -> bool:
        """Whether a turn begins now. Not at the first read: an agent that just began knows no job yet."""
        turn = int(self._clock.now() // self._agent.stacks_interval_s)
        first, due = self._turn is None, turn != self._turn
        self._turn = turn
        if due:
            self._programs = found(self._agent)
        if first or not due:
            return False
        busy = bool(self._running) or self._host is not None
        self._skipped = [Health("turn", "paused", BUSY)] if busy else []
        return not busy

    def _begin(self, now: float) -> None:
        """Start the samplers of a turn."""
        ts = round(self._clock.now(), 3)
        targets = candidates(self._attribution.trees, self._agent.stacks_subprocesses)
        self._keep({target.key for target in targets})
        if self._programs.pyspy:
            turn = self._rotation.turn(targets, lambda target: self._rests(target, now))
            for target in turn.targets:
                turns = turn.turns * self._backoff.every(target.key)
                self._start(target, Begun(ts, now, round(turns * self._agent.stacks_interval_s * 1000)), now)
        if self._programs.perf and now >= self._perf_rests_until and not self._host_backoff.rests(HOST):
            turns = self._host_backoff.every(HOST)
            self._start_host(Begun(ts, now, round(turns * self._agent.stacks_interval_s * 1000)))

    def _start(self, target: Target, begun: Begun, now: float) -> None:
        rate, agent = self._backoff.rate(target.key), self._agent
        if now < self._without_c.get(target.key, (target, 0.0))[1]:
            agent = replace(agent, stacks_native=False)
        try:
            self._running.append(ProcessSampler(self._programs.pyspy, agent, target, begun, rate, self._enter))
        except OSError as error:
            self._troubles[target.key] = (target, Trouble("failed", str(error)), now)

    def _start_host(self, begun: Begun) -> None:
        try:
            self._host = HostSampler(self._programs.perf, self._agent, begun)
        except OSError as error:
            self._about_perf = [Health("perf", "failed", str(error))]

    def _rests(self, target: Target, now: float) -> bool:
        known = self._troubles.get(target.key)
        if known is not None and known[1].state == "unsupported" and now - known[2] < AGAIN_S:
            return True
        return self._backoff.rests(target.key) or (pyspy.pauses(self._agent) and is_stopped(self._proc, target.pid))

    def _keep(self, keys: set[Key]) -> None:
        self._backoff.keep(keys)
        self._slowing.keep(keys)
        self._troubles = {key: known for key, known in self._troubles.items() if key in keys}
        self._without_c = {key: known for key, known in self._without_c.items() if key in keys}
        self._known &= keys

    def _collect(self, now: float) -> list[Finished]:
        looks = [(sampler, sampler.look(now)) for sampler in self._running]
        self._running = [sampler for sampler, finished in looks if finished is None]
        done = [finished for _, finished in looks if finished is not None]
        if not done:
            return []
        until = self._agent.stacks_sampling_s
        spans = [(each.target, each.begun.monotonic, each.begun.monotonic + until) for each in done if not each.gone]
        lost = self._slowing.of(spans)
        for each in done:
            key = each.target.key
            self._backoff.took(key, replace(each.cost, slowed_permille=lost.get(key)))
            self._troubles.pop(key, None)
            self._enter = self._enter and not each.refused
            if each.output:
                self._known.add(key)
            if each.trouble is not None:
                self._troubles[key] = (each.target, pyspy.of_known(each.trouble, key in self._known), now)
            if each.stalled and self._agent.stacks_native:
                self._without_c[key] = (each.target, now + WITHOUT_C_S)
        return done

    def _collect_host(self, now: float) -> HostFinished | None:
        finished = self._host.look(now) if self._host is not None else None
        if finished is None:
            return None
        self._host = None
        trouble = finished.trouble
        self._about_perf = [] if trouble is None else [about_perf(trouble, self._agent.stacks_perf)]
        self._host_backoff.took(HOST, finished.cost)
        if trouble is not None and trouble.state != "timeout":
            self._perf_rests_until = now + AGAIN_S
        return finished

    def _health(self) -> list[Health]:
        troubles = [(target, trouble) for target, trouble, _ in self._troubles.values()]
        paced = held_back(self._backoff.told(), self._agent.stacks_rate_hz)
        paced += without_c([target for target, _ in self._without_c.values()])
        paced += [Health("perf/rate", "paused", said.partition(" second ")[2]) for _, said in self._host_backoff.told()]
        return [*self._programs.missing, *told(troubles), *paced, *self._about_perf, *self._skipped]

    def _of_process(self, finished: Finished, now: float) -> Iterable[StackSample]:
        profile = pyspy.profile(finished.output, finished.rate)
        if profile is None:
            return []
        target, tids = finished.target, finished.tids

        def here(who: Who) -> Who:
            return replace(who, pid=target.pid, tid=tids.get(who.tid, 0) if tids else who.tid)

        own = replace(profile, parts=tuple(replace(part, who=here(part.who)) for part in profile.parts))
        owner = Whose(target.process, target.job_id, target.rank)
        sampled = self._sampled(finished.begun, pyspy.NAME, self._agent.stacks_sampling_s)
        return self._rows.of(own, sampled, lambda _: owner, now)

    def _of_host(self, raw: StacksRaw, host: HostFinished, now: float) -> Iterable[StackSample]:
        profile = perf.profile(host.output)
        if profile is None:
            return []
        names = {part.who.pid: part.who.thread for part in profile.parts if part.who.tid == part.who.pid}

        def whose(who: Who) -> Whose | None:
            if who.pid == 0 or who.pid in raw.met.unsampled:
                return None
            job_id, rank = raw.met.ranks.get(who.pid, ("", None))
            return Whose(raw.met.names.get(who.pid) or names.get(who.pid) or who.thread, job_id, rank)

        seconds = perf.seen_s(profile, host.rate, self._agent.stacks_sampling_s)
        return self._rows.of(profile, self._sampled(host.begun, perf.NAME, seconds), whose, now)

    def _sampled(self, begun: Begun, source: str, seconds: float) -> Sampled:
        return Sampled(self._agent.host, begun.ts, begun.period_ms, round(seconds * 1000), source)


@dataclass(frozen=True)
class Programs:
    """The samplers that this host has, '' for one that it has not; `missing`: what is to be said of those."""

    pyspy: str
    perf: str
    missing: Sequence[Health]

    @property
    def any(self) -> bool:
        """Whether anything can be sampled; also as long as nobody looked."""
        return bool(self.pyspy or self.perf or not self.missing)


def found(agent: Agent) -> Programs:
    """Look for them."""
    missing: list[Health] = []
    py_spy, wanted = pyspy.find(), agent.stacks_perf != "off"
    if not py_spy:
        missing.append(Health(pyspy.NAME, "unsupported", pyspy.MISSING))
    elif pyspy.pauses(agent) and (why := pyspy.unfit(py_spy)):
        missing.append(Health(pyspy.NAME, "unsupported", why))
        py_spy = ""
    host = perf.find() if wanted else ""
    if wanted and not host:
        missing.append(Health(perf.NAME, "unsupported" if agent.stacks_perf == "auto" else "failed", perf.MISSING))
    return Programs(py_spy, host, missing)


def is_stopped(proc: str, pid: int) -> bool:
    """Whether somebody stopped a process, or traces it: it is left as it is."""
    text = files.optional(f"{proc}/{pid}/stat") or b""
    return text[text.rfind(b")") + 2 :][:1] in (b"T", b"t")

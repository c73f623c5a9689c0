"""What holds of every critical path, and a slow way to find it: rule by rule and event by event, as documented."""

import re
import statistics
from dataclasses import dataclass, field

from warpmeter.analysis.critical import CriticalPath, critical_path
from warpmeter.analysis.links import Links, links
from warpmeter.analysis.trace import Trace
from warpmeter.analysis.windows import Windows, windows


def found(trace: Trace) -> CriticalPath:
    """The critical path of a trace."""
    joined = links(trace)
    return critical_path(trace, joined, windows(trace, joined))


def check(path: CriticalPath) -> None:
    """What holds of every path."""
    for step in path.steps:
        assert sum(step.by_category.values()) == step.length_ns == step.end_ns - step.start_ns
        assert min(step.by_category.values()) >= 0
    for before, after in zip(path.steps, path.steps[1:], strict=False):
        assert before.end_ns <= after.start_ns or not after.length_ns
    lengths = sorted(step.length_ns for step in path.steps)
    if not path.steps:
        return
    median = next(step for step in path.steps if step.name == (path.step or ""))
    assert median.length_ns == lengths[(len(lengths) - 1) // 2]
    at = median.start_ns
    for part in path.parts:
        assert (part.start_ns, part.duration_ns > 0) == (at, True)
        at += part.duration_ns
    assert path.parts_left_out or at == median.end_ns
    assert sum(whole.path_ns for whole in path.categories) == median.length_ns
    assert {whole.category: whole.path_ns for whole in path.categories} == {
        category: ns for category, ns in median.by_category.items() if ns
    }
    for group in (*path.shorten, *path.categories):
        assert 0 <= group.saves_at_most_ns <= group.path_ns


@dataclass
class Event:
    """A GPU event with what the rules ask for."""

    index: int
    start: int
    end: int
    device: int
    stream: int
    kind: int
    name: str
    launch: int | None
    thread: int | None
    before: "Event | None" = None
    by_host: bool = False


@dataclass
class Turn:
    """A moment at which a thread went on: after a wait for an event, or with work of another thread."""

    at: int
    event: Event | None
    thread: int
    came_at: int = 0


@dataclass
class Way:
    """How far back a path is, and what its parts add up to."""

    sums: dict[str, int]
    start: int
    at: int

    def until(self, moment: int, category: str) -> None:
        moment = max(moment, self.start)
        if moment < self.at:
            self.sums[category] = self.sums.get(category, 0) + self.at - moment
            self.at = moment

    def through(self, event: Event) -> None:
        kind = "communication" if re.search("nccl", event.name) else "computation"
        self.until(event.end, "gpu_wait")
        self.until(event.start, "memory" if event.kind else kind)


@dataclass
class Oracle:
    """All rules of one trace."""

    trace: Trace
    joined: Links
    events: list[Event] = field(default_factory=list)
    latency: int = 0
    turns: dict[int, list[Turn]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = [self.event(i) for i in range(len(self.trace.gpu))]
        delays = [
            each.start - each.launch
            for each in self.events
            if each.kind == 0 and each.launch is not None and self.idle(each) and each.start >= each.launch
            if self.is_first_of_its_call(each)
        ]
        self.latency = int(statistics.median(delays)) if delays else 0
        for each in self.events:
            self.decide(each)
        self.find_waits()
        self.find_handovers()

    def event(self, i: int) -> Event:
        gpu, call, operator = self.trace.gpu, int(self.joined.call[i]), int(self.joined.operator[i])
        launch, thread = None, None
        if call >= 0:
            launch, thread = int(self.trace.calls.start[call]), int(self.trace.calls.thread[call])
        elif operator >= 0:
            launch, thread = int(self.trace.operators.start[operator]), int(self.trace.operators.thread[operator])
        place = (int(gpu.device[i]), int(gpu.stream[i]), int(gpu.kind[i]))
        return Event(i, int(gpu.start[i]), int(gpu.end[i]), *place, self.trace.names[int(gpu.name[i])], launch, thread)

    def earlier(self, event: Event) -> Event | None:
        """On the same stream, begun before, ended last."""
        same = (event.device, event.stream)
        rows = [each for each in self.events[: event.index] if (each.device, each.stream) == same]
        return max(rows, key=lambda each: (each.end, each.index), default=None)

    def is_first_of_its_call(self, event: Event) -> bool:
        call = self.joined.call
        return int(call[event.index]) < 0 or call[event.index] not in call[: event.index]

    def idle(self, event: Event) -> bool:
        before = self.earlier(event)
        return before is None or (event.launch is not None and before.end <= event.launch)

    def decide(self, event: Event) -> None:
        """What kept it waiting longest."""
        event.before = self.earlier(event)
        other = self.waited_for(event)
        if other is not None and other.index < event.index and (event.before is None or other.end > event.before.end):
            event.before = other
        late = event.launch is not None and (event.before is None or event.launch + self.latency >= event.before.end)
        event.by_host = late

    def waited_for(self, event: Event) -> Event | None:
        told = self.told()
        return self.guessed(event) if told is None else told.get(event.index)

    def told(self) -> dict[int, Event] | None:
        """What the profiler's sync events say, None where there are none."""
        waits, found = self.trace.waits, dict[int, Event]()
        rows = [i for i, name in enumerate(waits.name.tolist()) if self.trace.names[name] == "Stream Wait Event"]
        if not rows or not len(self.trace.calls):
            return None
        calls = {number: start for number, start in zip(*self.correlations(), strict=True) if number >= 0}
        for i in rows:
            wait, record = int(waits.correlation[i]), int(waits.on_correlation[i])
            if wait not in calls or record not in calls or waits.on_stream[i] < 0:
                continue
            device = int(waits.device[i])
            after = [each for each in self.launched(device, int(waits.stream[i])) if each[0] >= calls[wait]]
            upto = [each for each in self.launched(device, int(waits.on_stream[i])) if each[0] <= calls[record]]
            if after and upto:
                target, source = after[0][1], self.events[upto[-1][1]]
                if target not in found or source.end >= found[target].end:
                    found[target] = source
        return found

    def correlations(self) -> tuple[list[int], list[int]]:
        """Of all calls, and when they began; the last first, so that of equal ones the first counts."""
        calls = self.trace.calls
        return calls.correlation.tolist()[::-1], calls.start.tolist()[::-1]

    def launched(self, device: int, stream: int) -> list[tuple[int, int]]:
        """Launches to a stream in order, with their events' places."""
        rows = [each for each in self.events if (each.device, each.stream) == (device, stream)]
        return sorted((each.launch, each.index) for each in rows if each.launch is not None)

    def guessed(self, event: Event) -> Event | None:
        rows = [each for each in self.events if each.device == event.device and each.end <= event.start]
        other = max(rows, key=lambda each: (each.end, each.index), default=None)
        if other is None or other.stream == event.stream or event.launch is None or other.launch is None:
            return None
        if other.launch > event.launch:
            return None
        ready = max(event.launch + self.latency, event.before.end if event.before is not None else event.launch)
        evident = event.start - other.end <= self.latency and event.start - ready > self.latency
        return other if evident or self.armed(event) else None

    def armed(self, event: Event) -> bool:
        """A stream was made to wait since the last launch to this one."""
        assert event.launch is not None
        same = [
            each
            for each in self.events
            if (each.device, each.stream) == (event.device, event.stream)
            and each.launch is not None
            and (each.launch, each.index) < (event.launch, event.index)
        ]
        last = max((each.launch for each in same if each.launch is not None), default=None)
        waits = [start for name, start, _, _ in self.calls() if "StreamWaitEvent" in name]
        return any(start <= event.launch and (last is None or start > last) for start in waits)

    def calls(self) -> list[tuple[str, int, int, int]]:
        calls = self.trace.calls
        columns = (calls.name.tolist(), calls.start.tolist(), calls.end.tolist(), calls.thread.tolist())
        return [(self.trace.names[name], start, end, thread) for name, start, end, thread in zip(*columns, strict=True)]

    def find_waits(self) -> None:
        for index, (name, start, end, thread) in enumerate(self.calls()):
            during = [each for each in self.events if start < each.end <= end]
            if re.search("Synchronize", name):
                rows = [each for each in during if each.launch is None or each.launch < start]
            elif "Memcpy" in name:
                rows = [each for each in during if self.joined.call[each.index] == index]
            else:
                continue
            target = max(rows, key=lambda each: (each.end, each.index), default=None)
            if target is not None:
                self.turns.setdefault(thread, []).append(Turn(end, target, thread))

    def find_handovers(self) -> None:
        """Threads of the backward pass and the others take over from each other after a pause."""
        tables = (self.trace.operators, self.trace.calls)
        spans = [
            (int(start), int(end), int(thread))
            for table in tables
            for start, end, thread in zip(table.start, table.end, table.thread, strict=True)
        ]
        named = zip(self.trace.operators.name.tolist(), self.trace.operators.thread.tolist(), strict=True)
        working = {thread for _, thread in named}
        named = zip(self.trace.operators.name.tolist(), self.trace.operators.thread.tolist(), strict=True)
        backward = {thread for name, thread in named if "autograd::engine::evaluate_function" in self.trace.names[name]}
        for thread in working:
            others = working - backward if thread in backward else backward
            moments = sorted((at, each[2]) for each in spans if each[2] in others for at in each[:2])
            paused: int | None = None
            for start, end, _ in sorted(each for each in spans if each[2] == thread and each[1] > each[0]):
                if paused is None or start > paused:
                    last = [moment for moment in moments if moment[0] < start]
                    if last and (paused is None or last[-1][0] > paused):
                        came_at, other = last[-1]
                        self.turns.setdefault(thread, []).append(Turn(start, None, other, came_at))
                paused = end if paused is None else max(paused, end)

    def walk(self, steps: Windows, step: int, done: int | None) -> tuple[int, int, dict[str, int]]:
        """The window and what lies in it."""
        mine = [each for each in self.events if steps.of_gpu[each.index] == step]
        last = max(mine, key=lambda each: (each.end, each.index), default=None)
        end = int(steps.end[step])
        if last is not None and last.end >= end:
            end = last.end
        else:
            last = None
        start = int(steps.start[step])
        if done is not None:
            start, end = max(start, done), max(end, done)
        sums: dict[str, int] = {}
        self.go(Way(sums, start, end), last, int(steps.start[step]))
        return start, end, sums

    def go(self, way: "Way", event: Event | None, step: int) -> None:
        """Back to the start, from an event or, without one, from the host; the step's own range began at `step`."""
        thread, moment = (self.host_thread(way.at, step) if event is None else None), way.at
        for _ in range(10_000):
            if event is not None:
                if not event.by_host:
                    event = self.through(way, event)
                    if event is None:
                        return
                    continue
                way.through(event)
                assert event.launch is not None
                thread, moment = event.thread, min(event.launch, event.start)
                way.until(moment, "launch")
            turn = self.turn(thread, moment)
            if turn is None:
                way.until(way.start, "host" if thread is not None else "unknown")
                return
            way.until(turn.at, "host")
            event = turn.event
            if event is not None:
                way.until(event.end, "sync")
            else:
                way.until(turn.came_at, "handover")
                thread, moment = turn.thread, turn.came_at
            if way.at <= way.start:
                return

    def through(self, way: "Way", event: Event) -> Event | None:
        """Through an event to the one that it waited for."""
        way.through(event)
        before = event.before
        if before is None:
            way.until(way.start, "unknown")
        elif event.launch is None and event.start - before.end > self.latency:
            way.until(before.end, "unknown")
        return before if way.at > way.start else None

    def turn(self, thread: int | None, moment: int) -> Turn | None:
        rows = [each for each in self.turns.get(-1 if thread is None else thread, []) if each.at <= moment]
        # Of two at one moment work that came over was found later.
        return max(rows, key=lambda each: (each.at, each.event is None), default=None)

    def host_thread(self, at: int, step: int) -> int | None:
        """The step's own annotation, else the last launch, operator, call or annotation before its end."""
        spans = self.trace.annotations
        own = [i for i, start in enumerate(spans.start.tolist()) if start == step]
        at_work = {each.thread for each in self.events} | set(self.trace.operators.thread.tolist())
        if own and int(spans.thread[own[0]]) in at_work:
            return int(spans.thread[own[0]])
        launches = [
            (min(each.launch, each.start), each.index, each.thread)
            for each in self.events
            if each.launch is not None and min(each.launch, each.start) <= at
        ]
        if launches:
            return max(launches)[2]
        for table in (self.trace.operators, self.trace.calls, self.trace.annotations):
            rows = [i for i, start in enumerate(table.start.tolist()) if start <= at]
            if rows:
                return int(table.thread[rows[-1]])
        return None

"""Captures without a bus: the scheduler's state machine, agents that behave as told, and a clock by hand.

The topics are lists; whoever takes over reads them from the start, as the scheduler does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from warpmeter.captures import FINAL
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Command, Request
from warpmeter.scheduler.capture import Analyse, Resolved
from warpmeter.scheduler.captures import Captures
from warpmeter.scheduler.round import Target
from warpmeter.settings import Scheduler

T0: Final = 1_800_000_000.0
STEP_S: Final = 0.5
LIMITS: Final = Scheduler(analyse=False)


@dataclass
class Process:
    """One process. `words`: what is said of it once it was told to start (s after the start, state, reason)."""

    pid: int
    rank: int | None = None
    reason: str = ""
    words: Sequence[tuple[float, str, str]] = ((-8.0, "accepted", ""), (0.0, "started", ""), (2.0, "captured", ""))
    bytes: int = 1000
    slowdown: int | None = None
    steps: tuple[int, int] | None = None


@dataclass
class Agent:
    """One host. `away`: it neither hears nor speaks; `skew_s`: its clock is ahead by so much."""

    host: str
    processes: Sequence[Process] = ()
    away: bool = False
    delay_s: float = 0.5
    skew_s: float = 0.0
    heeds_cancel: bool = True


@dataclass
class World:
    """Everything. `resolve` answers which hosts a job is on."""

    agents: Sequence[Agent]
    limits: Scheduler = LIMITS
    resolve: Callable[[Request], Resolved | None] = lambda _: None
    now: float = T0
    requests: list[Request] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    analyses: list[Analyse] = field(default_factory=list)
    later: list[tuple[float, Event]] = field(default_factory=list)
    scheduler: Captures = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = Captures(self.limits)

    def ask(self, **request: Any) -> Request:
        """A request, onto the topic."""
        made = Request(**{"capture_id": "c", "ts": self.now, "action": "start", "duration_ms": 500, **request})
        self.requests.append(made)
        self.scheduler.request(made, self.now)
        return made

    def take_over(self) -> None:
        """Another scheduler becomes the active one: it knows what the topics hold."""
        self.scheduler = Captures(self.limits)
        for request in self.requests:
            self.scheduler.request(request, self.now)
        for event in self.events:
            self.scheduler.hear(event)

    def say(self, event: Event, in_s: float = 0.0) -> None:
        """An event is on the topic in so many seconds."""
        self.later.append((self.now + in_s, event))

    def step(self) -> None:
        """Half a second passes."""
        self.now += STEP_S
        due = [event for at, event in self.later if at <= self.now]
        self.later = [(at, event) for at, event in self.later if at > self.now]
        for event in due:
            self.events.append(event)
            self.scheduler.hear(event, self.now)
        self.turn()

    def turn(self) -> None:
        """What the scheduler has to say, and what agents make of it."""
        turn = self.scheduler.turn(self.now)
        for command in turn.commands:
            self.commands.append(command)
            self._obey(command)
        for event in turn.events:
            self.events.append(event)
            self.scheduler.hear(event, self.now)  # it comes back
        for wanted in turn.resolve:
            if (answer := self.resolve(wanted.request)) is not None:
                self.scheduler.resolved(answer)
        self.analyses += turn.analyse

    def until_ended(self, within_s: float = 1000.0, capture_id: str = "c") -> "World":
        """Let time pass until the capture has ended."""
        end = self.now + within_s
        while not self.ended(capture_id):
            assert self.now < end, f"{capture_id} goes on after {within_s:g} s: {self.events[-3:]}"
            self.step()
        return self

    # --- agents ----------------------------------------------------------------------------------------------

    def _obey(self, command: Command) -> None:
        for agent in self.agents:
            if agent.host == command.host and not agent.away and self.now + agent.delay_s < command.expires_at:
                for in_s, event in self._answers(agent, command):
                    self.say(event, in_s)

    def _answers(self, agent: Agent, command: Command) -> Iterator[tuple[float, Event]]:
        meant = [each for each in agent.processes if not command.pids or each.pid in command.pids]
        said_at = self.now + agent.delay_s
        if command.action == "look":
            for each in meant:
                yield agent.delay_s, self._event(agent, command, said_at, each, "seen", each.reason)
            if not meant:
                yield agent.delay_s, self._event(agent, command, said_at, None, "seen", "no_process")
        elif command.action == "start":
            start = command.start_at or self.now + 8
            for each in meant:
                for after_s, state, reason in each.words:
                    at = max(start + after_s, said_at)
                    yield at - self.now, self._event(agent, command, at, each, state, reason)
        elif agent.heeds_cancel:
            for each in agent.processes:
                event = self._event(agent, command, said_at, each, "cancelled", "cancelled_by_request")
                yield agent.delay_s, event

    def _event(
        self, agent: Agent, command: Command, at: float, process: Process | None, state: str, reason: str = ""
    ) -> Event:
        event = Event(
            capture_id=command.capture_id, ts=at + agent.skew_s, sequence=command.sequence, state=state, by="agent",
            host=agent.host, reason=reason, job_id=command.job_id,
        )  # fmt: skip
        if process is not None:
            event.pid = process.pid
            if state == "seen" and process.steps is not None:
                event.step_count, event.step_us = process.steps
            if process.rank is not None:
                event.rank = process.rank
            if state == "captured":
                event.bytes, event.url = process.bytes, f"file:///traces/{agent.host}-{process.pid}.json.gz"
                if process.slowdown is not None:
                    event.slowdown_permille = process.slowdown
        return event

    # --- what can be asked of it --------------------------------------------------------------------------------

    def ended(self, capture_id: str = "c") -> list[Event]:
        """The words that it ended."""
        return [event for event in self.events if event.capture_id == capture_id and event.state == "ended"]

    def finals(self, sequence: int = 1) -> dict[tuple[str, int], tuple[str, str]]:
        """Of each process the final state and its reason; a trace counts more than whatever was said before."""
        found: dict[tuple[str, int], tuple[str, str]] = {}
        for event in self.events:
            if event.sequence == sequence and event.HasField("pid") and event.state in FINAL:
                key = event.host, event.pid
                if key not in found or event.state == "captured":
                    found[key] = event.state, event.reason
        return found

    def of_hosts(self, state: str = "failed") -> dict[str, str]:
        """Reasons of whole hosts."""
        return {e.host: e.reason for e in self.events if e.state == state and e.host and not e.HasField("pid")}

    def told(self, action: str) -> list[Command]:
        """Commands."""
        return [command for command in self.commands if command.action == action]


def on(*hosts: str, job_id: str = "") -> Callable[[Request], Resolved]:
    """A store that knows these hosts."""
    return lambda request: Resolved(request.capture_id, tuple(Target(host, job_id) for host in hosts))

"""Reports by themselves, on twins of bus and targets and with a clock of the test's: what is made and sent when."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.wait import until
from warpmeter.reports.said import ReportEvent
from warpmeter.scheduler.publishing.due import Ended, Wanted
from warpmeter.scheduler.publishing.making import CannotError, LaterError
from warpmeter.scheduler.publishing.service import Ports, Publisher
from warpmeter.scheduler.service import ScheduleError
from warpmeter.sending import Message, Outcome, Refused, Sent, TryAgain
from warpmeter.settings import Reports, ReportSchedule, Target

TEAM, CHAT = Target("team", "mail"), Target("chat", "slack")
WEEKLY = ReportSchedule("monday", "fleet-weekly", cron="0 7 * * mon", targets=("team", "chat"))
JOBS = ReportSchedule("jobs", "job", targets=("team",), min_gpu_hours=1)
REPORTS = Reports(url="/nowhere", schedules=(WEEKLY,), targets=(TEAM, CHAT), settle_s=60.0)
SUNDAY, MONDAY = (datetime(2026, 11, day, 7, tzinfo=UTC) for day in (29, 30))


@dataclass
class Bus:
    """The topic: what was said outlives who said it."""

    said: list[ReportEvent] = field(default_factory=list)
    turns: int = 0

    def recall(self, still: Callable[[], bool]) -> Sequence[ReportEvent]:
        assert still()
        return list(self.said)

    def heard(self) -> Sequence[ReportEvent]:
        self.turns += 1
        return []

    def tell(self, events: Sequence[ReportEvent]) -> None:
        self.said += events

    def stop(self) -> None:
        """Nothing to let go of."""

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class World:
    """A clock, a bus, an archive and targets that outlive a publisher. `outcomes`: given in turn by each target."""

    at: datetime = SUNDAY
    bus: Bus = field(default_factory=Bus)
    kept: dict[str, Message] = field(default_factory=dict)
    made: list[Wanted] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)
    outcomes: dict[str, list[Outcome | threading.Event]] = field(default_factory=dict)
    problems: list[Exception] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    landed: datetime | None = None

    def make(self, wanted: Wanted, _over: Callable[[], bool]) -> None:
        if self.problems:
            raise self.problems.pop(0)
        if wanted.report_id not in self.kept:
            self.made.append(wanted)
            self.kept[wanted.report_id] = Message(wanted.report_id, "title", "text")

    def send(self, target: Target, message: Message) -> Outcome:
        self.sent.append((target.name, message.id))
        given = self.outcomes.get(target.name)
        said = given.pop(0) if given else Sent()
        if isinstance(said, threading.Event):
            said.wait(60)
            return Sent()
        return said

    def jobs(self, _schedule: ReportSchedule, since: datetime, till: datetime) -> Sequence[Ended]:
        return [job for job in self.ended if since < job.ended_at <= till]

    def later(self, **by: float) -> None:
        """Let time go by, and what is due then be done."""
        self.at += timedelta(**by)
        self.settle()

    def settle(self) -> None:
        """Wait until a few turns have found nothing more to do."""
        before, turns = -1, self.bus.turns
        while before != len(self.bus.said):
            before, turns = len(self.bus.said), self.bus.turns
            until(lambda turns=turns: self.bus.turns >= turns + 3, "turns to be taken", every_s=0.01)  # type: ignore[misc]

    @contextmanager
    def publisher(self, reports: Reports = REPORTS) -> Iterator[Publisher]:
        """One that is elected."""
        ports = Ports(
            self.bus, self.make, self.kept.get, self.send, self.jobs, lambda: (self.landed or self.at).timestamp(),
            now=lambda: self.at.timestamp(), monotonic=lambda: self.at.timestamp(),
        )  # fmt: skip
        made = Publisher(reports, ports)
        made.elected(True)
        try:
            self.settle()
            yield made
        finally:
            made.close()

    def states(self, target: str = "") -> list[str]:
        """What was said of a target, or of reports as a whole."""
        return [event.state for event in self.bus.said if event.target == target]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpmeter.scheduler.publishing.service.TURN_EVERY_S", 0.005)


def test_a_report_is_made_once_and_sent_once_to_each() -> None:
    world = World()
    with world.publisher():
        assert world.states() == ["skipped"], "what was before a schedule is not made up for"
        world.later(days=1)
        world.later(hours=5)
    assert [wanted.report_id for wanted in world.made] == ["monday/2026-W48"]
    assert sorted(world.sent) == [("chat", "monday/2026-W48"), ("team", "monday/2026-W48")]
    assert world.states("team") == ["queued", "delivered"]
    with world.publisher():
        world.later(days=1)
    assert len(world.sent) == 2, "who is elected next knows"


def test_what_was_missed_is_made_up_for_once() -> None:
    world = World()
    with world.publisher():
        pass
    world.at += timedelta(weeks=5)
    with world.publisher():
        world.later(hours=1)
    assert [wanted.report_id for wanted in world.made] == ["monday/2026-W52"]


def test_a_target_that_fails_is_tried_again_with_longer_waits_and_holds_no_other() -> None:
    world = World(outcomes={"team": [TryAgain("busy"), TryAgain("busy", 300.0), TryAgain("busy")]})
    with world.publisher():
        world.later(days=1)
        assert world.states("chat") == ["queued", "delivered"]
        assert world.states("team") == ["queued", "failed"]
        world.later(seconds=29)
        assert len(world.states("team")) == 2, "not before 30 s"
        world.later(seconds=2)
        assert world.states("team")[2:] == ["failed"]
        world.later(seconds=100)
        assert len(world.states("team")) == 3, "it asked for a pause of 300 s"
        world.later(seconds=210)
        assert world.states("team")[3:] == ["failed"]
        world.later(hours=1)
    assert world.states("team")[4:] == ["delivered"]
    assert [event.attempt for event in world.bus.said if event.target == "team"] == [0, 1, 2, 3, 4]


def test_one_that_is_refused_or_fails_for_too_long_is_given_up_and_said() -> None:
    world = World(outcomes={"team": [Refused("no such mailbox: look at `to`")], "chat": [TryAgain("away")] * 100})
    with world.publisher():
        world.later(days=1)
        for _ in range(9):
            world.later(hours=3)
    assert world.states("team") == ["queued", "gave_up"]
    assert world.states("chat")[-1] == "gave_up"
    assert world.states("chat").count("gave_up") == 1
    (last,) = [event.why for event in world.bus.said if event.target == "chat" and event.state == "gave_up"]
    assert last == "tried for long enough; the last: away"


def test_one_that_hangs_holds_no_other() -> None:
    world, over = World(), threading.Event()
    world.outcomes["team"] = [over]
    with world.publisher():
        world.at += timedelta(days=1)
        until(lambda: "delivered" in world.states("chat"), "the other to get it")
        assert world.states("team") == ["queued"]
        over.set()
        until(lambda: "delivered" in world.states("team"), "it to get it, too")


def test_rows_that_are_on_their_way_are_waited_for_but_not_for_ever() -> None:
    world = World(landed=SUNDAY)
    with world.publisher():
        world.later(days=1)
        world.later(hours=1)
        assert world.states()[1:] == ["late"]
        world.landed = MONDAY
        world.later(minutes=1)
        assert world.states()[2:] == ["rendered"]
        world.landed = MONDAY
        world.later(days=7)
        assert world.states()[3:] == ["late"]
        world.later(hours=6)
        assert world.states()[4:] == ["rendered"], "of what is there"


def test_a_report_that_cannot_be_made_now_is_made_later_and_one_that_never_can_is_given_up() -> None:
    world = World(problems=[LaterError("the store is away"), LaterError("the store is away")])
    with world.publisher():
        world.later(days=1)
        world.later(minutes=1)
        world.later(minutes=2)
        assert world.states()[1:] == ["failed", "failed", "rendered"]
        world.problems = [CannotError("there is no such report")]
        world.later(days=7)
        world.later(days=1)
    assert world.states()[4:] == ["gave_up"]
    assert [event.why for event in world.bus.said][-1] == "there is no such report"


def test_each_job_that_ended_is_reported_once() -> None:
    world, reports = World(), replace(REPORTS, schedules=(JOBS,))
    before, after = (Ended(name, SUNDAY - timedelta(hours=9), SUNDAY + d) for name, d in (
        ("before", timedelta(hours=-1)), ("4711", timedelta(minutes=5))))  # fmt: skip
    with world.publisher(reports):
        world.ended = [before, after]
        world.later(minutes=5.5)
        assert world.made == [], "its last rows have not landed yet"
        world.later(minutes=1)
    with world.publisher(reports):
        world.later(minutes=30)
    assert [(wanted.report_id, wanted.subject) for wanted in world.made] == [("jobs/4711", "4711")]
    assert world.sent == [("team", "jobs/4711")]


def test_killed_between_rendering_and_saying_so_it_is_not_rendered_again() -> None:
    world = World()
    with world.publisher():
        pass
    world.at = MONDAY
    world.kept["monday/2026-W48"] = Message("monday/2026-W48", "title", "text")
    with world.publisher():
        pass
    assert world.made == []
    assert sorted(world.sent) == [("chat", "monday/2026-W48"), ("team", "monday/2026-W48")]


def test_one_that_stands_by_does_nothing() -> None:
    world = World()
    with world.publisher() as publisher:
        publisher.elected(False)
        world.at = MONDAY
        turns = world.bus.turns
        publisher.elected(True)
        until(lambda: world.states("team") == ["queued", "delivered"], "it to go on when it is elected again")
        assert world.bus.turns > turns


def test_a_schedule_that_cannot_be_meant_is_no_start() -> None:
    with (
        pytest.raises(ScheduleError, match="monday"),
        World().publisher(replace(REPORTS, schedules=(replace(WEEKLY, timezone="Mars"),))),
    ):
        pass

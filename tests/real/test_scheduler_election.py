"""Schedulers on a real broker: one is active, and when it goes another carries on with what was under way."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from tests.brokers import Broker
from tests.scheduler_process import Agents, Heard, SchedulerProcess, ended, request
from tests.signals import SLACK_S
from tests.wait import until
from warpmeter import topics
from warpmeter.captures import FINAL
from warpmeter.settings import Kafka, Log, Metrics, Schedule, Scheduler, Settings, Store

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
SESSION_S = 3.0
HAND_OVER_S = {"killed": 10.0, "paused": 10.0, "stopped": 8.0}
"""A broker misses a killed member for a session; the embedded one takes half of another to form a group."""


@dataclass
class World:
    """A broker with topics of this test's own, two hosts whose agents hold their traces back, and what is said."""

    settings: Settings
    folder: Path
    stack: ExitStack
    agents: Agents
    events: Heard

    @property
    def kafka(self) -> Kafka:
        """The bus."""
        return self.settings.kafka

    def scheduler(self, name: str) -> SchedulerProcess:
        """One more."""
        return self.stack.enter_context(closing(SchedulerProcess(self.settings, self.folder / f"{name}.log")))


@pytest.fixture
def world(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    """On both brokers: for what their groups and their memory of offsets decide."""
    with made(broker, topic_prefix, tmp_path) as found:
        yield found


@pytest.fixture
def on_tansu(tansu: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    """For what a lone scheduler does, which is the same on any broker."""
    with made(tansu, topic_prefix, tmp_path) as found:
        yield found


@contextmanager
def made(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    """A world on a broker."""
    kafka = Kafka(bootstrap_servers=broker.bootstrap_servers, topic_prefix=topic_prefix, partitions=3)
    settings = Settings(
        kafka=kafka, store=Store(dsn="http://127.0.0.1:1"), log=Log(format="json"), metrics=Metrics(scheduler_port=0),
        scheduler=Scheduler(topic_prefix, SESSION_S, analyse=False, data=tmp_path / "scheduler"),
    )  # fmt: skip
    topics.ensure(kafka)
    until(lambda: not topics.check(kafka), "every node to know the topics")
    with ExitStack() as stack:
        agents = stack.enter_context(closing(Agents(kafka, ["h0", "h1"], [1, 2], captures=False)))
        events = stack.enter_context(closing(Heard(kafka, "capture-events")))
        yield World(settings, tmp_path, stack, agents, events)


def started(world: World, capture_id: str) -> int:
    """Processes that have taken their command."""
    return sum(e.state == "accepted" and e.capture_id == capture_id for e in list(world.events.rows))


def settled(schedulers: Sequence[SchedulerProcess]) -> None:
    """Wait until the group has been one for a session: a broker may elect anew when one more joins."""
    since = time.monotonic()
    while time.monotonic() - since < SESSION_S:
        if sum(each.active for each in schedulers) != 1:
            since = time.monotonic()
        time.sleep(0.1)


@pytest.mark.parametrize("how", ["killed", "stopped", "paused"])
def test_another_carries_on_when_the_active_one_goes(world: World, how: str) -> None:
    both = [world.scheduler("first").until_active(), world.scheduler("second")]
    until(lambda: "scheduling" in both[1].log.read_text(), "the second to be there")
    request(world.kafka, "under-way", hosts=["h0", "h1"])
    until(lambda: started(world, "under-way") == 4, "all to start")
    settled(both)
    active, other = sorted(both, key=lambda each: not each.active)
    gone_at = time.monotonic()
    if how == "killed":
        active.kill()
    elif how == "paused":
        active.process.send_signal(signal.SIGSTOP)
    else:
        assert active.stop() == 0
    other.until_active()
    assert time.monotonic() - gone_at < HAND_OVER_S[how] + SLACK_S
    world.agents.finish()
    until(lambda: ended(world.events, "under-way"), "the capture to end")
    if how == "paused":
        active.process.send_signal(signal.SIGCONT)
        until(lambda: "standing by" in active.log.read_text(), "it to notice")
        request(world.kafka, "refused")
        until(lambda: ended(world.events, "refused"), "what is asked next to be answered", 60)
        assert len(ended(world.events, "refused")) == 1
    (end,) = ended(world.events, "under-way")
    assert (end.reason, end.why) == ("", "4 of 4 processes captured")
    starts = [row for row in world.agents.rows if row.action == "start"]
    assert sorted(row.host for row in starts) == ["h0", "h1"], "none was told twice"
    assert len({row.start_at for row in starts}) == 1


def test_one_that_stood_still_and_was_not_replaced_goes_on(world: World) -> None:
    alone = world.scheduler("first").until_active()
    request(world.kafka, "under-way", hosts=["h0", "h1"])
    until(lambda: started(world, "under-way") == 4, "all to start")
    alone.process.send_signal(signal.SIGSTOP)
    time.sleep(SESSION_S * 0.8)
    alone.process.send_signal(signal.SIGCONT)
    until(lambda: not alone.active, "it to notice")
    alone.until_active()
    world.agents.finish()
    until(lambda: ended(world.events, "under-way"), "the capture to end")
    assert [end.why for end in ended(world.events, "under-way")] == ["4 of 4 processes captured"]


def test_what_was_asked_while_no_scheduler_was_there_is_carried_out_and_what_has_ended_is_not_begun_again(
    world: World,
) -> None:
    request(world.kafka, "waiting", hosts=["h0"])
    request(world.kafka, "senseless")
    first = world.scheduler("first").until_active()
    until(lambda: started(world, "waiting") == 2, "it to start")
    world.agents.finish()
    until(lambda: ended(world.events, "waiting"), "it to end")
    until(lambda: ended(world.events, "senseless"), "the other to be refused", 60)
    assert ended(world.events, "senseless")[0].reason == "bad_request"
    assert first.stop() == 0
    world.scheduler("second").until_active()
    request(world.kafka, "cancelled", hosts=["h0"])
    request(world.kafka, "cancelled", action="cancel")
    until(lambda: ended(world.events, "cancelled"), "it to be cancelled", 60)
    for capture_id in ("waiting", "senseless", "cancelled"):
        assert len(ended(world.events, capture_id)) == 1


def test_a_schedule_captures_by_itself_and_not_while_its_last_capture_goes_on(on_tansu: World) -> None:
    world = on_tansu
    every = Schedule("often", every_s=1.0, hosts=("h0",), duration_ms=500)
    world.settings = replace(world.settings, scheduler=replace(world.settings.scheduler, schedules=(every,)))
    scheduler = world.scheduler("first").until_active()
    until(lambda: [e for e in list(world.events.rows) if e.state == "accepted"], "a run to start", 60)
    until(lambda: "skipped" in scheduler.log.read_text(), "the next run to be skipped", 60)
    begun = {e.capture_id for e in list(world.events.rows)}
    assert len(begun) == 1
    (first,) = begun
    assert first.startswith("often-")
    world.agents.finish()
    until(lambda: ended(world.events, first), "it to end")
    until(lambda: len({e.capture_id for e in list(world.events.rows)}) > 1, "the next one", 60)


def test_a_schedule_that_cannot_be_meant_stops_the_scheduler_with_the_reason(on_tansu: World) -> None:
    world = on_tansu
    senseless = Schedule("senseless", cron="every day", hosts=("h0",), duration_ms=500)
    world.settings = replace(world.settings, scheduler=replace(world.settings.scheduler, schedules=(senseless,)))
    scheduler = world.scheduler("first")
    assert scheduler.process.wait(120) == 78
    assert "senseless" in str(scheduler)


def test_two_hundred_processes_on_fifty_hosts_end_right_and_cost_little(on_tansu: World) -> None:
    world = on_tansu
    hosts, pids = [f"n{n}" for n in range(50)], [1, 2, 3, 4]
    silent = hosts[-1]
    world.stack.enter_context(closing(Agents(world.kafka, hosts[:-1], pids)))
    scheduler = world.scheduler("first").until_active()
    process = psutil.Process(scheduler.process.pid)
    before = process.cpu_times().user + process.cpu_times().system
    request(world.kafka, "large", hosts=hosts)
    until(lambda: ended(world.events, "large"), "it to end")
    used_s = process.cpu_times().user + process.cpu_times().system - before
    said = [e for e in list(world.events.rows) if e.state in FINAL]
    assert {(e.host, e.pid): e.state for e in said if e.HasField("pid")} == {
        (host, pid): "captured" for host in hosts[:-1] for pid in pids
    }
    assert [(e.host, e.reason) for e in said if not e.HasField("pid")] == [(silent, "agent_away")]
    assert ended(world.events, "large")[0].why == "196 of 196 processes captured: 1 host agent_away"
    assert used_s < 3, "seconds of CPU over the ten that it takes"
    assert process.memory_info().rss < 150 << 20


def test_a_topic_that_is_not_there_is_named_with_what_to_do(on_tansu: World) -> None:
    world = on_tansu
    world.settings = replace(world.settings, kafka=replace(world.kafka, topic_prefix=f"{world.kafka.topic_prefix}none"))
    scheduler = world.scheduler("first")
    assert scheduler.process.wait(120) == 1
    assert "topics --create" in str(scheduler)

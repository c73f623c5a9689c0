"""The shipper with the real librdkafka: against a broker that is away, and against librdkafka's own mock broker."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clock import FakeClock
from tests.wait import until
from warpmeter import selfmetrics
from warpmeter.producers import outbox
from warpmeter.producers.segment import Position
from warpmeter.producers.shipper import LARGEST, Shipper, open_spool
from warpmeter.producers.spool import Spool, SpoolTakenError
from warpmeter.schemas.generated.metric_samples_pb2 import Envelope as MetricEnvelope
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent, Kafka, Settings
from warpmeter.wire import Envelope, unpack

MetricSample = MetricEnvelope.MetricSample
AWAY = Kafka(bootstrap_servers="127.0.0.1:1")
MOCK = Kafka(bootstrap_servers="mock", options={"test.mock.num.brokers": "1"})


@pytest.fixture
def clock() -> FakeClock:
    """A clock of the test's own."""
    return FakeClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Nobody at the broker's address."""
    return Settings(kafka=AWAY, agent=Agent(host="gpu01", spool_dir=tmp_path / "spool"))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking back needs the real clock to move; here it does not, so the bound must not be reached."""
    monkeypatch.setattr(outbox, "TAKE_BACK_S", 10.0)


def send(shipper: Shipper, *numbers: int) -> None:
    """A message for each number."""
    for number in numbers:
        shipper.publish("metric-samples", [MetricSample(host="gpu01", ts=1.0, name="n", value=number)])


def numbers(envelope: Envelope) -> list[int]:
    """The numbers in a message."""
    return [int(row.value) for row in unpack(TOPICS[envelope.topic], envelope.value)]  # type: ignore[attr-defined]


def watched(shipper: Shipper) -> list[Envelope]:
    """Messages as they are handed to the producer from now on."""
    sent: list[Envelope] = []
    send_on = shipper._outbox.send

    def send(envelope: Envelope, position: Position | None = None) -> outbox.Outcome:
        sent.append(envelope)
        return send_on(envelope, position)

    shipper._outbox.send = send  # type: ignore[method-assign]
    return sent


def spooled(settings: Settings, clock: FakeClock) -> list[int]:
    """The numbers in the spool, oldest first; nothing is changed."""
    spool = open_spool(settings.agent, clock)
    assert spool is not None
    taken = []
    while (found := spool.take()) is not None:
        taken += numbers(found[0])
    spool.close()
    return taken


def made(settings: Settings, clock: FakeClock) -> Shipper:
    """A shipper with its spool."""
    return Shipper(settings, open_spool(settings.agent, clock), clock)


def losses(shipper: Shipper) -> dict[str, int | None]:
    """What the shipper says it lost."""
    return {health.subject: health.count for health in shipper.health()[1]}


def test_a_broker_that_is_away_at_the_start_is_no_error_and_nothing_is_lost(
    settings: Settings, clock: FakeClock
) -> None:
    shipper = made(settings, clock)
    send(shipper, 1, 2, 3)
    assert shipper.health()[0].state == "ok"
    clock.sleep(outbox.STALL_S + 1)
    assert shipper.health()[0].state == "failed"
    send(shipper, 4, 5)
    shipper.close(5.0)
    assert spooled(settings, clock) == [1, 2, 3, 4, 5]


def test_a_stop_while_the_broker_is_away_keeps_the_order_over_several_lives(
    settings: Settings, clock: FakeClock
) -> None:
    for life in range(3):
        shipper = made(settings, clock)
        send(shipper, 10 * life)
        shipper.pump()
        clock.sleep(outbox.STALL_S + 1)
        send(shipper, 10 * life + 1)
        shipper.close(5.0)
    assert spooled(settings, clock) == [0, 1, 10, 11, 20, 21]


def test_when_the_producers_queue_is_full_messages_wait_on_disk(settings: Settings, clock: FakeClock) -> None:
    small = replace(settings, agent=replace(settings.agent, queue_max_bytes=1024))
    shipper = made(small, clock)
    send(shipper, *range(100))
    assert shipper._outbox.unacked < 100
    clock.sleep(outbox.STALL_S + 1)
    shipper.close(5.0)
    assert spooled(settings, clock) == list(range(100))


def test_what_waits_is_sent_in_order_before_what_is_new(settings: Settings, clock: FakeClock) -> None:
    first = made(settings, clock)
    send(first, 1, 2, 3)
    clock.sleep(outbox.STALL_S + 1)
    first.close(0.0)
    second = made(replace(settings, kafka=MOCK), clock)
    sent = watched(second)
    send(second, 4)
    until(lambda: not second.pump() and second._outbox.unacked == 0, "everything to be acknowledged")
    send(second, 5)
    assert [number for envelope in sent for number in numbers(envelope)] == [1, 2, 3, 4, 5]
    second.close(5.0)
    assert spooled(settings, clock) == []


def test_messages_taken_from_the_spool_stay_there_until_they_are_acknowledged(
    settings: Settings, clock: FakeClock
) -> None:
    first = made(settings, clock)
    send(first, 1, 2, 3)
    clock.sleep(outbox.STALL_S + 1)
    first.close(0.0)
    second = made(settings, clock)
    second.pump()
    assert second._outbox.from_spool == 3
    clock.sleep(outbox.STALL_S + 1)
    send(second, 4)
    second.close(5.0)
    assert spooled(settings, clock) == [1, 2, 3, 4]


def test_without_a_spool_the_agent_runs_and_counts_what_it_loses(
    settings: Settings, clock: FakeClock, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    blocked = replace(settings, agent=replace(settings.agent, spool_dir=tmp_path / "file/spool"))
    shipper = made(blocked, clock)
    assert [(health.subject, health.state) for health in shipper.health()[1]] == [("spool", "failed")]
    send(shipper, 1)
    clock.sleep(outbox.STALL_S + 1)
    send(shipper, 2, 3)
    assert shipper._losses() == {"unspooled": 2}
    shipper.close(0.0)
    assert shipper._losses() == {"unspooled": 3}


def test_a_message_that_the_broker_never_takes_is_counted_and_stops_nothing(
    settings: Settings, clock: FakeClock
) -> None:
    kafka = replace(MOCK, options={**MOCK.options, "message.max.bytes": "2000"})
    shipper = made(replace(settings, kafka=kafka), clock)
    shipper.publish("metric-samples", [MetricSample(host="gpu01", ts=1.0, name="n" * 5000, value=1)])
    send(shipper, 2)
    until(lambda: not shipper.pump() and shipper._outbox.unacked == 0, "the other message's acknowledgement")
    assert losses(shipper) == {"lost/refused": 1}
    shipper.close(5.0)
    assert spooled(settings, clock) == []


def test_a_large_tick_is_split_by_rows(settings: Settings, clock: FakeClock) -> None:
    shipper = made(settings, clock)
    sent = watched(shipper)
    rows = [MetricSample(host="gpu01", ts=1.0, name="n" * 1000, value=number) for number in range(3000)]
    shipper.publish("metric-samples", rows)
    assert sum(envelope.rows for envelope in sent) == 3000
    assert all(len(envelope.value) <= LARGEST for envelope in sent)
    clock.sleep(outbox.STALL_S + 1)
    shipper.close(0.0)
    assert spooled(settings, clock) == list(range(3000))


def test_a_producer_in_a_fatal_state_is_replaced_and_nothing_is_lost(settings: Settings, clock: FakeClock) -> None:
    shipper = made(settings, clock)
    send(shipper, 1, 2)
    shipper._outbox.fatal = True
    send(shipper, 3)
    shipper.pump()
    assert not shipper._outbox.fatal
    clock.sleep(outbox.STALL_S + 1)
    shipper.close(0.0)
    assert spooled(settings, clock) == [1, 2, 3]


def test_a_full_spool_is_a_health_row_with_its_count(settings: Settings, clock: FakeClock) -> None:
    tiny = replace(settings, agent=replace(settings.agent, spool_max_bytes=10_000))
    shipper = made(tiny, clock)
    send(shipper, 0)
    clock.sleep(outbox.STALL_S + 1)
    send(shipper, *range(1, 501))
    shipper._outbox._progress = clock.monotonic()
    count = losses(shipper)["lost/full"]
    assert count is not None
    assert count > 200
    clock.sleep(outbox.STALL_S + 1)
    shipper.close(0.0)


def test_what_an_agent_lost_before_it_was_killed_is_told_by_the_next(settings: Settings, clock: FakeClock) -> None:
    tiny = replace(settings, agent=replace(settings.agent, spool_max_bytes=10_000))
    first = made(tiny, clock)
    send(first, 0)
    clock.sleep(outbox.STALL_S + 1)
    send(first, *range(1, 501))
    assert first.health()[1] == []  # nobody would hear it
    first.pump()
    first._spool.close()  # type: ignore[union-attr]  # killed: nothing more happens
    there = replace(tiny, kafka=MOCK)
    second = made(there, clock)
    count = losses(second)["lost/full"]
    assert count is not None
    assert count > 200
    until(lambda: not second.pump() and second._outbox.unacked == 0, "everything to be acknowledged")
    assert losses(second) == {}  # heard
    second.pump()
    second.close(5.0)
    third = made(there, clock)
    assert losses(third) == {}
    third.close(5.0)


def test_what_an_earlier_agent_left_is_on_the_metrics_from_the_start(settings: Settings, clock: FakeClock) -> None:
    first = made(settings, clock)
    send(first, 1, 2, 3)
    first.close(0.0)
    selfmetrics.gauge("warpmeter_spool_bytes").set(0)
    second = made(settings, clock)
    assert second._spool is not None
    assert selfmetrics.REGISTRY.get_sample_value("warpmeter_spool_bytes") == second._spool.bytes > 0
    second.close(0.0)


def test_a_loss_is_told_for_an_hour(settings: Settings, clock: FakeClock) -> None:
    shipper = made(replace(settings, kafka=MOCK), clock)
    assert shipper._spool is not None
    shipper._spool.lost["corrupt"] += 3
    assert losses(shipper) == {"lost/corrupt": 3}
    clock.sleep(3590)
    assert losses(shipper) == {"lost/corrupt": 3}
    clock.sleep(20)
    assert losses(shipper) == {}
    shipper.close(5.0)


def test_a_damaged_file_of_losses_begins_at_nothing(settings: Settings, clock: FakeClock) -> None:
    settings.agent.spool_dir.mkdir()
    (settings.agent.spool_dir / "lost.json").write_text('{"full": 3}')
    shipper = made(replace(settings, kafka=MOCK), clock)
    assert losses(shipper) == {}
    shipper.close(5.0)


def test_messages_that_a_broken_producer_returns_go_in_front_of_newer_ones(
    settings: Settings, clock: FakeClock
) -> None:
    """As when the broker forgot the producer; newer messages come before the pump hears of it."""
    shipper = made(settings, clock)
    send(shipper, 1, 2, 3)
    shipper._outbox._producer.purge(in_queue=True, in_flight=True)
    shipper._outbox.fatal = True
    send(shipper, 4)
    shipper._outbox.poll()
    send(shipper, 5)
    shipper.pump()
    clock.sleep(outbox.STALL_S + 1)
    shipper.close(0.0)
    assert spooled(settings, clock) == [1, 2, 3, 4, 5]


def test_a_stop_on_a_full_disk_loses_what_was_only_in_memory_and_counts_it(
    settings: Settings, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(settings, clock)
    send(first, 1, 2, 3)
    clock.sleep(outbox.STALL_S + 1)
    first.close(0.0)
    second = made(settings, clock)
    second.pump()
    assert second._outbox.from_spool == 3
    send(second, 4)
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", _full)
        clock.sleep(outbox.STALL_S + 1)
        second.close(0.0)
    assert second._losses() == {"unspooled": 1}
    assert spooled(settings, clock) == [1, 2, 3]


def _full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_spool_that_could_not_be_opened_is_tried_again(settings: Settings, clock: FakeClock, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    blocked = replace(settings, agent=replace(settings.agent, spool_dir=tmp_path / "file/spool"))
    shipper = made(blocked, clock)
    (tmp_path / "file").unlink()
    shipper.pump()
    assert shipper._spool is None
    clock.sleep(61)
    shipper.pump()
    assert [health.subject for health in shipper.health()[1]] == []
    send(shipper, 1)
    clock.sleep(outbox.STALL_S + 1)
    shipper.close(0.0)
    assert spooled(blocked, clock) == [1]


def test_a_topic_that_nothing_acknowledges_is_named(settings: Settings, clock: FakeClock) -> None:
    shipper = made(settings, clock)
    send(shipper, 1)
    clock.sleep(outbox.STALL_S + 1)
    shipper._outbox._progress = clock.monotonic()  # as if another topic's messages were acknowledged
    (subject,) = shipper.health()[1]
    assert subject.subject == "topic/metric-samples"
    assert "warpmeter topics" in subject.why
    shipper.close(0.0)


def test_the_spools_type_is_what_the_shipper_takes(settings: Settings, clock: FakeClock) -> None:
    spool = open_spool(settings.agent, clock)
    assert isinstance(spool, Spool)
    with pytest.raises(SpoolTakenError, match="stop it, or give this one"):
        open_spool(settings.agent, clock)
    spool.close()

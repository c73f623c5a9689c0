"""What ingest refuses to start with, what it subscribes to, how it stops, and how far behind it says it is."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from warpmeter.consumers.__main__ import objection, subscription
from warpmeter.consumers.ledger import Declared, Entry, Foreign, Settled
from warpmeter.consumers.span import Partition, Span
from warpmeter.consumers.start import Tool, Wrong, remedy
from warpmeter.consumers.status import Lag, behind, positions
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Ingest, Kafka, Settings


def test_the_defaults_are_no_objection_and_mean_all_topics() -> None:
    assert objection(Settings()) is None
    assert set(subscription(Settings())) == {f"warpmeter.{name}" for name in TOPICS}


@pytest.mark.parametrize(
    ("ingest", "why"),
    [
        (Ingest(topics=("gpu-sample",)), "gpu-sample"),
        (Ingest(batch_bytes=100 << 20), "budget_bytes"),
        (Ingest(batch_rows=0), "positive"),
        (Ingest(batch_age_s=60.0), "batch_age_s"),
        (Ingest(session_timeout_s=0.5), "session_timeout_s"),
        (Ingest(reject_share=1.5), "reject_share"),
        (Ingest(reject_window=0), "reject_window"),
    ],
)
def test_impossible_settings_are_refused_by_name(ingest: Ingest, why: str) -> None:
    found = objection(replace(Settings(), ingest=ingest))
    assert found is not None
    assert why in found


def test_named_topics_are_under_the_prefix() -> None:
    settings = replace(Settings(), kafka=Kafka(topic_prefix="lab"), ingest=Ingest(topics=("gpu-samples",)))
    assert subscription(settings) == {"lab.gpu-samples": TOPICS["gpu-samples"]}


WAITING = """
import signal, sys, time
from warpmeter.consumers.__main__ import Stop
stop = Stop({grace})
print("up", flush=True)
while not stop.asked:
    time.sleep(0.01)
print("asked", flush=True)
while True:  # one long sleep misses a signal that comes just before it
    time.sleep(0.01)
"""


def waiting(grace_s: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING.format(grace=grace_s)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_ends_it(first: signal.Signals) -> None:
    with waiting(30.0) as process:
        process.send_signal(first)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1


def test_a_stop_that_hangs_ends_when_its_grace_is_over() -> None:
    with waiting(0.1) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1


def test_lag_is_counted_from_what_landed_and_what_the_broker_still_has() -> None:
    one, two, three = (Partition("t", number) for number in range(3))
    found = behind({one: 0, two: 40, three: 0}, {one: 10, two: 50, three: 5}, {one: 6, two: 20, three: 8})
    assert found == [Lag("t", 0, 6, 10, 3), Lag("t", 1, 20, 50, 10), Lag("t", 2, 8, 9, 0)]


def test_what_the_group_has_passed_is_not_behind_though_no_table_has_it() -> None:
    rejects, refused_last, set_back = (Partition("t", number) for number in range(3))
    ends = {rejects: 3, refused_last: 10, set_back: 10}
    landed, committed = {refused_last: 7, set_back: 9}, {rejects: 3, refused_last: 9, set_back: 2}
    found = behind(dict.fromkeys(ends, 0), ends, landed, committed)
    assert [(each.landed, each.lag_messages) for each in found] == [(None, 0), (7, 1), (9, 0)]


def test_positions_are_of_the_topics_present_lives() -> None:
    settled, declared, old, foreign = (Partition("t", number) for number in range(4))
    entries: dict[Partition, Entry] = {
        settled: Settled(settled, "new", 5),
        declared: Declared(Span("t", "new", 1, 7, 9), 1.0),
        old: Settled(old, "old", 50),
        foreign: Foreign(foreign, 3),
    }
    assert positions(entries, {"t": "new"}) == {settled: 5, declared: 7, foreign: 3}


def test_the_command_that_sets_offsets_is_whole() -> None:
    settings = Settings(kafka=Kafka(bootstrap_servers="k1:9092,k2:9092"), ingest=Ingest(group="g"))
    one, two = Partition("a.b", 2), Partition("a.c", 0)
    tool = "kafka-consumer-groups.sh --bootstrap-server k1:9092,k2:9092 --group g"
    assert Tool.of(settings).to_set([(one, 7)]) == f"{tool} --reset-offsets --topic a.b:2 --to-offset 7 --execute"
    assert Tool.of(settings).to_set([(one, 7), (two, 9)]) == (
        f"echo a.b,2,7 a.c,0,9 | xargs -n1 > offsets.csv && {tool} --reset-offsets --from-file offsets.csv --execute"
    )
    secured = replace(settings, kafka=replace(settings.kafka, options={"security.protocol": "SASL_SSL"}))
    assert " --group g --command-config client.properties --reset-offsets" in Tool.of(secured).to_set([(one, 7)])


def test_a_ledger_in_a_file_is_no_tools_to_set() -> None:
    settings = Settings(ingest=Ingest(group="g", ledger_dir=Path("/data/ledger")))
    said = remedy([Wrong(Partition("t", 0), "the group's offset 3 of t[0] was set back", 9)], Tool.of(settings))
    assert "restore /data/ledger/ledger-g.json" in said
    assert "kafka-consumer-groups" not in said


def test_of_many_partitions_some_are_told_of_and_the_command_is_for_all() -> None:
    found = [Wrong(Partition("t", number), f"partition {number} was set back", number + 1) for number in range(20)]
    said = remedy(found, Tool("k:9092", "g"))
    assert said.startswith("20 partitions must not begin where the group is: partition 0 was set back; ")
    assert "partition 7 was set back; and 12 partitions more: " in said
    assert all(f" t,{number},{number + 1} " in said for number in range(20))


def test_a_partition_of_which_nothing_landed_is_behind_by_all_of_it() -> None:
    where = Partition("t", 0)
    assert behind({where: 3}, {where: 10}, {}) == [Lag("t", 0, None, 10, 7)]

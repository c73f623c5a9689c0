"""What ingest refuses to start with, what it subscribes to, how it stops, and how far behind it says it is."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from warpmeter.consumers.__main__ import objection, subscription
from warpmeter.consumers.span import Partition
from warpmeter.consumers.status import Lag, behind
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
time.sleep(30)
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
        assert process.wait(5) == 1


def test_a_stop_that_hangs_ends_when_its_grace_is_over() -> None:
    with waiting(0.1) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 1


def test_lag_is_counted_from_what_landed_and_what_the_broker_still_has() -> None:
    one, two, three = (Partition("t", number) for number in range(3))
    found = behind({one: 0, two: 40, three: 0}, {one: 10, two: 50, three: 5}, {one: 6, two: 20, three: 8})
    assert found == [Lag("t", 0, 6, 10, 3), Lag("t", 1, 20, 50, 10), Lag("t", 2, 8, 9, 0)]


def test_a_partition_of_which_nothing_landed_is_behind_by_all_of_it() -> None:
    where = Partition("t", 0)
    assert behind({where: 3}, {where: 10}, {}) == [Lag("t", 0, None, 10, 7)]

"""What `tail` shows of a real topic: everything, also what cannot be read."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import pytest
from confluent_kafka import Producer

from tests.brokers import Broker
from warpmeter import bus, tail, topics, wire
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope as Gpu
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.tail import Seen, Shape, TailError, Wanted

GPU = TOPICS["gpu-samples"]
START = 1_780_000_000.0


class Topic:
    """The topic `gpu-samples` of one test, and a producer for it."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self._name = GPU.full_name(kafka.topic_prefix)
        self._producer: Producer = bus.producer(kafka, {"linger.ms": 0, "enable.idempotence": False})

    def put(self, host: str, ts: float, count: int = 2, permille: int = 500) -> None:
        """One good message of `count` rows."""
        rows = [
            Gpu.GpuSample(host=host, ts=ts, period_ms=1000, gpu=gpu, gpu_util_permille=permille, power_deciwatts=7003)
            for gpu in range(count)
        ]
        envelope = wire.pack(GPU, host, rows)
        self.put_raw(envelope.value, host, ts, envelope.headers)

    def put_raw(
        self, value: bytes | None, host: str = "h", ts: float = START, headers: list[tuple[str, bytes]] | None = None
    ) -> None:
        """Any bytes."""
        self._producer.produce(self._name, value, host.encode(), headers=[*(headers or [])], timestamp=round(1000 * ts))
        assert self._producer.flush(60) == 0

    def seen(self, **wanted: object) -> list[Seen]:
        """What `read` gives, without waiting for more."""
        asked = Wanted("gpu-samples", **{"follow": False, **wanted})  # type: ignore[arg-type]
        return list(tail.read(self.kafka, asked, threading.Event()))


@pytest.fixture
def topic(broker: Broker, topic_prefix: str) -> Topic:
    kafka = Kafka(broker.bootstrap_servers, topic_prefix, partitions=1, replication_factor=1)
    topics.ensure(kafka, [replace(GPU, retention_ms=-1)])  # its messages are months old, and looked at by and by
    return Topic(kafka)


def test_the_newest_messages_come_first_and_in_order(topic: Topic) -> None:
    for second in range(25):
        topic.put("gpu-01", START + second)
    shown = [seen.ts for seen in topic.seen()]
    assert shown == [START + second for second in range(15, 25)]


def test_from_a_time_on_all_is_shown(topic: Topic) -> None:
    for second in range(25):
        topic.put("gpu-01", START + second)
    since = "2026-05-28T20:26:43"  # START + 3, in UTC
    assert [seen.ts for seen in topic.seen(since=since)] == [START + second for second in range(3, 25)]
    assert topic.seen(since="1s") == []


def test_one_host_alone(topic: Topic) -> None:
    for second in range(4):
        for host in ("gpu-01", "gpu-02"):
            topic.put(host, time.time() - 10 + second)
    assert {seen.key for seen in topic.seen(host="gpu-02")} == {"gpu-02"}
    assert len(topic.seen(host="gpu-02", since="1h")) == 4


def test_what_cannot_be_read_is_shown_as_such_between_what_can(topic: Topic) -> None:
    topic.put("gpu-01", START)
    topic.put_raw(b"\x0a\xff\xff")
    topic.put_raw(None)
    topic.put_raw(b"")
    topic.put_raw(b"\x00\x00")
    topic.put_raw(b"\x0a\x00", headers=[("type", b"HostSample"), ("rows", b"1")])
    topic.put_raw(b"\x0a\x00", headers=[("rows", b"7")])
    topic.put_raw(b"\x12\x00")
    topic.put("gpu-01", START)
    said = [
        "$",
        "corrupt: ",
        "no value",
        "no value",
        "corrupt: .*magic",
        "of type HostSample, not GpuSample",
        "says 7 rows and has 1",
        "corrupt: no rows",
        "$",
    ]
    for seen, problem in zip(topic.seen(), said, strict=True):
        assert re.match(problem, seen.problem)
    for seen in topic.seen():
        assert list(tail.lines(seen))
        assert [json.loads(line) for line in tail.json_lines(seen)]


def test_a_framed_value_is_read_like_a_bare_one(topic: Topic) -> None:
    value = wire.pack(GPU, "h", [Gpu.GpuSample(host="h", ts=START)]).value
    topic.put_raw(b"\x00\x00\x00\x00\x2a\x00" + value)
    assert [row.host for row in topic.seen()[0].rows] == ["h"]  # type: ignore[attr-defined]


def test_rows_as_lines_and_as_json(topic: Topic) -> None:
    topic.put("gpu-01", START, count=1)
    (seen,) = topic.seen()
    assert list(tail.lines(seen)) == ["2026-05-28T20:26:40.000Z gpu-01 gpu=0 gpu_util=50% power=700.3W"]
    assert list(tail.lines(seen, si=True)) == ["2026-05-28T20:26:40.000Z gpu-01 gpu=0 gpu_util=0.5 power_watts=700.3"]
    row = {"host": "gpu-01", "ts": START, "period_ms": 1000, "gpu": 0, "uuid": "", "model": "", "job_ids": []}
    row |= {"job_share_permille": [], "column_sources": {}, "driver_version": ""}
    where = {"topic": "gpu-samples", "partition": 0, "offset": 0, "timestamp": START, "key": "gpu-01"}
    assert [json.loads(line) for line in tail.json_lines(seen)] == [
        where | {"row": row | {"gpu_util_permille": 500, "power_deciwatts": 7003}}
    ]
    assert [json.loads(line) for line in tail.json_lines(seen, si=True)] == [
        where | {"row": row | {"gpu_util": 0.5, "power_watts": 700.3}}
    ]


def test_live_messages_follow(topic: Topic) -> None:
    topic.put("gpu-01", START)
    stop = threading.Event()
    messages = tail.read(topic.kafka, Wanted("gpu-samples"), stop)
    assert next(messages).ts == START
    topic.put("gpu-02", START + 1)
    topic.put("gpu-03", START + 2)
    assert [seen.key for seen in islice(messages, 2)] == ["gpu-02", "gpu-03"]
    stop.set()
    assert list(messages) == []


def test_no_group_is_left_on_the_broker(topic: Topic) -> None:
    topic.put("gpu-01", START)
    topic.seen()
    admin = bus.admin(topic.kafka)
    groups = admin.list_consumer_groups(request_timeout=60).result()
    assert topic.kafka.group(tail.GROUP) not in [group.group_id for group in groups.valid]


def test_a_topic_that_is_not_there_is_named(broker: Broker, topic_prefix: str) -> None:
    kafka = Kafka(broker.bootstrap_servers, topic_prefix)
    with pytest.raises(TailError, match=rf"no topic {topic_prefix}\.gpu-samples.*topics --create"):
        list(tail.read(kafka, Wanted("gpu-samples"), threading.Event()))
    with pytest.raises(TailError, match="topics are: gpu-samples"):
        list(tail.read(kafka, Wanted("gpus"), threading.Event()))


def test_a_time_that_is_none_is_refused(topic: Topic) -> None:
    with pytest.raises(TailError, match="is no time"):
        list(tail.read(topic.kafka, Wanted("gpu-samples", since="yesterday"), threading.Event()))


COMMAND = """
import sys
from warpmeter import tail
from warpmeter.settings import Kafka
tail.tail(Kafka(sys.argv[1], sys.argv[2]), tail.Wanted("gpu-samples"), tail.Shape())
"""


@pytest.fixture
def command(topic: Topic) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    """Starts `tail` as a process that follows the topic."""
    started: list[subprocess.Popen[str]] = []

    def start() -> "subprocess.Popen[str]":
        line = [sys.executable, "-c", COMMAND, topic.kafka.bootstrap_servers, topic.kafka.topic_prefix]
        started.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_ctrl_c_ends_it_without_a_word(topic: Topic, command: Callable[[], "subprocess.Popen[str]"]) -> None:
    topic.put("gpu-01", START)
    process = command()
    assert process.stdout is not None
    assert "gpu-01" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert process.communicate()[1] == ""


def test_a_reader_that_leaves_ends_it_without_a_word(
    topic: Topic, command: Callable[[], "subprocess.Popen[str]"]
) -> None:
    topic.put("gpu-01", START)
    process = command()
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    for second in range(3):
        topic.put("gpu-01", START + second)
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_the_number_of_rows_can_be_limited(topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    for second in range(3):
        topic.put("gpu-01", START + second)
    tail.tail(topic.kafka, Wanted("gpu-samples", number=3), Shape(as_json=True))
    assert len(capsys.readouterr().out.splitlines()) == 3

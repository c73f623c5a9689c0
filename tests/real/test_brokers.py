"""The brokers keep what the pipeline relies on, and Tansu's differences are as `warpmeter.tansu` tells them."""

import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.brokers import Broker, KafkaCluster, KafkaMissingError, Tansu, maven
from tests.wait import until
from warpmeter.tansu import (
    LINUX_X86_64_SHA256,
    TANSU_VERSION,
    TansuFailedError,
    TansuMissingError,
    command,
    find_binary,
    version,
    wait_ready,
)

MIB = 1 << 20
HEADERS: list[tuple[str, str | bytes | None]] = [("type", b"GpuSample"), ("rows", b"3")]
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
WAIT_S = 100.0


def admin(broker: Broker) -> AdminClient:
    return admin_at(broker.bootstrap_servers)


def admin_at(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def create(broker: Broker, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=min(3, broker.size), config=config or {})
    client = admin(broker)
    client.create_topics([wanted], operation_timeout=10)[topic].result()
    nodes = [admin_at(address) for address in broker.bootstrap_servers.split(",")]
    until(lambda: all(led(node, topic, partitions) for node in nodes), f"every node to know {topic}", WAIT_S)


def led(client: AdminClient, topic: str, partitions: int) -> bool:
    """Whether a broker knows the topic with a leader for each partition: it may learn of both after it was made."""
    found = client.list_topics(topic, timeout=WAIT_S).topics[topic]
    return found.error is None and sum(each.leader >= 0 for each in found.partitions.values()) == partitions


def delete(broker: Broker, topic: str) -> None:
    client = admin(broker)
    client.delete_topics([topic], operation_timeout=10)[topic].result()


def topic_uuid(broker: Broker, topic: str) -> str:
    client = admin(broker)
    return str(client.describe_topics(TopicCollection([topic]))[topic].result().topic_id)


def told_offset(broker: Broker, topic: str, spec: OffsetSpec) -> int:
    """What ListOffsets says of partition 0."""
    client, asked = admin(broker), TopicPartition(topic, 0)
    return int(client.list_offsets({asked: spec})[asked].result().offset)


def produce(broker: Broker, topic: str, values: list[bytes]) -> list[int]:
    """Produce as the agent does; the acknowledged offsets."""
    offsets: list[int] = []

    def acknowledged(error: object, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    options = {"enable.idempotence": True, "compression.type": "zstd", "linger.ms": 5, "message.max.bytes": 16 * MIB}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
    for value in values:
        producer.produce(topic, value, key=b"host-1", headers=HEADERS, partition=0, on_delivery=acknowledged)
    assert producer.flush(WAIT_S) == 0
    return offsets


@contextmanager
def member(broker: Broker, group: str, **options: str | int) -> Iterator[Consumer]:
    """A consumer configured as ingest's are in embedded mode."""
    fixed = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000, "enable.auto.commit": False}
    sizes = {"fetch.message.max.bytes": 16 * MIB, "topic.metadata.refresh.interval.ms": 1000}
    strategy = {"partition.assignment.strategy": "cooperative-sticky", "auto.offset.reset": "earliest"}
    every = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0}
    consumer = Consumer({**every, **fixed, **sizes, **strategy, **options})
    with closing(consumer):
        yield consumer


def read(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` messages; fails when they do not come."""
    messages: list[Message] = []

    def enough() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
        return len(messages) >= count

    until(enough, f"{count} messages", WAIT_S, every_s=0)
    return messages


def read_all(broker: Broker, topic: str, count: int, start: int = 0) -> list[Message]:
    with member(broker, f"{topic}-reader") as consumer:
        consumer.assign([TopicPartition(topic, 0, start)])
        return read(consumer, count)


def test_what_is_produced_is_read_with_key_headers_and_time(broker: Broker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}.gpu-samples"
    create(broker, topic)
    before_ms = time.time() * 1000 - 1000
    assert produce(broker, topic, [b"%d" % i for i in range(100)]) == list(range(100))
    messages = read_all(broker, topic, 100)
    assert [message.value() for message in messages] == [b"%d" % i for i in range(100)]
    assert [message.offset() for message in messages] == list(range(100))
    first = messages[0]
    assert (first.key(), first.headers()) == (b"host-1", HEADERS)
    assert before_ms < first.timestamp()[1] < time.time() * 1000 + 1000


def test_reading_starts_inside_a_batch(broker: Broker, topic_prefix: str) -> None:
    create(broker, topic_prefix)
    produce(broker, topic_prefix, [b"x"] * 100)
    produce(broker, topic_prefix, [b"y"] * 50)
    messages = read_all(broker, topic_prefix, 77, start=73)
    assert [message.offset() for message in messages] == list(range(73, 150))


@pytest.mark.parametrize("mebibytes", [1, 10])
def test_a_large_message_passes_where_the_topic_allows_it(broker: Broker, topic_prefix: str, mebibytes: int) -> None:
    create(broker, topic_prefix, config={"max.message.bytes": str(12 * MIB)})
    value = os.urandom(mebibytes * MIB)
    produce(broker, topic_prefix, [value])
    assert read_all(broker, topic_prefix, 1)[0].value() == value


def test_a_topic_made_again_has_another_uuid(broker: Broker, topic_prefix: str) -> None:
    create(broker, topic_prefix)
    first = topic_uuid(broker, topic_prefix)
    assert topic_uuid(broker, topic_prefix) == first
    delete(broker, topic_prefix)
    until(lambda: topic_prefix not in admin(broker).list_topics(timeout=WAIT_S).topics, "deleted", WAIT_S)
    create(broker, topic_prefix)
    assert len(first) == 22
    assert topic_uuid(broker, topic_prefix) != first


def test_the_earliest_offset_and_times_are_found(broker: Broker, topic_prefix: str) -> None:
    create(broker, topic_prefix)
    produce(broker, topic_prefix, [b"x"] * 10)
    hour_ago_ms = int((time.time() - 3600) * 1000)
    for spec in (EARLIEST, OffsetSpec.for_timestamp(hour_ago_ms)):
        assert told_offset(broker, topic_prefix, spec) == 0
    with member(broker, topic_prefix) as consumer:
        found = consumer.offsets_for_times([TopicPartition(topic_prefix, 0, hour_ago_ms)], timeout=WAIT_S)
        assert found[0].offset == 0


def test_a_group_shares_partitions_and_hands_them_over(broker: Broker, topic_prefix: str) -> None:
    create(broker, topic_prefix, partitions=2)
    quick = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
    with member(broker, topic_prefix, **quick) as first:
        first.subscribe([topic_prefix])
        until(lambda: first.poll(0.1) is None and len(first.assignment()) == 2, "both partitions", WAIT_S, every_s=0)
        with member(broker, topic_prefix, **quick) as second:
            second.subscribe([topic_prefix])

            def shared() -> bool:
                first.poll(0.05)
                second.poll(0.05)
                return len(first.assignment()) == len(second.assignment()) == 1

            until(shared, "one partition each", WAIT_S, every_s=0)
        until(lambda: first.poll(0.1) is None and len(first.assignment()) == 2, "both again", WAIT_S, every_s=0)


def test_committed_offsets_are_kept_and_metadata_where_the_broker_says_so(broker: Broker, topic_prefix: str) -> None:
    create(broker, topic_prefix)
    produce(broker, topic_prefix, [b"x"] * 10)
    note = json.dumps({"upto": 9, "topic": topic_uuid(broker, topic_prefix)})
    with member(broker, topic_prefix) as consumer:
        consumer.subscribe([topic_prefix])
        read(consumer, 10)
        consumer.commit(offsets=[TopicPartition(topic_prefix, 0, 4, note)], asynchronous=False)
    with member(broker, topic_prefix) as other:
        committed = other.committed([TopicPartition(topic_prefix, 0)], timeout=WAIT_S)[0]
    assert committed.offset == 4
    assert committed.metadata == (note if broker.keeps_commit_metadata else None)


# Debian 12's kcat (librdkafka 2.0.2) cannot parse Tansu's ApiVersions; told of an old broker it lists and reads.
KCAT_FOR_TANSU = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0"]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat here (Debian: apt-get install kcat)")
def test_kcat_lists_and_reads(broker: Broker, topic_prefix: str) -> None:
    create(broker, topic_prefix)
    produce(broker, topic_prefix, [b"a", b"b", b"c"])
    line = ["kcat", "-m", "60", "-b", broker.bootstrap_servers, *(KCAT_FOR_TANSU if broker.name == "tansu" else [])]
    listed = subprocess.check_output([*line, "-L"], text=True, timeout=WAIT_S)
    assert f'topic "{topic_prefix}" with 1 partitions' in listed
    wanted = ["-C", "-q", "-t", topic_prefix, "-p", "0", "-o", "0", "-c", "3", "-f", "%k %h %o %s\\n"]
    shown = subprocess.check_output([*line, *wanted], text=True, timeout=WAIT_S)
    assert shown.splitlines() == [f"host-1 type=GpuSample,rows=3 {i} {'abc'[i]}" for i in range(3)]


def test_tansu_tells_the_start_of_the_last_batch_as_its_end(tansu: Tansu, topic_prefix: str) -> None:
    create(tansu, topic_prefix)
    produce(tansu, topic_prefix, [b"x"] * 100)
    told = told_offset(tansu, topic_prefix, LATEST)
    assert told < 100, "fixed upstream: warpmeter.tansu and ingest's lag can rely on it now"


def test_tansu_is_empty_after_a_restart(tmp_path: Path, topic_prefix: str) -> None:
    with closing(Tansu(tmp_path)) as broker:
        create(broker, topic_prefix)
        before = topic_uuid(broker, topic_prefix)
        broker.stop()
        broker.start()
        assert admin(broker).list_topics(timeout=WAIT_S).topics == {}
        create(broker, topic_prefix)
        assert topic_uuid(broker, topic_prefix) != before


def test_an_idempotent_producer_never_recovers_from_tansus_restart(tmp_path: Path, topic_prefix: str) -> None:
    with closing(Tansu(tmp_path)) as broker:
        create(broker, topic_prefix)
        options = {"enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
        producer.produce(topic_prefix, b"before")
        assert producer.flush(WAIT_S) == 0
        broker.stop()
        broker.start()
        create(broker, topic_prefix)
        producer.produce(topic_prefix, b"after")
        assert producer.flush(4) == 1, "fixed upstream: a broker can be restarted without its clients now"
        producer.purge()


FETCHES_A_DELETED_TOPIC = """
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "log_level": 0})
consumer.assign([TopicPartition(sys.argv[2], 0, 0)])
print(consumer.poll(100).value(), flush=True)
for _ in range(500):
    consumer.poll(0.1)
"""


def test_fetching_a_topic_deleted_on_tansu_ends_the_process(tansu: Tansu, topic_prefix: str) -> None:
    create(tansu, topic_prefix)
    produce(tansu, topic_prefix, [b"x"])
    line = [sys.executable, "-c", FETCHES_A_DELETED_TOPIC, tansu.bootstrap_servers, topic_prefix]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"b'x'\n"
        delete(tansu, topic_prefix)
        assert reader.wait(WAIT_S) == -signal.SIGSEGV, "fixed upstream: ingest survives a deleted topic now"


def test_the_wheels_binary_is_the_one_we_know() -> None:
    binary = find_binary({})
    assert version(binary) == TANSU_VERSION
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        assert hashlib.sha256(binary.read_bytes()).hexdigest() == LINUX_X86_64_SHA256


def test_a_named_binary_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TansuMissingError, match="is no executable file; correct or unset it"):
        find_binary({"WARPMETER_TANSU": str(tmp_path)})
    with pytest.raises(TansuMissingError, match="is not Tansu"):
        version(Path("/bin/echo"))


def test_a_port_in_use_is_told(tansu: Tansu) -> None:
    line = command(tansu.port, "another")
    second = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with second, pytest.raises(TansuFailedError, match=f"is 127.0.0.1:{tansu.port} in use"):
        wait_ready(second, tansu.port, "another")


def test_a_machine_without_java_or_maven_is_told_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("WARPMETER_CACHE", str(tmp_path))
    with pytest.raises(KafkaMissingError, match="apt-get install openjdk-17-jre-headless maven"):
        KafkaCluster(tmp_path / "node")
    with pytest.raises(KafkaMissingError, match="apt-get install maven"):
        maven.jars()


@pytest.mark.kafka
def test_kafka_tells_its_end(kafka: KafkaCluster, topic_prefix: str) -> None:
    create(kafka, topic_prefix)
    produce(kafka, topic_prefix, [b"x"] * 100)
    assert told_offset(kafka, topic_prefix, LATEST) == 100


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_three_nodes_lose_nothing_when_one_is_killed_and_another_paused(
    kafka3: KafkaCluster, topic_prefix: str
) -> None:
    create(kafka3, topic_prefix)
    produced = [produce(kafka3, topic_prefix, [b"a"] * 100)]
    kafka3.kill(0)
    produced.append(produce(kafka3, topic_prefix, [b"b"] * 100))
    kafka3.start(0)
    kafka3.pause(1)
    try:
        produced.append(produce(kafka3, topic_prefix, [b"c"] * 100))
    finally:
        kafka3.resume(1)
    assert [len(offsets) for offsets in produced] == [100] * 3
    values = [message.value() for message in read_all(kafka3, topic_prefix, 300)]
    assert values == [b"a"] * 100 + [b"b"] * 100 + [b"c"] * 100

"""The ledger in a consumer group of Apache Kafka keeps the laws; on the embedded broker it says that it cannot."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.brokers import Broker
from tests.ledger_laws import LAWS, Law, declared
from tests.wait import until
from warpmeter import bus
from warpmeter.consumers.ledger import Done, Fatal, Fenced, Foreign, Ledger
from warpmeter.consumers.ledger.kafka import KafkaLedger
from warpmeter.consumers.span import Partition
from warpmeter.settings import Kafka

SESSION: bus.Options = {"session.timeout.ms": 6000, "auto.offset.reset": "error"}


def partitions_of(broker: Broker, topic: str) -> list[Partition]:
    admin = bus.admin(Kafka(bootstrap_servers=broker.bootstrap_servers))
    for future in admin.create_topics([NewTopic(topic, 2)]).values():
        future.result()
    return [Partition(topic, 0), Partition(topic, 1)]


def member(broker: Broker, group: str, topic: str) -> Consumer:
    """A consumer that has joined the group and holds its partitions."""
    consumer = bus.consumer(Kafka(bootstrap_servers=broker.bootstrap_servers), group, SESSION)
    held: list[TopicPartition] = []

    def assigned(to: Consumer, partitions: list[TopicPartition]) -> None:
        to.incremental_assign([TopicPartition(item.topic, item.partition, 0) for item in partitions])
        held.extend(partitions)

    consumer.subscribe([topic], on_assign=assigned)

    def joined() -> bool:
        consumer.poll(0.1)
        return bool(held)

    until(joined, "the group to form", every_s=0)
    return consumer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as closing_stack:
        yield closing_stack


@pytest.mark.kafka
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Law, kafka: Broker, topic_prefix: str, stack: ExitStack) -> None:
    at = partitions_of(kafka, topic_prefix)
    open_ones: list[Consumer] = []

    def reopen() -> Ledger:
        for consumer in open_ones:
            consumer.close()
        open_ones.append(member(kafka, topic_prefix, topic_prefix))
        return KafkaLedger(open_ones[-1])

    stack.callback(lambda: open_ones[-1].close())
    law(reopen, at)


@pytest.mark.kafka
def test_a_record_of_somebody_elses_tool_is_foreign(kafka: Broker, topic_prefix: str) -> None:
    at = partitions_of(kafka, topic_prefix)
    with closing(bus.consumer(Kafka(bootstrap_servers=kafka.bootstrap_servers), topic_prefix)) as tool:
        tool.commit(offsets=[TopicPartition(*at[0], 7)], asynchronous=False)
        assert KafkaLedger(tool).recall(at) == {at[0]: Foreign(at[0], 7)}


@pytest.mark.kafka
def test_who_is_no_member_is_fenced(kafka: Broker, topic_prefix: str) -> None:
    at = partitions_of(kafka, topic_prefix)
    with closing(bus.consumer(Kafka(bootstrap_servers=kafka.bootstrap_servers), topic_prefix)) as stranger:
        assert isinstance(KafkaLedger(stranger).declare([declared(0, 4, of=at[0])]), Fenced)
        assert KafkaLedger(stranger).recall(at) == {}


def test_a_broker_that_forgets_commit_metadata_is_found_out(broker: Broker, topic_prefix: str) -> None:
    at = partitions_of(broker, topic_prefix)
    with closing(member(broker, topic_prefix, topic_prefix)) as consumer:
        outcome = KafkaLedger(consumer).declare([declared(0, 4, of=at[0])])
    assert isinstance(outcome, Done if broker.keeps_commit_metadata else Fatal)

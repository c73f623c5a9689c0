"""Topics made and mended on a real broker."""

import dataclasses

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from tests.brokers import Broker, KafkaCluster
from tests.wait import until
from warpmeter import bus, topics
from warpmeter.schemas.topics import DAY_MS, TOPICS, Topic
from warpmeter.settings import Kafka
from warpmeter.topics import ConfigDiffers, FewerPartitions, Missing


@pytest.fixture
def kafka_settings(broker: Broker, topic_prefix: str) -> Kafka:
    return Kafka(broker.bootstrap_servers, topic_prefix, partitions=1, replication_factor=1)


def with_more(topic: Topic) -> Topic:
    return dataclasses.replace(topic, retention_ms=30 * DAY_MS)


def test_missing_topics_are_made_and_then_nothing_differs(kafka_settings: Kafka) -> None:
    assert all(isinstance(each, Missing) for each in topics.check(kafka_settings))
    assert len(topics.ensure(kafka_settings)) == len(TOPICS)
    assert topics.check(kafka_settings) == ()
    assert topics.ensure(kafka_settings) == ()


def test_making_what_somebody_else_has_just_made_is_fine(kafka_settings: Kafka) -> None:
    differences = topics.check(kafka_settings)
    topics.apply(kafka_settings, differences)
    topics.apply(kafka_settings, differences)
    until(lambda: topics.check(kafka_settings) == (), "the broker to tell of the topics")


def test_retention_is_raised_and_never_lowered(kafka_settings: Kafka) -> None:
    topics.ensure(kafka_settings)
    more = [with_more(TOPICS["gpu-samples"])]
    name = more[0].full_name(kafka_settings.topic_prefix)
    assert topics.ensure(kafka_settings, more) == (ConfigDiffers(name, "retention.ms", str(DAY_MS), str(30 * DAY_MS)),)
    assert topics.check(kafka_settings, more) == ()
    assert topics.ensure(kafka_settings) == ()
    assert retention(kafka_settings, name) == str(30 * DAY_MS)


def retention(kafka: Kafka, name: str) -> str | None:
    asked = ConfigResource(ResourceType.TOPIC, name)
    admin = bus.admin(kafka)
    entries = admin.describe_configs([asked])[asked].result()
    value: str | None = entries["retention.ms"].value
    return value


def test_a_broker_that_is_away_is_named_with_what_to_do() -> None:
    with pytest.raises(topics.TopicsError, match=r"cannot reach Kafka at 127\.0\.0\.1:1.*bootstrap_servers"):
        topics.check(Kafka("127.0.0.1:1"), timeout_s=1)


def test_options_that_the_client_does_not_know_are_refused() -> None:
    with pytest.raises(topics.TopicsError, match=r"kafka\.options.*no\.such"):
        topics.check(Kafka("127.0.0.1:1", options={"no.such": "option"}))


@pytest.mark.kafka
def test_partitions_are_added(kafka: KafkaCluster, topic_prefix: str) -> None:
    before = Kafka(kafka.bootstrap_servers, topic_prefix, partitions=1, replication_factor=1)
    topics.ensure(before)
    after = dataclasses.replace(before, partitions=3)
    differences = topics.ensure(after)
    assert FewerPartitions(f"{topic_prefix}.gpu-samples", 1, 3) in differences
    until(lambda: topics.check(after) == (), "the partitions to be told")


@pytest.mark.kafka
def test_three_replicas_with_two_in_sync(kafka3: KafkaCluster, topic_prefix: str) -> None:
    kafka = Kafka(kafka3.bootstrap_servers, topic_prefix, partitions=2, replication_factor=3)
    topics.ensure(kafka)
    until(lambda: topics.check(kafka) == (), "every node to know the topics")
    fewer = topics.check(dataclasses.replace(kafka, replication_factor=5), [TOPICS["gpu-samples"]])
    assert [str(each) for each in fewer] == [
        f"{topic_prefix}.gpu-samples: 3 replicas, wants 5; use kafka-reassign-partitions"
    ]

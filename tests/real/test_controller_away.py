"""Ingest asks for the ids of topics before each insert, also while the broker that it used to ask is away."""

from contextlib import ExitStack, closing

import pytest

from tests.brokers import KafkaCluster
from warpmeter import topics
from warpmeter.consumers.broker import connect
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Ingest, Kafka

pytestmark = [pytest.mark.long, pytest.mark.kafka]
CLIENTS = 6
"""Brokers tell each client another one of them for the controller: of so many, some know the one that stops."""


def test_any_one_broker_may_be_away_and_the_ids_of_topics_are_told(kafka3: KafkaCluster, topic_prefix: str) -> None:
    settings = Kafka(kafka3.bootstrap_servers, topic_prefix, partitions=1, replication_factor=3)
    topic = TOPICS["host-samples"]
    topics.ensure(settings, [topic])
    names = [topic.full_name(topic_prefix)]
    with ExitStack() as stack:
        found = [connect(settings, Ingest(group=topic_prefix))[0] for _ in range(CLIENTS)]
        for broker in found:
            stack.enter_context(closing(broker))
        wanted = found[0].topic_ids(names)
        assert [broker.topic_ids(names) for broker in found] == [wanted] * CLIENTS
        for node in range(2):
            kafka3.stop(node)
            try:
                assert [broker.topic_ids(names) for broker in found] == [wanted] * CLIENTS
            finally:
                kafka3.start(node)

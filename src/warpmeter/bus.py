"""Kafka clients, made in one place from the settings.

librdkafka's own options in `kafka.options` are passed through and win, so SASL and TLS need no names of ours.
"""

from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from warpmeter.settings import Kafka

Value = str | int | float | bool
Options = dict[str, Value]

COMMON: Final[Mapping[str, Value]] = {"client.id": "warpmeter", "log.connection.close": False}

# Idempotent, and never given up: what entered the producer's queue stays there until the broker has it.
# murmur2_random is the Java clients' partitioner, so that one host lands on one partition whoever produces.
PRODUCER: Final[Mapping[str, Value]] = {
    "enable.idempotence": True,
    "compression.type": "zstd",
    "partitioner": "murmur2_random",
    "message.timeout.ms": 0,
    "linger.ms": 50,
    "message.max.bytes": 16 << 20,
}

CONSUMER: Final[Mapping[str, Value]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "fetch.message.max.bytes": 16 << 20,
}


def options(kafka: Kafka, *layers: Mapping[str, Value]) -> Options:
    """One client's configuration: common, then `layers`, then the user's own options."""
    merged: Options = {"bootstrap.servers": kafka.bootstrap_servers, **COMMON}
    for layer in layers:
        merged |= layer
    return merged | dict(kafka.options)


def producer(
    kafka: Kafka, extra: Mapping[str, Value] | None = None, on_error: Callable[[KafkaError], None] | None = None
) -> Producer:
    """An idempotent producer; raises KafkaException for options that librdkafka refuses.

    `on_error` is called from `poll()` with what is not about a single message: brokers away, a fatal state.
    """
    callback = {"error_cb": on_error} if on_error else {}
    return Producer(options(kafka, PRODUCER, extra or {}) | callback)


def consumer(kafka: Kafka, group: str, extra: Mapping[str, Value] | None = None) -> Consumer:
    """A consumer of `group` that commits nothing by itself; raises KafkaException for refused options."""
    return Consumer(options(kafka, CONSUMER, {"group.id": group}, extra or {}))


def admin(kafka: Kafka) -> AdminClient:
    """An admin client, which says what goes wrong by raising and logs nothing; KafkaException for refused options."""
    return AdminClient(options(kafka, {"log_level": 0}))

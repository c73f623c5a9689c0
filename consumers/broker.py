"""The broker as the loop sees it: a port, and its implementation on confluent-kafka."""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, cast
from uuid import UUID

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from warpmeter import bus
from warpmeter.consumers.message import Message
from warpmeter.consumers.span import Partition
from warpmeter.settings import Ingest, Kafka

TIMEOUT_S: Final = 10.0
CONTROLLER_S: Final = 3.0
"""So long who was the controller is waited for before the brokers are asked who is it now."""


class BrokerError(Exception):
    """The broker cannot be asked now; the message says what was asked."""


class Member(Protocol):
    """Who is told of partitions coming and going, from within `poll`."""

    def assigned(self, partitions: Sequence[Partition]) -> Mapping[Partition, int | None]:
        """Take them; answers where each begins, None for the earliest offset."""

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Give them up; `lost`: they are somebody else's already, and nothing can be committed."""


class Broker(Protocol):
    """A member of a consumer group, with explicit positions and no commits of its own."""

    def subscribe(self, topics: Sequence[str], member: Member) -> None:
        """Join the group."""

    def poll(self, limit: int, timeout_s: float) -> Sequence[Message]:
        """Up to `limit` messages and events; calls `member` when partitions come or go."""

    def seek(self, where: Partition, offset: int | None) -> None:
        """Go on at `offset` (None: the earliest); nothing fetched before comes any more."""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Fetch nothing of them until resumed; the membership stays."""

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Fetch again."""

    def earliest(self, where: Partition) -> int:
        """First offset that the broker still has. Raises BrokerError."""

    def latest(self, where: Partition) -> int:
        """The end of the partition, asked now; a lower bound on some brokers. Raises BrokerError."""

    def end(self, where: Partition) -> int | None:
        """Last known end of the partition, from the fetches; None when not known. A lower bound on some brokers."""

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """UUID of each topic that exists. Raises BrokerError."""

    def close(self) -> None:
        """Leave the group."""


def is_out_of_range(error: object) -> bool:
    """The position is not in the log: retention took it, or the topic is another one."""
    return isinstance(error, KafkaError) and error.code() in (
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
    )


def is_fatal(error: object) -> bool:
    """The client cannot go on."""
    return isinstance(error, KafkaError) and (
        bool(error.fatal())
        or error.code()
        in (KafkaError._AUTHENTICATION, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    )


def uuid_of(topic_id: Any) -> str:
    """Kafka's topic id in the common form of a UUID (its own form, base64, may hold a slash)."""
    half = 1 << 64
    most = topic_id.get_most_significant_bits() % half
    return str(UUID(int=most << 64 | topic_id.get_least_significant_bits() % half))


def client_id() -> str:
    """How this process is called in the group, where people look for it."""
    return f"warpmeter-ingest@{socket.gethostname()}:{os.getpid()}"


def consumer_options(ingest: Ingest) -> bus.Options:
    """What ingest sets beyond the house's consumer options.

    Positions are always explicit, so an offset that is not there is an error, never a silent jump.
    """
    return {
        "client.id": client_id(),
        "auto.offset.reset": "error",
        "session.timeout.ms": int(ingest.session_timeout_s * 1000),
        "heartbeat.interval.ms": int(ingest.session_timeout_s * 1000 / 5),
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": 10_000,
        "queued.max.messages.kbytes": max(ingest.budget_bytes // 2048, 1024),
        # The queue's limit holds for all partitions together, but only before a fetch: the answer comes on top, from
        # every broker, and is several times larger once it is unpacked. A message beyond this is still given, alone.
        "fetch.max.bytes": max(ingest.budget_bytes // 8, 1 << 20),
        "queued.min.messages": 100_000,
        "fetch.wait.max.ms": 250,
        "fetch.error.backoff.ms": 100,
    }


class KafkaBroker:
    """On confluent-kafka. `consumer` is shared with the ledger, whose commits must be this member's."""

    def __init__(self, consumer: Consumer, admin: AdminClient) -> None:
        self._consumer = consumer
        self._admin = admin

    def subscribe(self, topics: Sequence[str], member: Member) -> None:
        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            starts = member.assigned([Partition(item.topic, item.partition) for item in partitions])
            consumer.incremental_assign([_place(where, offset) for where, offset in starts.items()])

        def gone(lost: bool) -> Any:
            def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
                member.revoked([Partition(item.topic, item.partition) for item in partitions], lost)
                consumer.incremental_unassign(partitions)

            return revoked

        self._consumer.subscribe(list(topics), on_assign=assigned, on_revoke=gone(False), on_lost=gone(True))

    def poll(self, limit: int, timeout_s: float) -> Sequence[Message]:
        return cast(Sequence[Message], self._consumer.consume(limit, timeout_s))

    def seek(self, where: Partition, offset: int | None) -> None:
        # Not seek(): a partition whose fetch ended with an error does not take it up again.
        self._consumer.incremental_unassign([TopicPartition(where.topic, where.number)])
        self._consumer.incremental_assign([_place(where, offset)])

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._consumer.pause([TopicPartition(*where) for where in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._consumer.resume([TopicPartition(*where) for where in partitions])

    def earliest(self, where: Partition) -> int:
        return self._watermarks(where)[0]

    def latest(self, where: Partition) -> int:
        return self._watermarks(where)[1]

    def _watermarks(self, where: Partition) -> tuple[int, int]:
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*where), timeout=TIMEOUT_S)
        except KafkaException as error:
            raise BrokerError(f"cannot ask for the offsets of {where}: {error.args[0].str()}") from error
        return int(low), int(high)

    def end(self, where: Partition) -> int | None:
        found = self._consumer.get_watermark_offsets(TopicPartition(*where), cached=True)
        return int(found[1]) if found and found[1] >= 0 else None

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        names = list(topics)
        if not names:
            return {}
        try:
            return self._described(names, CONTROLLER_S)
        except BrokerError:
            # librdkafka waits for the broker that was the controller when it last heard of them, though another one is.
            with suppress(KafkaException):
                self._admin.list_topics(timeout=TIMEOUT_S)
            return self._described(names, TIMEOUT_S)

    def _described(self, names: list[str], within_s: float) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name, future in self._admin.describe_topics(TopicCollection(names), request_timeout=within_s).items():
            try:
                found[name] = uuid_of(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
                    raise BrokerError(f"cannot describe {name}: {error.args[0].str()}") from error
        return found

    def close(self) -> None:
        self._consumer.close()


def _place(where: Partition, offset: int | None) -> TopicPartition:
    return TopicPartition(where.topic, where.number, OFFSET_BEGINNING if offset is None else offset)


def connect(kafka: Kafka, ingest: Ingest) -> tuple[KafkaBroker, Consumer]:
    """The broker, and its consumer for the ledger. Raises KafkaException for options that librdkafka refuses."""
    consumer = bus.consumer(kafka, ingest.group, consumer_options(ingest), bus.logger("ingest"))
    return KafkaBroker(consumer, bus.admin(kafka)), consumer

"""The ingest group's place, held while a replay works, so that no consumer lands rows meanwhile.

In a consumer group the replay is a member that has all partitions of its topic. In a cooperative group one that joins
gets them only when their owner has let go of them, which it does not, as it does not poll, until it leaves (or is dead
for the session's timeout). Other topics are anybody's. Where the ledger is a file, its lock holds off all.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from warpmeter import bus
from warpmeter.consumers.ledger import Entry, Ledger, LedgerError, LedgerFolderError
from warpmeter.consumers.ledger.file import FileLedger
from warpmeter.consumers.ledger.kafka import KafkaLedger
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.span import Partition
from warpmeter.settings import Kafka, Settings

CLIENT_ID: Final = "warpmeter-replay"
TIMEOUT_S: Final = 10.0
JOIN_S: Final = 60.0
LOOK_S: Final = 0.5
# librdkafka's most: a member that does not poll for longer would be put out of the group.
NO_POLL_MS: Final = 86_400_000

Records = Mapping[Partition, Entry]


@dataclass(frozen=True)
class Place:
    """The group's place on `partitions` while it is held: its ledger is this process's to write."""

    ledger: Ledger
    partitions: Sequence[Partition]

    def records(self) -> Records:
        """The ledger's records as they are now. Raises ReplayError."""
        try:
            return self.ledger.recall(self.partitions)
        except LedgerError as error:
            raise ReplayError(str(error)) from error


@contextmanager
def held(settings: Settings, partitions: Sequence[Partition]) -> Iterator[Place]:
    """Keep ingest out of `partitions`, and take its place. Raises ReplayError while it is at work."""
    if settings.ingest.ledger_dir is not None:
        with _file_held(settings, partitions) as place:
            yield place
        return
    _wait_for_nobody(settings)
    with closing(_member(settings)) as consumer:
        _join(consumer, settings.ingest.group, partitions)
        yield Place(KafkaLedger(consumer), partitions)


def looked_at(settings: Settings, partitions: Sequence[Partition]) -> Records:
    """The records alone, while ingest may be at work. Raises ReplayError."""
    if settings.ingest.ledger_dir is not None:
        from warpmeter.consumers.ledger import decode
        from warpmeter.consumers.ledger.file import ledger_path, read_records

        try:
            found = read_records(ledger_path(settings.ingest.ledger_dir, settings.ingest.group))
        except LedgerError as error:
            raise ReplayError(str(error)) from error
        return {where: decode(where, *found[where]) for where in partitions if where in found}
    with closing(bus.consumer(settings.kafka, settings.ingest.group)) as consumer:
        return Place(KafkaLedger(consumer), partitions).records()


@contextmanager
def _file_held(settings: Settings, partitions: Sequence[Partition]) -> Iterator[Place]:
    assert settings.ingest.ledger_dir is not None
    try:
        ledger = FileLedger(settings.ingest.ledger_dir, settings.ingest.group)
    except LedgerFolderError as error:
        raise ReplayError(str(error), error.exit_status) from error
    except LedgerError as error:
        raise ReplayError(f"{error}; a replay needs ingest to stand still") from error
    with closing(ledger):
        yield Place(ledger, partitions)


def _wait_for_nobody(settings: Settings) -> None:
    """Return once the group has no member; a killed replay is one until its session ends, all others are refused."""
    group = settings.ingest.group
    deadline = time.monotonic() + settings.ingest.session_timeout_s + TIMEOUT_S
    admin = bus.admin(settings.kafka)
    while members := _members(admin, group, settings.kafka):
        others = [member for member in members if member.client_id != CLIENT_ID]
        if others:
            raise ReplayError(
                f"the group {group} has {len(others)} member(s), on {', '.join(sorted({m.host for m in others}))}: "
                "stop every `warpmeter ingest` (and `up`) of it first, and start them again after the replay; one that "
                f"was killed counts for {settings.ingest.session_timeout_s:g} s more"
            )
        if time.monotonic() > deadline:
            raise ReplayError(f"another replay holds the group {group}: wait for it")
        time.sleep(LOOK_S)


def _members(admin: AdminClient, group: str, kafka: Kafka) -> list[Any]:
    try:
        found = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise ReplayError(f"cannot ask for the members of {group}: {bus.said(error, kafka)}") from error
    return list(found.members)


def _member(settings: Settings) -> Consumer:
    ingest = settings.ingest
    return bus.consumer(
        settings.kafka,
        ingest.group,
        {
            "client.id": CLIENT_ID,
            "max.poll.interval.ms": NO_POLL_MS,
            "session.timeout.ms": int(ingest.session_timeout_s * 1000),
            "heartbeat.interval.ms": int(ingest.session_timeout_s * 1000 / 5),
            "auto.offset.reset": "latest",
            "allow.auto.create.topics": False,
            "log_level": 0,
        },
    )


def _join(consumer: Consumer, group: str, partitions: Sequence[Partition]) -> None:
    """Take all partitions and read none of them."""
    got: set[Partition] = set()

    def assigned(consumer: Consumer, found: list[TopicPartition]) -> None:
        consumer.incremental_assign(found)
        consumer.pause(found)
        got.update(Partition(item.topic, item.partition) for item in found)

    consumer.subscribe(sorted({where.topic for where in partitions}), on_assign=assigned)
    deadline = time.monotonic() + JOIN_S
    while not got.issuperset(partitions):
        consumer.poll(0.2)
        if (got and not got.issuperset(partitions)) or time.monotonic() > deadline:
            raise ReplayError(
                f"somebody else is in the group {group}: stop every `warpmeter ingest` and every other replay of it"
            )

"""The ledger in the consumer group itself: committed offset and its metadata, written synchronously.

The broker refuses the commit of a member that is no longer one. One gap is closed here: a client that finds its
session over commits as nobody, and an empty group takes that; so the member id must be the same before and after.

For the thread that polls only: the client lets one thread in at a time, and is busy for as long as a poll takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from warpmeter.consumers.ledger import (
    Declared,
    Done,
    Entry,
    Fatal,
    Fenced,
    LedgerError,
    Outcome,
    Retry,
    Settled,
    decode,
    encode,
)
from warpmeter.consumers.span import Partition

TIMEOUT_S: Final = 10.0

FENCED: Final = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
    }
)
FATAL: Final = frozenset(
    {
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.INVALID_COMMIT_OFFSET_SIZE,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_GROUP_ID,
        KafkaError._INVALID_ARG,
        KafkaError._FATAL,
        KafkaError._AUTHENTICATION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)


def classified(error: KafkaError) -> Outcome:
    """A commit's error as an outcome; what is neither fenced nor fatal is tried again."""
    if error.code() in FENCED:
        return Fenced(error.str())
    if error.code() in FATAL or error.fatal():
        return Fatal(f"the broker refuses the commit: {error.str()}")
    return Retry(f"the commit failed: {error.str()}")


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    rank = {Done: 0, Retry: 1, Fenced: 2, Fatal: 3}
    return max(outcomes, key=lambda outcome: rank[type(outcome)], default=Done())


class KafkaLedger:
    """Records as the committed offsets of `consumer`'s group, through that very consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._proven = False

    def recall(self, partitions: Iterable[Partition]) -> Mapping[Partition, Entry]:
        wanted = [TopicPartition(where.topic, where.number) for where in partitions]
        try:
            found = self._consumer.committed(wanted, timeout=TIMEOUT_S)
        except KafkaException as error:
            raise LedgerError(f"cannot read the group's offsets: {error.args[0].str()}; is the broker up?") from error
        if wrong := next((item.error for item in found if item.error), None):
            raise LedgerError(f"cannot read the group's offsets: {wrong.str()}") from KafkaException(wrong)
        places = {Partition(item.topic, item.partition): item for item in found if item.offset >= 0}
        return {where: decode(where, item.offset, item.metadata) for where, item in places.items()}

    def declare(self, entries: Sequence[Declared]) -> Outcome:
        outcome = self._commit(entries)
        if isinstance(outcome, Done) and entries and not self._proven:
            return self._prove(entries[0])
        return outcome

    def settle(self, entries: Sequence[Settled]) -> Outcome:
        return self._commit(entries)

    def _commit(self, entries: Sequence[Declared | Settled]) -> Outcome:
        member = self._consumer.memberid()
        if not member:
            return Fenced("not a member of the group at this moment")
        offsets = [TopicPartition(entry.where.topic, entry.where.number, *encode(entry)) for entry in entries]
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            return classified(error.args[0])
        if self._consumer.memberid() != member:
            return Fenced("the group was left while committing")
        return _worst([classified(item.error) for item in done or () if item.error])

    def _prove(self, entry: Declared) -> Outcome:
        """After the first declare: does the broker give back what it was given?"""
        try:
            kept = self.recall([entry.where]).get(entry.where)
        except LedgerError as error:
            return Retry(str(error))
        if kept != Declared(entry.span, round(entry.at, 3), entry.rejects):
            return Fatal("this broker keeps no commit metadata; set ingest.ledger_dir, a folder for the ledger's file")
        self._proven = True
        return Done()

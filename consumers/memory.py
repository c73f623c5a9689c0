"""A broker in memory: topics with lives, retention, and one consumer group that a test moves partitions in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from confluent_kafka import KafkaError

from warpmeter.consumers.broker import Member
from warpmeter.consumers.message import Given, Headers, Message
from warpmeter.consumers.span import Partition


@dataclass
class Log:
    """One partition: messages from offset `earliest` on."""

    messages: list[Given] = field(default_factory=list)
    earliest: int = 0


@dataclass(frozen=True)
class Event:
    """An error in place of a message, as confluent-kafka gives it."""

    where: Partition
    code: int

    def topic(self) -> str:
        return self.where.topic

    def partition(self) -> int:
        return self.where.number

    def offset(self) -> int:
        return -1

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return None

    def headers(self) -> Headers | None:
        return None

    def error(self) -> object | None:
        return KafkaError(self.code)


class MemoryTopics:
    """The broker's side, shared by all members: logs and ids."""

    def __init__(self) -> None:
        self.logs: dict[Partition, Log] = {}
        self.ids: dict[str, str] = {}
        self._lives = 0

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic, or make it again: a new id, and offsets from 0."""
        self._lives += 1
        self.ids[topic] = str(UUID(int=self._lives))
        for where in [where for where in self.logs if where.topic == topic]:
            del self.logs[where]
        self.logs |= {Partition(topic, number): Log() for number in range(partitions)}

    def delete(self, topic: str) -> None:
        """The topic is no more."""
        del self.ids[topic]
        for where in [where for where in self.logs if where.topic == topic]:
            del self.logs[where]

    def produce(self, where: Partition, value: bytes | None, headers: Headers | None) -> int:
        """Append a message; returns its offset."""
        log = self.logs[where]
        offset = log.messages[-1].offset() + 1 if log.messages else log.earliest
        log.messages.append(Given(where.topic, where.number, offset, value, headers, b"key"))
        return offset

    def retain_from(self, where: Partition, earliest: int) -> None:
        """Forget messages before offset `earliest`."""
        log = self.logs[where]
        log.earliest = earliest
        log.messages = [message for message in log.messages if message.offset() >= earliest]


class MemoryBroker:
    """One member. `give` and `take` queue a rebalance, which its next poll delivers."""

    def __init__(self, topics: MemoryTopics) -> None:
        self._topics = topics
        self._member: Member | None = None
        self._changes: list[tuple[str, list[Partition]]] = []
        self.positions: dict[Partition, int | None] = {}
        self.paused: set[Partition] = set()
        self.polls = 0
        self.closed = False

    def subscribe(self, topics: Sequence[str], member: Member) -> None:  # noqa: ARG002
        self._member = member

    def give(self, partitions: Iterable[Partition]) -> None:
        """Assign partitions at the next poll."""
        self._changes.append(("assigned", list(partitions)))

    def take(self, partitions: Iterable[Partition], lost: bool = False) -> None:
        """Revoke partitions (or tell that they are lost) at the next poll."""
        self._changes.append(("lost" if lost else "revoked", list(partitions)))

    def _rebalance(self) -> None:
        while self._changes and self._member is not None:
            kind, partitions = self._changes.pop(0)
            if kind == "assigned":
                self.positions |= self._member.assigned(partitions)
                continue
            self._member.revoked(partitions, kind == "lost")
            for where in partitions:
                self.positions.pop(where, None)

    def poll(self, limit: int, timeout_s: float) -> Sequence[Message]:  # noqa: ARG002
        self.polls += 1
        self._rebalance()
        found: list[Message] = []
        for where in [where for where in self.positions if where not in self.paused]:
            found += self._fetch(where, limit - len(found))
        return found

    def _fetch(self, where: Partition, limit: int) -> list[Message]:
        log = self._topics.logs.get(where)
        if log is None:
            return []
        position = self.positions[where]
        end = log.messages[-1].offset() + 1 if log.messages else log.earliest
        position = log.earliest if position is None else position
        if not log.earliest <= position <= end:
            return [Event(where, KafkaError._AUTO_OFFSET_RESET)]
        found = [message for message in log.messages if message.offset() >= position][:limit]
        self.positions[where] = found[-1].offset() + 1 if found else position
        return list(found)

    def seek(self, where: Partition, offset: int | None) -> None:
        self.positions[where] = offset

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused -= set(partitions)

    def earliest(self, where: Partition) -> int:
        return self._topics.logs[where].earliest

    def latest(self, where: Partition) -> int:
        return self.end(where) or self.earliest(where)

    def end(self, where: Partition) -> int | None:
        log = self._topics.logs.get(where)
        return None if log is None or not log.messages else log.messages[-1].offset() + 1

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        return {topic: self._topics.ids[topic] for topic in topics if topic in self._topics.ids}

    def close(self) -> None:
        """Leave; what was queued is delivered before, as the real client does from within its close."""
        self.closed = True
        self._rebalance()
        if self._member is not None and self.positions:
            self._member.revoked(list(self.positions), False)

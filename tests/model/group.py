"""A consumer group with the rules of Apache Kafka's classic protocol, and its members as ports of the loop.

A commit needs a live member id and the group's generation, and only these: which partitions it is for nobody checks.
An empty group takes commits of nobody. A member whose session is over learns of it at its next poll: until then it
goes on with what it holds. Partitions move cooperatively: the old owner gives them up at its poll, then the new one
takes them at its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError

from tests.model.fibers import pause
from warpmeter.consumers.broker import BrokerError, Member
from warpmeter.consumers.ledger import (
    Declared,
    Done,
    Entry,
    Fenced,
    LedgerError,
    Outcome,
    Retry,
    Settled,
    decode,
    encode,
)
from warpmeter.consumers.memory import Event, MemoryTopics
from warpmeter.consumers.message import Message
from warpmeter.consumers.span import Partition

# A poll brings so many messages of a partition at most: fewer than a batch may have.
FETCH: Final = 3


@dataclass
class Group:
    """The broker's side. `members` are the live ids with the generation that each knows."""

    topics: MemoryTopics
    records: dict[Partition, tuple[int, str]] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    owners: dict[Partition, str] = field(default_factory=dict)
    targets: dict[Partition, str] = field(default_factory=dict)
    generation: int = 0
    shift: int = 0
    up: bool = True
    nobody_wrote: bool = False
    _joined: int = 0

    def join(self) -> str:
        """A new member."""
        self._joined += 1
        name = f"member-{self._joined}"
        self.members[name] = self.generation
        self.rebalance(self.shift)
        return name

    def leave(self, name: str) -> None:
        """Its session is over, or it said goodbye: its partitions are free."""
        if self.members.pop(name, None) is not None:
            self.owners = {where: owner for where, owner in self.owners.items() if owner != name}
            self.rebalance(self.shift)

    def rebalance(self, shift: int) -> None:
        """Share the partitions anew, beginning `shift` members further."""
        self.generation += 1
        self.shift = shift
        names = list(self.members)
        wheres = sorted(self.topics.logs)
        self.targets = {where: names[(place + shift) % len(names)] for place, where in enumerate(wheres) if names}

    def free(self, name: str, partitions: Sequence[Partition]) -> None:
        """A member gives partitions back, if they are its own yet."""
        for where in partitions:
            if self.owners.get(where) == name:
                del self.owners[where]

    def free_for(self, name: str) -> list[Partition]:
        """Partitions that a member may take now."""
        return [where for where in sorted(self.targets) if self.targets[where] == name and where not in self.owners]

    def refusal(self, name: str, generation: int) -> Outcome | None:
        """Why a commit is not taken, None when it is."""
        if not self.up:
            return Retry("no coordinator")
        if name not in self.members:
            return Fenced("unknown member id")
        if generation != self.generation:
            return Fenced("illegal generation")
        return None


class GroupMember:
    """One process's client: the Broker and the Ledger of its loop. `polled` is told of each poll."""

    def __init__(self, group: Group, polled: Callable[[], None]) -> None:
        self._group = group
        self._polled = polled
        self._member: Member | None = None
        self.name = ""
        self.generation = 0
        self._positions: dict[Partition, int | None] = {}
        self._lives: dict[Partition, str] = {}
        self._owned: set[Partition] = set()
        self._paused: set[Partition] = set()
        self.losing_reply = False
        self.failing_commit = False
        self.ending_session = False

    # The Broker.

    def subscribe(self, topics: Sequence[str], member: Member) -> None:  # noqa: ARG002
        self._member = member

    def poll(self, limit: int, timeout_s: float) -> Sequence[Message]:  # noqa: ARG002
        pause("poll")
        self._polled()
        if self._group.up:
            self._rebalance()
        found: list[Message] = []
        for where in sorted(self._positions.keys() - self._paused) if self._group.up else ():
            found += self._fetch(where, limit - len(found))
        return found

    def _rebalance(self) -> None:
        assert self._member is not None
        if self.name not in self._group.members:
            if lost := sorted(self._owned):
                self._give_up(lost, lost=True)
            self.name = self._group.join()
        self.generation = self._group.members[self.name] = self._group.generation
        if going := [where for where in sorted(self._owned) if self._group.targets.get(where) != self.name]:
            self._give_up(going, lost=False)
            self._group.free(self.name, going)
        if coming := self._group.free_for(self.name):
            self._group.owners.update(dict.fromkeys(coming, self.name))
            self._owned |= set(coming)
            self._positions |= self._member.assigned(coming)

    def _give_up(self, partitions: Sequence[Partition], lost: bool) -> None:
        assert self._member is not None
        self._member.revoked(partitions, lost)
        self._owned -= set(partitions)
        self._paused -= set(partitions)
        for where in partitions:
            self._positions.pop(where, None)
            self._lives.pop(where, None)

    def _fetch(self, where: Partition, limit: int) -> list[Message]:
        """Of a topic that was made again it reads on, as long as it can: then only an error says so."""
        if (log := self._group.topics.logs.get(where)) is None:
            return []
        position = log.earliest if (at := self._positions[where]) is None else at
        end = log.messages[-1].offset() + 1 if log.messages else log.earliest
        uuid = self._group.topics.ids[where.topic]
        other = self._lives.setdefault(where, uuid) != uuid
        if not log.earliest <= position <= end or (other and position == end):
            return [Event(where, KafkaError._AUTO_OFFSET_RESET)]
        found = [message for message in log.messages if message.offset() >= position][: min(limit, FETCH)]
        self._positions[where] = found[-1].offset() + 1 if found else position
        return list(found)

    def seek(self, where: Partition, offset: int | None) -> None:
        self._lives.pop(where, None)
        self._positions[where] = offset

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._paused |= set(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._paused -= set(partitions)

    def _ask(self, what: str) -> None:
        pause(what)
        if not self._group.up:
            raise BrokerError(f"cannot ask: {what}")

    def earliest(self, where: Partition) -> int:
        self._ask("earliest")
        if where not in self._group.topics.logs:
            raise BrokerError(f"no {where}")
        return self._group.topics.logs[where].earliest

    def latest(self, where: Partition) -> int:
        return self.end(where) or self.earliest(where)

    def end(self, where: Partition) -> int | None:
        log = self._group.topics.logs.get(where)
        return None if log is None or not log.messages else log.messages[-1].offset() + 1

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        self._ask("topic ids")
        return {topic: self._group.topics.ids[topic] for topic in topics if topic in self._group.topics.ids}

    def close(self) -> None:
        pause("close")
        if self._owned:
            self._give_up(sorted(self._owned), lost=self.name not in self._group.members)
        self._group.leave(self.name)

    # The Ledger.

    def recall(self, partitions: Iterable[Partition]) -> Mapping[Partition, Entry]:
        pause("recall")
        if not self._group.up:
            raise LedgerError("no coordinator")
        records = self._group.records
        return {where: decode(where, *records[where]) for where in partitions if where in records}

    def declare(self, entries: Sequence[Declared]) -> Outcome:
        return self._commit("declare", entries)

    def settle(self, entries: Sequence[Settled]) -> Outcome:
        return self._commit("settle", entries)

    def _commit(self, what: str, entries: Sequence[Declared | Settled]) -> Outcome:
        if not self.name:
            return Fenced("not a member of the group at this moment")
        pause(what)
        group, nobody = self._group, self.ending_session
        if self.ending_session:
            self.ending_session = False
            group.leave(self.name)
        refused = group.refusal(self.name, self.generation)
        if self.failing_commit:
            self.failing_commit = False
            refused = refused or Retry("request timed out")
        if refused is None or (nobody and not group.members):
            # What is deleted takes no commits.
            kept = {entry.where: encode(entry) for entry in entries if entry.where in group.topics.logs}
            group.records |= kept
            group.nobody_wrote |= nobody
            refused = refused or (None if len(kept) == len(entries) else Retry("unknown topic or partition"))
        if refused is None and self.losing_reply:
            self.losing_reply = False
            return Retry("no reply")
        return refused or Done()

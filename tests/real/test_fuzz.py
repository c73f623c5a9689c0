"""Mutated messages among good ones, through the whole consumer into the real engine.

Every message is in its table, whole and once, or in the dead letters, once and with its bytes; which of the two is
checked by Protobuf's own parser and by the engine, asked about that message alone. The same seed makes the same
messages. `make test` throws 10,000, which CI does, too; `make fuzz` 100,000 more.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests import fuzz, mutants
from tests.ingest_world import HandClock, Inline
from warpmeter import wire
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import MemoryLedger
from warpmeter.consumers.letters import MemoryLetters
from warpmeter.consumers.loop import Loop
from warpmeter.consumers.memory import MemoryBroker, MemoryTopics
from warpmeter.consumers.message import Given
from warpmeter.consumers.sink import Landed, Refused
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.consumers.span import Partition, Span
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Ingest
from warpmeter.store import Client

pytestmark = pytest.mark.long

RAW: Final = tuple(TOPICS.values())
NAMES: Final = {topic.full_name("fuzz"): topic for topic in RAW}
SEED: Final = 20_260_101
ASKED_AGAIN: Final = 0.1


@dataclass
class Lab:
    """The consumer on a broker in memory and a real engine."""

    client: Client
    topics: MemoryTopics = field(default_factory=MemoryTopics)

    def __post_init__(self) -> None:
        tables = {name: topic.table for name, topic in NAMES.items()}
        self.sink = ClickHouse(lambda: self.client, NAMES, tables)
        alone = {name: f"{topic.table}_alone" for name, topic in NAMES.items()}
        self._alone = ClickHouse(lambda: self.client, NAMES, alone)
        for topic in RAW:
            self.client.command(f"CREATE TABLE IF NOT EXISTS {topic.table}_alone AS {topic.table} ENGINE = Memory")

    def ingest(self, topic: Topic, sent: Sequence[mutants.Sent], batch_rows: int) -> MemoryLetters:
        """All of `sent` through a loop; the letters that it wrote."""
        name = topic.full_name("fuzz")
        where = Partition(name, 0)
        self.topics.create(name)
        for message in sent:
            self.topics.produce(where, message.value, message.headers)
        letters, broker, clock = MemoryLetters(), MemoryBroker(self.topics), HandClock()
        worker: Executor = Inline()
        ports = Ports(broker, MemoryLedger(), self.sink, self.sink, letters, clock)
        ingest = Ingest(batch_rows=batch_rows, reject_share=1.0, batch_age_s=1.0)
        loop = Loop(ports, ingest, {name: topic}, worker, "fuzz")
        broker.give([where])
        for _ in range(20 + len(sent)):
            loop.step()
            clock.time += 0.2
            if loop.read(where) == len(sent):
                break
        told = [wire.unpack(TOPICS[each.topic], each.value) for each in letters.sent if each.topic == "source-health"]
        assert loop.drain(600.0), f"{topic.name}: stuck at {loop.read(where)} of {len(sent)}: {told}"
        return letters

    def rows_alone(self, topic: Topic, value: bytes, fields: Sequence[FieldDescriptor]) -> list[fuzz.Row]:
        """What the engine makes of one message by itself."""
        name, table = topic.full_name("fuzz"), f"{topic.table}_alone"
        batch = Batch(Span(name, "alone", 0, 0, 0), [Given(name, 0, 0, value)], [value], [1])
        assert self._alone.insert(batch) == Landed(), (topic.name, value)
        found = fuzz.selected(self.client, table, fields)
        self.client.command(f"TRUNCATE TABLE {table}")
        return found


@dataclass
class Outcome:
    """What came of one stream of messages."""

    topic: Topic
    sent: Sequence[mutants.Sent]
    rejects: dict[int, Any]

    def check(self, lab: Lab, rng: Random) -> None:
        """Nothing vanished, nothing was invented, and each verdict is right."""
        self._letters_are_as_sent()
        fields = [*fuzz.columns(self.topic)[:2], *rng.sample(fuzz.columns(self.topic), 5)]
        assert fuzz.selected(lab.client, self.topic.table, fields) == sorted(self._kept_rows(lab, fields))
        for place, letter in self.rejects.items():
            self._rightly_refused(lab, place, letter.reason, rng.random() < ASKED_AGAIN)

    def _letters_are_as_sent(self) -> None:
        for place, letter in self.rejects.items():
            assert letter.value == (self.sent[place].value or b""), place
            assert letter.reason

    def _kept_rows(self, lab: Lab, fields: Sequence[FieldDescriptor]) -> list[fuzz.Row]:
        kept = [place for place in range(len(self.sent)) if place not in self.rejects]
        wronged = [reject.reason for place, reject in self.rejects.items() if self.sent[place].kind == "good"]
        assert not wronged
        return [row for place in kept for row in self._rows(lab, place, fields)]

    def _rows(self, lab: Lab, place: int, fields: Sequence[FieldDescriptor]) -> list[fuzz.Row]:
        """By Protobuf; of what is not written as Protobuf writes it, what the engine makes of that message alone."""
        message = self.sent[place]
        found = fuzz.decoded(self.topic, message.value)
        if found is None or not fuzz.plain(self.topic, message.value or b"", found):
            return lab.rows_alone(self.topic, message.value or b"", fields)
        assert honest(self.topic, message, len(found)), (place, message)
        return [fuzz.shown(row, fields) for row in found]

    def _rightly_refused(self, lab: Lab, place: int, reason: str, ask: bool) -> None:
        """What Protobuf and the headers find no fault with, the engine must have refused by itself."""
        message = self.sent[place]
        found = fuzz.decoded(self.topic, message.value)
        if found is None or not honest(self.topic, message, len(found)):
            return
        assert reason.startswith("Code: "), (place, message, reason)
        if ask:
            asked = lab.sink.ask(self.topic.full_name("fuzz"), [message.value or b""])
            assert isinstance(asked, Refused), (place, message, reason)


def honest(topic: Topic, message: mutants.Sent, rows: int) -> bool:
    """Whether the headers say what the value is; without a type it must be exactly what the schema knows."""
    said = dict(message.headers or ())
    if said.get("type") is None and not fuzz.exactly(topic, message.value or b""):
        return False
    return said.get("type") in (None, topic.message.encode()) and said.get("rows") in (None, b"%d" % rows)


@pytest.fixture
def lab(tables: Client) -> Lab:
    tables.command("SYSTEM STOP MERGES")  # they would collapse rows of `dead_letters` that are alike
    return Lab(tables)


def throw(lab: Lab, topic: Topic, stream: mutants.Stream, batch_rows: int = 5_000) -> int:
    """A stream onto one topic, checked; how many mutants there were."""
    rng = Random(f"{SEED} {topic.name} {stream}")
    sent = list(stream.of(topic, rng, RAW))
    letters = lab.ingest(topic, sent, batch_rows)
    rejects = {letter.offset: letter for letter in letters.dead}
    assert len(rejects) == len(letters.dead), "a message has two letters"
    Outcome(topic, sent, rejects).check(lab, rng)
    lab.client.command(f"TRUNCATE TABLE {topic.table}")
    return sum(message.kind != "good" for message in sent)


@pytest.mark.parametrize("topic", RAW, ids=lambda topic: topic.name)
def test_mutants_in_crowds_and_alone_land_whole_or_not_at_all(lab: Lab, topic: Topic) -> None:
    assert throw(lab, topic, mutants.Stream(150, 0.8)) > 80
    assert throw(lab, topic, mutants.Stream(1_500, 0.7, 0.01)) > 900
    assert throw(lab, topic, mutants.Stream(300, 0.02), 300) > 0


# Judging a row costs the engine time by its columns: 100,000 over all topics, fewer onto the wide ones.
THOUSANDS: Final = {
    "gpu-samples": 7, "host-samples": 7, "dead-letters": 22, "source-health": 22, "capture-requests": 3,
    "capture-commands": 3, "capture-events": 3, "capture-schedules": 3,
    "alerts": 3, "alert-words": 3, "report-events": 3,
}  # fmt: skip


LEAST: Final = 900
"""Mutants of a chunk, at least."""


def chunks_of(topic: Topic) -> int:
    return THOUSANDS.get(topic.name, 12)


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("topic", RAW, ids=lambda topic: topic.name)
def test_a_hundred_thousand_mutants_land_whole_or_not_at_all(lab: Lab, topic: Topic) -> None:
    assert sum(map(chunks_of, RAW)) * LEAST > 100_000
    for chunk in range(chunks_of(topic)):
        assert throw(lab, topic, mutants.Stream(1_300 + chunk, 0.8, 0.04)) > LEAST

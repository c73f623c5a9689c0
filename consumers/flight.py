"""A flight: the batches that go in together, one a partition, from the topic's id to the last insert.

The order is the promise: the topic is still the one that was read; verdicts are known; rejects are acknowledged by
the dead letters; the spans are declared, all in one commit; each batch is inserted under its span's token.
Every step may be done again.
"""

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from warpmeter import selfmetrics
from warpmeter.clock import Clock
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.broker import Broker, BrokerError
from warpmeter.consumers.judge import Budget, judge
from warpmeter.consumers.ledger import Declared, Done, Fatal, Fenced, Ledger, Outcome, Retry, Settled, fits
from warpmeter.consumers.letters import Letters, dead_letters
from warpmeter.consumers.sink import Away, Broken, History, Landed, Refused, Sink
from warpmeter.consumers.span import Partition

ROWS = selfmetrics.counter("warpmeter_ingest_rows_total")
BYTES = selfmetrics.counter("warpmeter_ingest_bytes_total")
SPANS = selfmetrics.counter("warpmeter_ingest_spans_total")
SECONDS = selfmetrics.histogram("warpmeter_ingest_insert_seconds")
REJECTS = selfmetrics.counter("warpmeter_ingest_rejects_total")


class Hold:
    """That a partition is held, until it is given up; nothing is declared or inserted for one that was."""

    def __init__(self) -> None:
        self.given_up = False


@dataclass
class Flight:
    """Batches under way, one a partition, with the holds they depend on.

    `landed` are done; `returned` were split off and are to fly later, before anything newer.
    """

    batches: list[Batch]
    holds: Mapping[Partition, Hold]
    landed: list[Batch] = field(default_factory=list)
    returned: list[Batch] = field(default_factory=list)
    declared_at: float | None = None
    counted: set[Partition] = field(default_factory=set)
    spent: dict[Partition, frozenset[int]] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """What its batches hold in memory, about."""
        return sum(batch.memory_bytes for batch in (*self.batches, *self.returned))

    def of(self, where: Partition) -> bool:
        """Whether a batch of this partition is still under way."""
        return any(batch.span.where == where for batch in self.batches)

    def drop_given_up(self) -> None:
        """Leave out the batches of partitions that were given up."""
        self.batches = [batch for batch in self.batches if not self.holds[batch.span.where].given_up]


@dataclass(frozen=True)
class Flown:
    """Nothing is under way any more."""


@dataclass(frozen=True)
class Halt:
    """The consumer must stop, and somebody must act; `why` says what happened and what to do."""

    why: str


@dataclass(frozen=True)
class OtherTopic:
    """These topics are not the ones whose messages are in the batches: deleted, or made again."""

    topics: frozenset[str]


Report = Flown | Away | Fenced | Halt | OtherTopic


@dataclass(frozen=True)
class Ports:
    """All that ingest touches of the world."""

    broker: Broker
    ledger: Ledger
    sink: Sink
    history: History
    letters: Letters
    clock: Clock


class Pilot:
    """Flies flights over the ports.

    `redeclare_after_s`: a declare older than that is written again before an insert, for the member may have slept.
    """

    def __init__(self, ports: Ports, budget: Budget, redeclare_after_s: float) -> None:
        self._broker = ports.broker
        self._ledger = ports.ledger
        self._sink = ports.sink
        self._letters = ports.letters
        self._clock = ports.clock
        self._redeclare_after_s = redeclare_after_s
        self._budget = budget
        self._commits = threading.Lock()

    def give_up(self, holds: Iterable[Hold]) -> None:
        """From now on no commit is written for them: a broker takes one for any partition from any member."""
        with self._commits:
            for hold in holds:
                hold.given_up = True

    def settle(self, entries: Iterable[tuple[Settled, Hold]]) -> Outcome:
        """Settle those that are still held."""
        with self._commits:
            held = [entry for entry, hold in entries if not hold.given_up]
            return self._ledger.settle(held) if held else Done()

    def attempt(self, flight: Flight) -> Report:
        """Bring the flight as far as it goes; after Away and Fenced the same flight may be tried again."""
        while True:
            flight.drop_given_up()
            if not flight.batches:
                return Flown()
            if not self._declared(flight) and (report := self._prepare(flight)) is not None:
                return report
            if (report := self._insert_next(flight)) is not None:
                return report

    def _declared(self, flight: Flight) -> bool:
        age = None if flight.declared_at is None else self._clock.monotonic() - flight.declared_at
        return age is not None and age <= self._redeclare_after_s

    def _prepare(self, flight: Flight) -> Report | None:
        steps = (self._same_topics, self._judge_doubts, self._spend, self._send_letters, self._split, self._declare)
        return next((report for step in steps if (report := step(flight)) is not None), None)

    def _same_topics(self, flight: Flight) -> Report | None:
        """Asked after the last fetch of these batches: what was fetched before is of the same life."""
        wanted = {batch.span.topic: batch.span.uuid for batch in flight.batches}
        try:
            found = self._broker.topic_ids(wanted)
        except BrokerError as error:
            return Away(str(error))
        other = frozenset(topic for topic, uuid in wanted.items() if found.get(topic) != uuid)
        return OtherTopic(other) if other else None

    def _judge_doubts(self, flight: Flight) -> Report | None:
        for place, batch in enumerate(flight.batches):
            if batch.doubts and (report := self._judge(flight, place, sorted(batch.doubts))) is not None:
                return report
        return None

    def _judge(self, flight: Flight, place: int, indexes: list[int]) -> Report | None:
        batch = flight.batches[place]
        match judge(batch, indexes, lambda payloads: self._sink.ask(batch.span.topic, payloads)):
            case Broken(why):
                return Halt(why)
            case Away() as away:
                return away
            case judged:
                flight.batches[place] = judged
                return None

    def _spend(self, flight: Flight) -> Report | None:
        for batch in flight.batches:
            where, count = batch.span.where, len(batch.messages)
            first = where not in flight.counted
            fresh = sorted(batch.rejects.keys() - batch.acknowledged - flight.spent.get(where, frozenset()))
            flight.counted.add(where)
            flight.spent[where] = frozenset(batch.rejects)
            places = fresh if first else [index - count for index in fresh]
            if why := self._budget.spend(where.topic, count if first else 0, places):
                return Halt(f"{why} The last reason: {batch.rejects[fresh[-1]]}")
        return None

    def _send_letters(self, flight: Flight) -> Report | None:
        now = self._clock.now()
        letters = [letter for batch in flight.batches for letter in dead_letters(batch, now)]
        if letters and (why := self._letters.send(letters)):
            return Away(why)
        for place, batch in enumerate(flight.batches):
            REJECTS.labels(batch.span.topic).inc(len(batch.rejects) - len(batch.acknowledged))
            flight.batches[place] = replace(batch, acknowledged=frozenset(batch.rejects))
        return None

    def _split(self, flight: Flight) -> None:
        """A span with more rejects than a commit's metadata holds goes in parts."""
        for place, batch in enumerate(flight.batches):
            later: list[Batch] = []
            while not fits(Declared(batch.span, self._clock.now(), batch.rejected_offsets)):
                batch, rest = batch.split()
                later.append(rest)
            flight.batches[place] = batch
            flight.returned += reversed(later)

    def _declare(self, flight: Flight) -> Report | None:
        now = round(self._clock.now(), 3)
        begun = self._clock.monotonic()
        with self._commits:
            flight.drop_given_up()
            flight.batches = [replace(b, at=now if b.at is None else b.at) for b in flight.batches]
            entries = [Declared(batch.span, batch.at or now, batch.rejected_offsets) for batch in flight.batches]
            outcome = self._ledger.declare(entries) if entries else Done()
        match outcome:
            case Done():
                flight.declared_at = begun
                return None
            case Retry(why):
                return Away(why)
            case Fatal(why):
                return Halt(why)
            case Fenced() as fenced:
                return fenced

    def _insert_next(self, flight: Flight) -> Report | None:
        if not flight.batches:
            return None
        batch = flight.batches[0]
        begun = self._clock.monotonic()
        match self._sink.insert(batch) if len(batch.rejects) < len(batch.messages) else Landed():
            case Landed():
                flight.landed.append(flight.batches.pop(0))
                self._count(batch, self._clock.monotonic() - begun)
                return None
            case Refused(why):
                return self._refused(flight, why)
            case Away() as away:
                return away
            case Broken(why):
                return Halt(why)

    def _refused(self, flight: Flight, why: str) -> Report | None:
        """The bytes of the first batch are at fault: find which, and declare it again without them."""
        batch = flight.batches[0]
        if (report := self._judge(flight, 0, batch.kept)) is not None:
            return report
        if len(flight.batches[0].rejects) == len(batch.rejects):
            return Halt(
                f"the store refuses {batch.span.topic}[{batch.span.partition}] {batch.span.first}-{batch.span.last} "
                f"as a whole but each of its messages alone is accepted: {why}"
            )
        flight.declared_at = None
        return None

    @staticmethod
    def _count(batch: Batch, took_s: float) -> None:
        table = table_of(batch.span.topic)
        ROWS.labels(table).inc(batch.kept_rows)
        BYTES.labels(table).inc(batch.kept_bytes)
        SPANS.labels(table).inc()
        SECONDS.labels(table).observe(took_s)


def table_of(topic: str) -> str:
    """The raw table of a topic, by its full name."""
    return topic.rpartition(".")[2].replace("-", "_")


@dataclass
class Backoff:
    """Delays that double from `first_s` to `most_s`, each with jitter (half to one and a half)."""

    random: random.Random
    first_s: float = 0.25
    most_s: float = 15.0
    failures: int = 0

    def next_s(self) -> float:
        """The delay after one more failure."""
        delay = min(self.most_s, self.first_s * 2.0**self.failures)
        self.failures = min(self.failures + 1, 30)
        return delay * (0.5 + self.random.random())

    def reset(self) -> None:
        """It went well."""
        self.failures = 0

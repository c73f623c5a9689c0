"""A flight: the batches that go in together, one a partition, from the topic's id to the last insert.

The order is the promise: the topic is still the one that was read; verdicts are known; rejects are acknowledged by
the dead letters; the spans are declared, all in one commit; each batch is inserted under its span's token.
Every step may be done again.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from warpmeter import selfmetrics
from warpmeter.clock import Clock
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.broker import Broker, BrokerError
from warpmeter.consumers.judge import Budget, judge
from warpmeter.consumers.ledger import Declared, Done, Ledger, Outcome, fits
from warpmeter.consumers.letters import Letters, dead_letters
from warpmeter.consumers.sink import Away, Broken, History, Landed, Refused, Sink
from warpmeter.consumers.span import Partition, Span
from warpmeter.consumers.start import PLACEHOLDERS, Tool, Wrong, past_window, remedy

ROWS = selfmetrics.counter("warpmeter_ingest_rows_total")
BYTES = selfmetrics.counter("warpmeter_ingest_bytes_total")
SPANS = selfmetrics.counter("warpmeter_ingest_spans_total")
SECONDS = selfmetrics.histogram("warpmeter_ingest_insert_seconds")
REJECTS = selfmetrics.counter("warpmeter_ingest_rejects_total")


Stage = Literal["prepare", "declare", "insert"]


class Hold:
    """That a partition is held, until the loop's thread gives it up; nothing is declared or inserted for it then."""

    def __init__(self) -> None:
        self.given_up = False


@dataclass
class Flight:
    """Batches under way, one a partition, with the holds they depend on.

    `landed` are done; `returned` were split off and are to fly later, before anything newer. `orphaned` topics are no
    more: nobody can read their messages again, so theirs are inserted without a declare.
    """

    batches: list[Batch]
    holds: Mapping[Partition, Hold]
    landed: list[Batch] = field(default_factory=list)
    returned: list[Batch] = field(default_factory=list)
    orphaned: frozenset[str] = frozenset()
    stage: Stage = "prepare"
    declared_at: float | None = None
    tried: set[Span] = field(default_factory=set)
    counted: set[Partition] = field(default_factory=set)
    spent: dict[Partition, frozenset[int]] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """What its batches hold in memory, about."""
        return sum(batch.memory_bytes for batch in (*self.batches, *self.returned))

    def drop_given_up(self) -> None:
        """Leave out the batches of partitions that were given up."""
        self.batches = [batch for batch in self.batches if not self.holds[batch.span.where].given_up]


@dataclass(frozen=True)
class Flown:
    """Nothing is under way any more."""


@dataclass(frozen=True)
class Ready:
    """All is known and acknowledged: the spans may be declared."""


@dataclass(frozen=True)
class Undeclared:
    """What is declared is too old, or not the verdicts any more: prepare and declare again."""


@dataclass(frozen=True)
class Halt:
    """The consumer must stop, and somebody must act; `why` says what happened and what to do."""

    why: str


@dataclass(frozen=True)
class OtherTopic:
    """These topics are not the ones whose messages are in the batches: they were made again."""

    topics: frozenset[str]


Report = Flown | Ready | Undeclared | Away | Halt | OtherTopic


@dataclass(frozen=True)
class Ports:
    """All that ingest touches of the world."""

    broker: Broker
    ledger: Ledger
    sink: Sink
    history: History
    letters: Letters
    clock: Clock
    tool: Tool = PLACEHOLDERS


class Pilot:
    """Flies flights over the ports: `prepare` and `insert` in the worker, `declare` between them in the loop's thread.

    The Kafka client lets one thread in at a time, and for as long as a poll takes: a commit from another thread
    would wait for the poll, so commits are the loop's.

    `redeclare_after_s`: a declare older than that is written again before an insert, for the member may have slept.
    """

    def __init__(self, ports: Ports, budget: Budget, redeclare_after_s: float) -> None:
        self._broker = ports.broker
        self._ledger = ports.ledger
        self._sink = ports.sink
        self._history = ports.history
        self._letters = ports.letters
        self._clock = ports.clock
        self._tool = ports.tool
        self._redeclare_after_s = redeclare_after_s
        self._budget = budget

    def prepare(self, flight: Flight) -> Report:
        """Up to the declare: the topics are the same, every verdict is known, every reject acknowledged."""
        flight.drop_given_up()
        steps = (self._same_topics, self._judge_doubts, self._spend, self._send_letters, self._split)
        return next((report for step in steps if (report := step(flight)) is not None), Ready())

    def declare(self, flight: Flight) -> Outcome:
        """Write the intents of all batches in one commit."""
        flight.drop_given_up()
        flight.tried |= {batch.span for batch in flight.batches if batch.at is not None}
        now, flight.declared_at = round(self._clock.now(), 3), self._clock.monotonic()
        flight.batches = [replace(batch, at=now if batch.at is None else batch.at) for batch in flight.batches]
        declared = [batch for batch in flight.batches if batch.span.topic not in flight.orphaned]
        entries = [Declared(batch.span, batch.at or now, batch.rejected_offsets) for batch in declared]
        return self._ledger.declare(entries) if entries else Done()

    def insert(self, flight: Flight) -> Report:
        """Insert the declared batches, one after the other; after Away the same again."""
        while True:
            flight.drop_given_up()
            if not flight.batches:
                return Flown()
            if (report := self._look_up(flight)) is not None:
                return report
            if not flight.batches:
                continue
            if flight.declared_at is None or self._clock.monotonic() - flight.declared_at > self._redeclare_after_s:
                return Undeclared()
            if (report := self._insert_next(flight)) is not None:
                return report

    def _same_topics(self, flight: Flight) -> Report | None:
        """Asked after the last fetch of these batches: what was fetched before is of the same life."""
        wanted = {batch.span.topic: batch.span.uuid for batch in flight.batches}
        try:
            found = self._broker.topic_ids(wanted)
        except BrokerError as error:
            return Away(str(error))
        flight.orphaned = frozenset(wanted.keys() - found.keys())
        other = frozenset(topic for topic, uuid in found.items() if uuid != wanted[topic])
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

    def _look_up(self, flight: Flight) -> Report | None:
        """Before what the store may not drop: a second try, for others may have filled the window since the first; and
        what no declare fences, for another member may have inserted it in other spans."""
        match self._landed_before(flight, flight.batches[0]):
            case True:
                flight.landed.append(flight.batches.pop(0))
                return None
            case Broken(why):
                return Halt(why)
            case Away() | Halt() as report:
                return report
            case _:
                return None

    def _landed_before(self, flight: Flight, batch: Batch) -> bool | Halt | Away | Broken:
        if batch.span.topic in flight.orphaned:
            return taken_over(batch.span, self._history)
        if batch.span in flight.tried and batch.at is not None:
            found = forgotten(Declared(batch.span, batch.at), self._history, self._clock.now())
            return Halt(remedy([found], self._tool)) if isinstance(found, Wrong) else found
        return False

    def _insert_next(self, flight: Flight) -> Report | None:
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
                flight.tried.add(batch.span)
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
                f"as a whole but each of its messages alone is accepted: {why}. Nothing of it is stored and nothing is "
                "lost: mend what the store says, or lower ingest.batch_rows if it is a matter of size, and start "
                "`warpmeter ingest` again, which goes on from there"
            )
        return Undeclared()

    @staticmethod
    def _count(batch: Batch, took_s: float) -> None:
        table = table_of(batch.span.topic)
        ROWS.labels(table).inc(batch.kept_rows)
        BYTES.labels(table).inc(batch.kept_bytes)
        SPANS.labels(table).inc()
        SECONDS.labels(table).observe(took_s)


def forgotten(pending: Declared, history: History, now: float) -> bool | Wrong | Away | Broken:
    """Whether a declared span is past the store's window and has landed; False: insert it. Wrong: nobody knows."""
    since = history.inserts_since(pending.at)
    if isinstance(since, Away | Broken):
        return since
    if not past_window(pending, now, since):
        return False
    landed = history.landed(pending.span)
    if landed is not False:
        return landed
    span = pending.span
    return Wrong(
        span.where,
        f"{span.where} was to insert {span.first}-{span.last} so long ago that the store may have forgotten whether "
        "it did, and ingest_batches has no such row: look whether the table has rows of that time",
        span.last + 1,
        f"set the group's offset with Kafka's own tools to {span.last + 1} if it has, and to {span.first} if not (then "
        "they are inserted anew)",
    )


def taken_over(span: Span, history: History) -> bool | Away | Broken:
    """Whether offsets of this span have landed in another one."""
    lasts = history.last(span.topic, span.uuid)
    if isinstance(lasts, Away | Broken):
        return lasts
    if lasts.get(span.partition, -1) < span.first:
        return False
    landed = history.landed(span)
    return landed if isinstance(landed, Away | Broken) else not landed


def table_of(topic: str) -> str:
    """The raw table of a topic, by its full name."""
    return topic.rpartition(".")[2].replace("-", "_")


@dataclass
class Backoff:
    """Delays that double from `first_s` to `most_s`, each with jitter (half to one and a half)."""

    first_s: float = 0.25
    most_s: float = 15.0
    failures: int = 0

    def next_s(self) -> float:
        """The delay after one more failure."""
        delay = min(self.most_s, self.first_s * 2.0**self.failures)
        self.failures = min(self.failures + 1, 30)
        return delay * (0.5 + random.random())

    def reset(self) -> None:
        """It went well."""
        self.failures = 0

"""`warpmeter replay`: land a time range of a topic again from Kafka, once in the raw table and every rollup."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, Protocol

from confluent_kafka.admin import OffsetSpec

from warpmeter import bus, schema_lock, store
from warpmeter.clock import SystemClock
from warpmeter.cluster import shard
from warpmeter.consumers import status
from warpmeter.consumers.broker import KafkaBroker
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import Declared, Foreign, Settled
from warpmeter.consumers.letters import KafkaLetters, Letters
from warpmeter.consumers.replay import book, rollups, totals
from warpmeter.consumers.replay.compare import Hour, Standing, compared, loss, standing
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hold import Place, Records, held, looked_at
from warpmeter.consumers.replay.hours import HOUR_S, Range, said
from warpmeter.consumers.replay.landing import Chunk, Mover, Tables, insert
from warpmeter.consumers.replay.letterbox import unknown
from warpmeter.consumers.replay.load import Counted, Loader, Reader, Target, Within
from warpmeter.consumers.replay.offsets import SLACK_S, Held, Landed, Piece, gone, pieces
from warpmeter.consumers.replay.pending import Finisher, named, waiting
from warpmeter.consumers.replay.rollups import BOOK
from warpmeter.consumers.replay.staging import Run, Staging, Unfinished
from warpmeter.consumers.shape import looker
from warpmeter.consumers.sink import Away, Broken
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import WINDOW_S, Tool, plan, remedy, wrong
from warpmeter.registry import RegistryError, configured
from warpmeter.schemas.topics import Topic
from warpmeter.settings import Kafka, Settings

DAY_S: Final = 86_400
BOOKED_TRIES: Final = 5
PATIENCE_S: Final = 3600
"""A deletion writes the day's parts anew, and may take its time."""


@dataclass(frozen=True)
class Asked:
    """What to replay. `allow_loss`: also when rows that the tables hold are not in the topic any more; `dry_run`:
    change nothing, and let ingest work meanwhile."""

    topic: Topic
    wanted: Range
    allow_loss: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Outcome:
    """What was (or would be) done: `hours` as they were before, `after` as they are now, how many rows landed (or
    would), how many messages have rows in the range, and how many among them were refused.

    `finished` are replays that had been interrupted and were brought to their end. `done`: rows were landed, by this
    replay or by a finished one that covers its range. `left_out` are hours that a dry run could not compare, for ingest
    landed rows of them while it looked.
    """

    topic: str
    start: str
    end: str
    done: bool
    hours: tuple[Hour, ...] = ()
    rows: int = 0
    messages: int = 0
    rejected: int = 0
    finished: tuple[str, ...] = ()
    after: tuple[Standing, ...] = ()
    left_out: tuple[str, ...] = ()


class Told(Protocol):
    """Who watches, and decides."""

    def stage(self, what: str, steps: int = 0) -> None:
        """Something begins that has so many steps."""

    def step(self, steps: int) -> None:
        """So many are done."""

    def confirm(self, hours: Sequence[Hour], counted: Counted) -> bool:
        """Whether to go on: from here on rows are deleted."""


@dataclass(frozen=True)
class Source:
    """The topic as it is on the broker."""

    name: str
    uuid: str
    partitions: tuple[Partition, ...]


def replay(settings: Settings, asked: Asked, told: Told, now: Callable[[], float] = time.time) -> Outcome:
    """Do it; run it again after whatever went wrong. Raises ReplayError, and ClickHouseError and KafkaException of
    stores and brokers that do not answer."""
    with closing(store.connect(settings.store, patience_s=PATIENCE_S)) as client:
        work = _Work(settings, client, asked, told, now)
        source = work.source()
        if asked.dry_run:
            return work.look(source)
        told.stage(f"taking the place of ingest in {settings.ingest.group}")
        with held(settings, source.partitions) as place:
            _refuse_migration(client)
            return work.run(source, place)


def _refuse_migration(client: store.Client) -> None:
    """It looks for members of the group under its lock, and we, being one, for the lock: the second sees the first."""
    for by, half_done in client.query(schema_lock.AT_WORK).result_rows:
        raise ReplayError(schema_lock.half_done(by) if half_done else f"a migration is at work ({by}): wait for it")


def unfinished(client: store.Client, settings: Settings) -> list[Unfinished]:
    """Replays that deleted rows, or were about to, and have not brought all of them back: run them again."""
    return [found for found in Staging(client, settings.store).found() if found.stage != "loading"]


class _Work:
    """One call of `replay`."""

    def __init__(
        self, settings: Settings, client: store.Client, asked: Asked, told: Told, now: Callable[[], float]
    ) -> None:
        self._settings, self._client, self._asked, self._told, self._now = settings, client, asked, told, now
        self._staging = Staging(client, settings.store)
        self._booked: Mapping[int, Sequence[Landed]] = {}
        self._read: Sequence[Piece] = ()
        self._held: Sequence[Held] = ()
        self._raw, self._rollups = rollups.read(client, settings.store, asked.topic.table)

    def source(self) -> Source:
        name = self._asked.topic.full_name(self._settings.kafka.topic_prefix)
        ids, partitions = status.described(bus.admin(self._settings.kafka), [name])
        if name not in ids:
            raise ReplayError(
                f"there is no topic {name} at {self._settings.kafka.bootstrap_servers}: kafka.topic_prefix names it"
            )
        return Source(name, ids[name], tuple(sorted(partitions)))

    # --- looking ---------------------------------------------------------------------------------------------------

    def look(self, source: Source) -> Outcome:
        """What a replay would do; of the hours that ingest lands rows of meanwhile it says nothing."""
        run = replace(self._new(), dry=True)
        self._staging.make(run, self._raw)
        try:
            counted = self._load(run, source, looked_at(self._settings, source.partitions))
            hours = self._compared(run)
            since = self._landed_since(source)
        finally:
            self._staging.drop(run, "loading")
        moved = [hour for hour in hours if any(each.touches(Range(hour.start, hour.start + HOUR_S)) for each in since)]
        still = tuple(hour for hour in hours if hour not in moved)
        outcome = self._outcome(False, still, counted, tuple(str(found) for found in self._of_table()))
        return replace(outcome, left_out=tuple(said(hour.start) for hour in moved))

    def _landed_since(self, source: Source) -> list[Landed]:
        """Spans beyond what was read, of which rows may be in the table that was compared: those in the book, and those
        that are declared and do not come to be in it, whose times nobody knows."""
        ends = {place.where.number: place.end for place in self._held}
        for attempt in range(BOOKED_TRIES):
            declared = waiting(looked_at(self._settings, source.partitions).values(), source.uuid)
            found = {
                (number, span.first): span
                for number, spans in self._spans(source, min(ends.values(), default=0)).items()
                for span in spans
                if span.last >= ends[number]
            }
            late = [
                each.span
                for each in declared
                if each.span.first >= ends[each.span.partition] and (each.span.partition, each.span.first) not in found
            ]
            if not late:
                break
            time.sleep(0.25 * 2**attempt)
        always = (float("-inf"), float("inf"))
        return [*found.values(), *(Landed(span.first, span.last, *always) for span in late)]

    def _new(self) -> Run:
        topic, wanted = self._asked.topic, self._asked.wanted
        group = self._settings.ingest.group
        return Run(uuid.uuid4().hex, topic.name, topic.table, group, wanted.start, wanted.end, round(self._now(), 3))

    def _outcome(
        self, done: bool, hours: Sequence[Hour] = (), counted: Counted | None = None, finished: tuple[str, ...] = ()
    ) -> Outcome:
        wanted, counted = self._asked.wanted, counted or Counted()
        rows = sum(hour.staged for hour in hours)
        return Outcome(
            self._asked.topic.name, said(wanted.start), said(wanted.end), done,
            tuple(hours), rows, counted.within, counted.refused, finished,
        )  # fmt: skip

    def _ended(self, outcome: Outcome, rows: int) -> Outcome:
        """An outcome with what landed, and the hours as they are now."""
        wanted = self._asked.wanted
        after = standing(self._client, self._settings.store, self._raw, self._rollups, wanted)
        return replace(outcome, rows=rows, after=tuple(after))

    def _of_table(self) -> list[Unfinished]:
        return [found for found in self._staging.found() if found.run.table == self._asked.topic.table]

    # --- doing -----------------------------------------------------------------------------------------------------

    def run(self, source: Source, place: Place) -> Outcome:
        """Finish what was interrupted, then do what is asked. Nobody else is at work, for the group is held."""
        self._finish_pending(source, place)
        finished, rows = [], 0
        for found in self._of_table():
            if found.run.group != self._settings.ingest.group:
                raise ReplayError(f"{found}; it is of the group {found.run.group}: finish it with that ingest.group")
            if found.stage == "loading":
                continue
            rows += self._finish(found, interrupted=True)
            finished.append(found.run)
        names = tuple(f"{run.topic}, {run.wanted}" for run in finished)
        if any(self._asked.wanted.inside(run.wanted) for run in finished):
            return self._ended(self._outcome(True, finished=names), rows)
        return self._replay(source, place.records(), names)

    def _replay(self, source: Source, records: Records, finished: tuple[str, ...]) -> Outcome:
        self._refuse_moved(source, records)
        run = self._new()
        self._staging.make(run, self._raw)
        try:
            hours, counted = self._prepared(run, source, records)
            sure = self._told.confirm(hours, counted)
            if sure:
                self._send(source, counted)
        except Exception:
            self._staging.drop(run, "loading")
            raise
        if not sure:
            self._staging.drop(run, "loading")
            return self._outcome(False, hours, counted, finished)
        self._staging.advance(run, "staged")
        rows = self._finish(Unfinished(run, "staged"))
        return self._ended(self._outcome(True, hours, counted, finished), rows)

    def _prepared(self, run: Run, source: Source, records: Records) -> tuple[list[Hour], Counted]:
        """All that is to land, read, judged, and held against the tables. Raises ReplayError when it must not."""
        self._refuse_letters(run)
        counted = self._load(run, source, records)
        self._keep_totals(run)
        self._mend_book(run, source)
        hours = self._compared(run)
        if not self._asked.allow_loss and (why := loss(hours)):
            raise ReplayError(f"{why}: nothing was changed. --allow-loss replays what the topic has")
        return hours, counted

    def _finish(self, found: Unfinished, interrupted: bool = False) -> int:
        """From `staged` or `landing` to the end; ingest may have been at work since one was `interrupted`. Answers how
        many rows landed."""
        run, stage = found.run, found.stage
        old = self._now() - run.began > WINDOW_S
        if stage == "landing" and old:
            self._staging.back(run)
            stage = "staged"
        if stage == "staged":
            if interrupted:
                self._mover(run).keep_late()
            run = self._staging.renew(run, round(self._now(), 3), uuid.uuid4().hex) if old else run
            self._told.stage(f"deleting {run.wanted} of {run.table} and its rollups")
            self._mover(run).delete()
            self._staging.advance(run, "landing")
        mover = self._mover(run)
        chunks = mover.chunks()
        self._told.stage(f"landing {run.wanted} of {run.table}", sum(chunk.rows for chunk in chunks))
        mover.fill(chunks, self._landed)
        self._told.stage("removing the staging table")
        self._staging.drop(run, "landing")
        return sum(chunk.rows for chunk in chunks)

    def _mover(self, run: Run) -> Mover:
        return Mover(self._client, self._settings.store, Tables(self._raw, self._rollups), run)

    def _landed(self, chunk: Chunk) -> None:
        self._told.step(chunk.rows)

    # --- what there is ---------------------------------------------------------------------------------------------

    def _of_shard(self, partition: int) -> store.Client:
        """Of the server that ingest inserts a partition into: it knows what it has."""
        place = self._settings.store
        return store.client(shard(place, partition)) if place.shards else self._client

    def _finish_pending(self, source: Source, place: Place) -> None:
        """Store what ingest had declared and not settled. Raises ReplayError."""
        pending = waiting(place.records().values(), source.uuid)
        if not pending:
            return
        self._told.stage(f"storing first what ingest had declared and not settled: {named(pending)}")
        topics, settings = {source.name: self._asked.topic}, self._settings
        tables = {source.name: settings.store.local(self._asked.topic.table)}
        sink = ClickHouse(
            lambda: self._client, topics, tables, settings.store.insert_quorum, shard=self._of_shard
        )  # fmt: skip
        letters = _letters(settings.kafka)
        admin = bus.admin(settings.kafka)
        lows = status.offsets(admin, source.partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        look = looker(self._asked.topic, bool(settings.kafka.schema_registry_url))
        with closing(Reader(settings.kafka)) as reader:
            broker = KafkaBroker(reader.consumer, admin)
            ports = Ports(broker, place.ledger, sink, sink, letters, SystemClock())
            Finisher(settings.ingest, ports, look, reader, lows, Tool.of(settings)).finish(pending, source.uuid)

    def _refuse_moved(self, source: Source, records: Records) -> None:
        last = self._last(source)
        starts = [(plan(where, source.uuid, records.get(where)), records.get(where)) for where in source.partitions]
        checked = (wrong(start, entry, last.get(start.where.number)) for start, entry in starts)
        if found := [each for each in checked if each is not None]:
            raise ReplayError(f"ingest itself could not go on: {remedy(found, Tool.of(self._settings))}")

    def _refuse_letters(self, run: Run) -> None:
        """Both may begin at once: each makes its table first and looks for the other's then."""
        if self._staging.letters(run.table):
            raise ReplayError(
                f"dead letters of {run.topic} are being replayed, or were when it was interrupted: wait for it, or run "
                f"`warpmeter dead-letters replay --topic {run.topic}`, which finishes it"
            )

    def _last(self, source: Source) -> Mapping[int, int]:
        found = ClickHouse(lambda: self._client, {source.name: self._asked.topic}, {}).last(source.name, source.uuid)
        if isinstance(found, Away | Broken):
            raise ReplayError(found.why)
        return found

    def _load(self, run: Run, source: Source, records: Records) -> Counted:
        """Fill the staging table. Raises ReplayError when the topic does not hold the range."""
        places = self._held = self._places(source, records)
        if run.dry:  # ingest may have landed what it has not settled: all that the table has is to be read
            last = self._last(source)
            places = self._held = [
                replace(place, end=max(place.end, last.get(place.where.number, -1) + 1)) for place in places
            ]
        spans = self._spans(source, min((place.since for place in places), default=0))
        self._refuse_gone(run, places, spans)
        todo = [piece for place in places for piece in pieces(place, spans.get(place.where.number, ()), run.wanted)]
        self._told.stage(f"reading {run.topic}", sum(piece.last - piece.first + 1 for piece in todo))
        self._booked, self._read = spans, todo
        loader = Loader(self._target(run, source), self._settings.ingest, self._now)
        with closing(Reader(self._settings.kafka)) as reader:
            for piece in todo:
                loader.load(piece, reader.read(piece), self._told.step)
        return loader.counted

    def _refuse_gone(self, run: Run, places: Sequence[Held], spans: Mapping[int, Sequence[Landed]]) -> None:
        if self._asked.allow_loss or run.dry:
            return
        why = next(
            (why for place in places if (why := gone(place, spans.get(place.where.number, ()), run.wanted))), None
        )
        kept_days = self._settings.store.raw_ttl_days
        if run.start < self._now() - kept_days * DAY_S:
            why = f"raw rows are kept for {kept_days} days, and the range begins before that"
        if why:
            raise ReplayError(
                f"{why}: the topic no longer holds all of it, and what is gone would be lost in the tables too. "
                "Nothing was changed; begin later, or replay what there is with --allow-loss"
            )

    def _target(self, run: Run, source: Source) -> Target:
        topics, staged = {source.name: self._asked.topic}, {source.name: run.name("loading")}
        sink = ClickHouse(lambda: self._client, topics, staged, self._settings.store.insert_quorum)
        framed = bool(self._settings.kafka.schema_registry_url)
        topic, booked, wanted = self._asked.topic, self._booked, self._asked.wanted
        return Target(
            source.uuid, looker(topic, framed), sink, lambda where: Within(topic, booked.get(where.number, ()), wanted)
        )

    def _spans(self, source: Source, since: int) -> dict[int, list[Landed]]:
        """Per partition what `ingest_batches` tells, from the first span that may hold rows of the range, or from
        offset `since`, on."""
        wanted = self._asked.wanted
        rows = self._client.query(
            _SPANS,
            {
                "table": self._asked.topic.table, "uuid": source.uuid, "since": since,
                "start": wanted.start * 1000, "end": wanted.end * 1000,
            },
        ).result_rows  # fmt: skip
        found: dict[int, list[Landed]] = {}
        for partition, *span in rows:
            found.setdefault(partition, []).append(Landed(*span))
        return found

    def _places(self, source: Source, records: Records) -> list[Held]:
        admin, wanted = bus.admin(self._settings.kafka), self._asked.wanted
        last, known = self._last(source), source.partitions
        lows = status.offsets(admin, known, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        since = status.offsets(admin, known, _at(wanted.start - SLACK_S))
        at_start = status.offsets(admin, known, _at(wanted.start))
        found = []
        for where in known:
            end = _end(records, where, source.uuid, last.get(where.number))
            times = [at if at >= 0 else end for at in (since[where], at_start[where])]
            found.append(Held(where, max(lows[where], 0), times[0], times[1], end))
        return found

    def _compared(self, run: Run) -> list[Hour]:
        self._told.stage("comparing with the tables")
        staging = (run.name("loading"), run.wanted)
        return compared(self._client, self._settings.store, self._raw, self._rollups, staging)

    def _keep_totals(self, run: Run) -> None:
        for table in self._rollups.totals:
            name = run.totals(table.name)
            self._staging.create(name, table.name, f"ORDER BY ({', '.join(table.key)})", {"run": run.id})
            names = ", ".join(f"`{each}`" for each in table.types)
            for part, rows in enumerate(totals.kept(self._settings.store, run, self._raw, table)):
                insert(self._client, self._settings.store, f"{name} ({names})", rows, f"replay/{run.id}/kept/{part}")

    def _mend_book(self, run: Run, source: Source) -> None:
        """Keep the rows of `ingest_batches` that go with this replay."""
        self._staging.create(run.totals(BOOK), self._settings.store.local(BOOK), "ORDER BY first", {"run": run.id})
        staged = book.staged_spans(self._client, self._settings.store, run)
        for where in source.partitions:
            unbooked = [piece for piece in self._read if piece.where == where and not piece.booked]
            prefix = f"{source.uuid}/{where.number}/"
            fresh = [
                span
                for token, span in staged.items()
                if token.startswith(prefix) and any(p.first <= span.first and span.last <= p.last for p in unbooked)
            ]
            rows = book.mended(self._booked.get(where.number, ()), fresh, run.wanted)
            book.write(self._client, self._settings.store, run, source.uuid, [(where.number, row) for row in rows])

    def _send(self, source: Source, counted: Counted) -> None:
        """Dead letters of what is refused now, but for those that are there."""
        fresh = unknown(self._client, source.name, source.uuid, counted.letters)
        letters: Letters = _letters(self._settings.kafka)
        if fresh and (why := letters.send(fresh)):
            raise ReplayError(f"{why}; nothing was changed, run the replay again")


def _letters(kafka: Kafka) -> KafkaLetters:
    """Raises ReplayError for a Schema Registry's address that is none."""
    try:
        return KafkaLetters(bus.producer(kafka), kafka.topic_prefix, registry=configured(kafka))
    except RegistryError as error:
        raise ReplayError(str(error)) from error


_SPANS: Final = """
WITH (
    SELECT minOrNull(first) FROM ingest_batches WHERE table = {table:String} AND topic_uuid = {uuid:String}
    AND max_ts >= fromUnixTimestamp64Milli({start:Int64}) AND min_ts < fromUnixTimestamp64Milli({end:Int64})
) AS touching
SELECT partition, first, last, toUnixTimestamp64Milli(min_ts) / 1000, toUnixTimestamp64Milli(max_ts) / 1000
FROM ingest_batches WHERE table = {table:String} AND topic_uuid = {uuid:String}
AND last >= least({since:UInt64}, ifNull(touching, {since:UInt64}))
ORDER BY partition, first
"""


def _at(seconds: float) -> OffsetSpec:
    spec: OffsetSpec = OffsetSpec.for_timestamp(int(seconds * 1000))
    return spec


def _end(records: Records, where: Partition, uuid_: str, last: int | None) -> int:
    """The offset at which ingest goes on."""
    match records.get(where):
        case Settled(_, life, offset) if life == uuid_:
            return offset
        case Declared(span) if span.uuid == uuid_:
            return span.first
        case Foreign(_, offset):
            return offset
        case _:
            return 0 if last is None else last + 1

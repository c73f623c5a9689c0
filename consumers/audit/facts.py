"""What an audit looks at: the book and the dead letters in the store, the topics and the group on the broker."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka.admin import OffsetSpec

from warpmeter import bus, queries
from warpmeter.consumers import status
from warpmeter.consumers.audit.spans import Book, Facts, Hole, Log, Offsets, explained, holes
from warpmeter.consumers.ledger import Entry
from warpmeter.consumers.replay.hours import Range, widened
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Tool
from warpmeter.schemas.topics import Topic
from warpmeter.settings import Settings
from warpmeter.store import Client

UUID: Final = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
HOLES_ASKED: Final = 1000
"""So many holes are looked up in the dead letters; of more, the rest counts as unknown."""
TIMES_ASKED: Final = 20
"""Of so many offsets that are missing or doubled the command has the hours."""


@dataclass(frozen=True)
class Life:
    """One partition of one life of a topic's table."""

    table: str
    uuid: str
    partition: int


@dataclass(frozen=True)
class Bus:
    """The broker's side: topics' ids, logs, the group's records, and whether ingest runs."""

    ids: Mapping[str, str]
    logs: Mapping[Partition, Log]
    entries: Mapping[Partition, Entry]
    attended: bool
    tool: Tool


class Store:
    """The store's side. Every method raises ClickHouseError."""

    def __init__(self, client: Client, since: float) -> None:
        """`since`: spans that landed since then, seconds since the epoch; 0 looks at all."""
        self._client = client
        self._since = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M:%S")

    def books(self) -> dict[Life, Book]:
        """The book of every partition of every life."""
        reach = {Life(*row[:3]): (row[3], row[4]) for row in self._ask(_REACH)}
        gaps = queries.get("ingest_gaps").statement({"since": self._since})
        result = self._client.query(gaps.sql, parameters=dict(gaps.values))
        found = {}
        for row in result.named_results():
            life = Life(row["table"], row["topic_uuid"], row["partition"])
            found[life] = Book(
                row["spans"],
                row["rows"],
                *reach.get(life, (row["first"], row["last"])),
                _runs(row["holes"]),
                _runs(row["overlaps"]),
                row["missing"],
                row["doubled"],
            )
        silent = {life: Book(0, 0, *ends) for life, ends in reach.items() if life not in found}
        return found | silent

    def refused(self, topic: str, uuid: str, partition: int, offsets: Offsets) -> int:
        """How many of these offsets are dead letters."""
        given = {"topic": topic, "uuid": uuid, "partition": partition, "first": offsets.first, "last": offsets.last}
        return int(self._ask(_REFUSED, given)[0][0])

    def when(self, topic: Topic, facts: Facts, offsets: Offsets) -> Range | None:
        """The hours that rows at these offsets are of, by the spans that hold them or lie around them, up to now where
        none follows; None when none is before."""
        given = {
            "table": topic.table, "uuid": facts.uuid, "partition": facts.where.number,
            "first": offsets.first, "last": offsets.last,
        }  # fmt: skip
        *times, before, after, over, now = self._ask(_WHEN, given)[0]
        known = [at for at, count in zip(times, (before, after, over, over), strict=True) if count]
        if not (before or over):
            return None
        return widened(min(known) / 1000, max([*known, *([] if after else [now])]) / 1000 + 0.001)

    def told(self) -> dict[Partition, list[Offsets]]:
        """The losses that ingest has published, by the names that its topics had."""
        found: dict[Partition, list[Offsets]] = {}
        for subject, why in self._ask(_TOLD):
            topic, _, number = subject.rpartition("/")
            offsets = re.search(r"offsets (\d+) to (\d+)", why)
            if number.isdigit() and offsets:
                found.setdefault(Partition(topic, int(number)), []).append(Offsets(int(offsets[1]), int(offsets[2])))
        return found

    def _ask(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return self._client.query(sql, parameters=dict(parameters or {})).result_rows


_REACH: Final = (
    "SELECT table, topic_uuid, partition, min(first), max(last) FROM ingest_batches "
    f"WHERE match(topic_uuid, '{UUID}') GROUP BY table, topic_uuid, partition"
)
_REFUSED: Final = (
    "SELECT uniqExact(offset) FROM dead_letters WHERE topic = {topic:String} AND topic_uuid = {uuid:String} "
    "AND partition = {partition:UInt32} AND offset BETWEEN {first:UInt64} AND {last:UInt64}"
)
_WHEN: Final = """
SELECT
    toUnixTimestamp64Milli(argMaxIf(max_ts, last, last < {first:UInt64})),
    toUnixTimestamp64Milli(argMinIf(min_ts, first, first > {last:UInt64})),
    toUnixTimestamp64Milli(minIf(min_ts, first <= {last:UInt64} AND last >= {first:UInt64})),
    toUnixTimestamp64Milli(maxIf(max_ts, first <= {last:UInt64} AND last >= {first:UInt64})),
    countIf(last < {first:UInt64}),
    countIf(first > {last:UInt64}),
    countIf(first <= {last:UInt64} AND last >= {first:UInt64}),
    toUnixTimestamp64Milli(now64(3))
FROM ingest_batches WHERE table = {table:String} AND topic_uuid = {uuid:String} AND partition = {partition:UInt32}
"""
_TOLD: Final = (
    "SELECT DISTINCT subject, why FROM source_health WHERE source = 'ingest' AND state = 'failed' "
    r"AND match(why, 'offsets \\d+ to \\d+')"
)


def _runs(rows: Iterable[tuple[int, int]]) -> tuple[Offsets, ...]:
    return tuple(Offsets(*row) for row in rows)


def ask_bus(settings: Settings, topics: Mapping[str, Topic]) -> Bus:
    """Ask the broker. Raises KafkaException and LedgerError."""
    admin = bus.admin(settings.kafka)
    ids, partitions = status.described(admin, list(topics))
    begins = status.offsets(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = status.offsets(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    exact = settings.ingest.ledger_dir is None  # the embedded broker's end is a lower bound
    logs = {where: Log(begins[where], ends[where], exact) for where in partitions}
    return Bus(ids, logs, status.records(settings), status.busy(settings) is not None, Tool.of(settings))


def joined(topics: Mapping[str, Topic], books: Mapping[Life, Book], known: Bus | None) -> list[Facts]:
    """The facts of each partition of each life, those of topics as they are now first."""
    names = {topic.table: name for name, topic in topics.items()}
    now = [] if known is None else [_present(where, topics, books, known) for where in sorted(known.logs)]
    present = {Life(topics[each.where.topic].table, each.uuid, each.where.number) for each in now}
    past = [
        Facts(Partition(names.get(life.table, life.table), life.partition), life.uuid, book)
        for life, book in books.items()
        if life not in present and book.spans
    ]
    return now + sorted(past, key=lambda each: (each.where, each.uuid))


def _present(where: Partition, topics: Mapping[str, Topic], books: Mapping[Life, Book], known: Bus) -> Facts:
    uuid = known.ids[where.topic]
    book = books.get(Life(topics[where.topic].table, uuid, where.number))
    return Facts(where, uuid, book, known.logs[where], known.entries.get(where), known.attended, known.tool)


def looked_up(store: Store, facts: Facts, told: Mapping[Partition, list[Offsets]]) -> list[Hole]:
    """What is known of each hole of a partition."""
    looked = []
    for place, offsets in enumerate(holes(facts)):
        refused = 0
        if place < HOLES_ASKED:
            refused = store.refused(facts.where.topic, facts.uuid, facts.where.number, offsets)
        looked.append(explained(offsets, refused, told.get(facts.where, ())))
    return looked


def timed(store: Store, topics: Mapping[str, Topic], facts: Facts, looked: Sequence[Hole]) -> Facts:
    """The facts with the hours of what is missing or doubled, of the first few."""
    topic = topics.get(facts.where.topic)
    if topic is None or facts.log is None:
        return facts
    wrong = [hole.offsets for hole in looked if hole.unknown] + list(facts.book.overlaps if facts.book else ())
    found = {offsets: store.when(topic, facts, offsets) for offsets in wrong[:TIMES_ASKED]}
    return replace(facts, times={offsets: hours for offsets, hours in found.items() if hours is not None})


def unmoved(before: Bus, after: Bus, facts: Sequence[Facts]) -> tuple[list[Facts], list[Partition]]:
    """The facts whose group record stayed the same while the book was read, and the partitions where it did not."""
    moved = {where for where in after.logs if before.entries.get(where) != after.entries.get(where)}
    moved |= {where for where in after.logs if before.ids.get(where.topic) != after.ids.get(where.topic)}
    still = [replace(each, log=after.logs.get(each.where)) if each.log else each for each in facts]
    return [each for each in still if each.log is None or each.where not in moved], sorted(moved)

"""After a run: what is in the tables beside what the broker acknowledged. Every difference is a finding, in words."""

import base64
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from tests.crash.feed import Truth, fields_of
from tests.crash.rollups import ROLLUPS, STEPS, Rollup, expected
from tests.crash.samples import Fields, Series
from tests.crash.world import World
from warpmeter.consumers import status
from warpmeter.consumers.broker import connect
from warpmeter.consumers.ledger import LedgerError
from warpmeter.consumers.span import Partition
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings
from warpmeter.store import ClickHouseError, Client

DRAIN_S: Final = 120.0
"""How long nothing more may land before the rest is given up as lost."""
SHOWN: Final = 20

Rows = Sequence[Sequence[Any]]


@dataclass
class Comparison:
    """What was found; `findings` is empty when nothing was lost and nothing is twice."""

    findings: list[str] = field(default_factory=list)
    figures: dict[str, int | float] = field(default_factory=dict)

    def differ(self, what: str, items: Iterable[object]) -> None:
        """A finding with the first of its items, when there are any."""
        found = list(items)
        if found:
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            self.findings.append(f"{what}: {len(found)}: " + "; ".join(str(item) for item in found[:SHOWN]) + more)


def drain(world: World, tell: Callable[[str], None]) -> None:
    """Wait until all that was acknowledged has landed, or nothing has moved for `DRAIN_S`."""
    wanted = world.feed.acknowledged_rows, len(world.feed.truth.poison)
    seen, moved = (0, 0), time.monotonic()
    while seen != wanted and time.monotonic() - moved < DRAIN_S:
        world.watch()
        now = _landed(world)
        if now != seen:
            seen, moved = now, time.monotonic()
        tell(f"draining: {seen[0]} of {wanted[0]} rows, {seen[1]} of {wanted[1]} dead letters")
        time.sleep(0.5)
    _settle(world)


def _landed(world: World) -> tuple[int, int]:
    tables = " + ".join(f"(SELECT count() FROM {item.topic.table})" for item in world.series)
    try:
        with world.client() as client:
            rows = client.query(f"SELECT {tables}, (SELECT count() FROM dead_letters FINAL)").result_rows
    except (ClickHouseError, OSError):
        return 0, 0
    return int(rows[0][0]), int(rows[0][1])


def _settle(world: World) -> None:
    """Time for whoever sleeps and wakes, and for the last settle: until nothing is declared, but not for ever."""
    deadline = time.monotonic() + DRAIN_S / 4
    time.sleep(2 * world.settings.ingest.session_timeout_s)
    while time.monotonic() < deadline and _pending(world.settings):
        world.watch()
        time.sleep(0.5)


def _pending(settings: Settings) -> list[str]:
    try:
        return status.pending(settings)
    except LedgerError as error:
        return [str(error)]


def compare(world: World, chaos_ended: float) -> Comparison:
    """All comparisons; `chaos_ended` (seconds since the epoch) parts what landed under faults from the rest."""
    found, truth = Comparison(), world.feed.truth
    found.differ("the producer", truth.failures)
    found.differ("spans are declared and not settled", _pending(world.settings))
    with world.client() as client:
        for series in world.series:
            _numbers(found, client, truth, series)
        rows = fields_of(truth, world.series)
        for rollup in ROLLUPS:
            for step, step_s in STEPS:
                _rollup(found, client, rollup, step, expected(rollup, step_s, rows))
        _spans(found, client, world)
        _dead_letters(found, client, truth)
        _figures(found, client, world, rows, chaos_ended)
    return found


def _ask(client: Client, sql: str, **parameters: Any) -> Rows:
    return client.query(sql, parameters).result_rows


def _numbers(found: Comparison, client: Client, truth: Truth, series: Series) -> None:
    """Every number once."""
    name = series.topic.name
    rows = _ask(client, f"SELECT {series.number}, count() FROM {series.topic.table} GROUP BY 1")
    stored, wanted = {int(row[0]): int(row[1]) for row in rows}, set(truth.numbers(name))

    def placed(numbers: Iterable[int]) -> Iterable[str]:
        for number in sorted(numbers):
            partition, offset = truth.place_of(name, number)
            yield f"{number} ([{partition}] {offset})"

    found.differ(f"{series.topic.table}: lost (partition, offset)", placed(wanted - stored.keys()))
    found.differ(f"{series.topic.table}: more than once", placed(n for n, count in stored.items() if count > 1))
    found.differ(f"{series.topic.table}: never acknowledged", placed(stored.keys() - wanted))


def _rollup(found: Comparison, client: Client, rollup: Rollup, step: str, wanted: Mapping[Any, Any]) -> None:
    width = len(rollup.sums)
    stored = {
        tuple(row[:-width]): tuple(float(value) for value in row[-width:]) for row in _ask(client, rollup.sql(step))
    }
    name = f"{rollup.name}_{step}"
    found.differ(f"{name}: windows that are missing", wanted.keys() - stored.keys())
    found.differ(f"{name}: windows that should not be", stored.keys() - wanted.keys())
    found.differ(
        f"{name}: other sums ({', '.join(rollup.sums)})",
        (
            f"{key}: {stored[key]} for {wanted[key]}"
            for key in wanted.keys() & stored.keys()
            if stored[key] != wanted[key]
        ),
    )


@dataclass(frozen=True)
class _Ends:
    """Where the partitions of a topic end, and its id."""

    uuid: str
    ends: Mapping[int, int]


def _ends(settings: Settings) -> Mapping[str, _Ends]:
    broker, consumer = connect(settings.kafka, settings.ingest)
    try:
        names = [TOPICS[name].full_name(settings.kafka.topic_prefix) for name in settings.ingest.topics]
        ids = broker.topic_ids(names)
        metadata = consumer.list_topics(timeout=30).topics
        return {
            name: _Ends(
                ids[name], {number: broker.latest(Partition(name, number)) for number in metadata[name].partitions}
            )
            for name in names
        }
    finally:
        consumer.close()


def _spans(found: Comparison, client: Client, world: World) -> None:
    """`ingest_batches`: of each partition no gap but of messages that were refused, no overlap, no stranger."""
    by_id: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for uuid, partition, first, last in _ask(
        client, "SELECT topic_uuid, partition, first, last FROM ingest_batches ORDER BY 1, 2, 3, 4"
    ):
        by_id[uuid, partition].append((first, last))
    poison: dict[Partition, set[int]] = defaultdict(set)
    for where, offset in world.feed.truth.poison:
        poison[where].add(offset)
    numbered = {item.topic.full_name(world.settings.kafka.topic_prefix) for item in world.series}
    for name, topic in _ends(world.settings).items():
        for partition, end in topic.ends.items():
            where = Partition(name, partition)
            spans = by_id.pop((topic.uuid, partition), [])
            # The topics that ingest itself writes go on until the consumers have ended.
            end = end if name in numbered else max((last + 1 for _, last in spans), default=0)
            meet(found, where, spans, end, poison[where])
    found.differ("ingest_batches: spans of no topic", by_id)


def meet(found: Comparison, where: Partition, spans: Sequence[tuple[int, int]], end: int, refused: set[int]) -> None:
    """Spans (first, last) in order, of a partition that ends before `end`: they share nothing and leave nothing out.

    Offsets in `refused` may be in a span or in none: a span of refused messages alone inserts nothing.
    """
    found.differ(
        f"ingest_batches of {where}: spans that overlap",
        (f"{one} and {other}" for one, other in pairwise(spans) if other[0] <= one[1]),
    )
    covered = {offset for first, last in spans for offset in range(first, last + 1)}
    found.differ(f"ingest_batches of {where}: offsets in no span", sorted(set(range(end)) - covered - refused))
    found.differ(f"ingest_batches of {where}: offsets beyond the end {end}", sorted(covered - set(range(end))))


def _dead_letters(found: Comparison, client: Client, truth: Truth) -> None:
    """Exactly the poison, with its bytes."""
    sql = "SELECT topic, partition, offset, base64Encode(value), reason FROM dead_letters FINAL"
    rows = {(Partition(row[0], row[1]), row[2]): row[3:] for row in _ask(client, sql)}
    wanted = {place: _base64(value) for place, value in truth.poison.items()}
    found.differ("dead letters that are missing", (_at(place) for place in wanted.keys() - rows.keys()))
    found.differ(
        "dead letters of good messages", (f"{_at(place)}: {rows[place][1]}" for place in rows.keys() - wanted.keys())
    )
    both = wanted.keys() & rows.keys()
    found.differ("dead letters with other bytes", (_at(place) for place in both if rows[place][0] != wanted[place]))


def _at(place: tuple[Partition, int]) -> str:
    return f"{place[0]} {place[1]}"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _figures(
    found: Comparison, client: Client, world: World, rows: Sequence[tuple[str, Fields]], chaos_ended: float
) -> None:
    tables = ", ".join(f"'{item.topic.table}'" for item in world.series)
    times = _ask(
        client,
        f"SELECT toUnixTimestamp64Milli(inserted_at) / 1000 AS at, rows FROM ingest_batches "
        f"WHERE table IN ({tables}) ORDER BY at",
    )
    during = sum(count for at, count in times if at <= chaos_ended)
    instants = [at for at, _ in times if at <= chaos_ended]
    pauses = [other - one for one, other in pairwise(instants)]
    found.figures |= {
        "rows acknowledged": len(rows),
        "rows stored": sum(count for _, count in times),
        "rows by topic": max(Counter(topic for topic, _ in rows).values(), default=0),
        "spans": len(times),
        "landed under faults, share": round(during / len(rows), 4) if rows else 0.0,
        "longest time without an insert, s": round(max(pauses, default=0.0), 1),
        "poison": len(world.feed.truth.poison),
    }

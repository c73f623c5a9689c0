"""The end of a schedule: all goes on without trouble until everything is settled, and then it must add up."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tests.model.schedule import Action
from tests.model.world import Process, World
from warpmeter import wire
from warpmeter.consumers.ledger import Declared, Foreign, Settled, decode
from warpmeter.consumers.span import Partition, Span
from warpmeter.schemas.topics import TOPICS

ROUNDS = 400


def run_with_a_crash(schedule: Sequence[Action], call: int) -> World:
    """The same, with a crash of whoever is about to make the call of that number, and another start of it."""
    return run(schedule, World(crash_at=call))


def run(schedule: Sequence[Action], world: World | None = None) -> World:
    """The schedule, its end without trouble, and all that must hold then."""
    world = world or World()
    try:
        for action in schedule:
            action.happen(world)
        finish(world)
        holds(world)
    finally:
        world.close()
    return world


def finish(world: World) -> None:
    """No more trouble; whoever runs goes on, until the group has settled all that the topics hold."""
    world.group.up, world.poll_s = True, 1.0
    world.serve(1_000)
    for process in world.live():
        process.cut_off = process.trouble = None
    world.bury()
    quiet = 0
    for _ in range(ROUNDS):
        quiet = quiet + 1 if settled(world) else 0
        if quiet > 2:
            return
        if not list(world.live()):
            world.start(0)
        for process in list(world.live()):
            _turn(world, process)
        world.bury()
    left = {str(where): world.group.records.get(where) for where in world.topics.logs}
    raise AssertionError(f"it never ends: {left}, halts: {world.halts}")


def _turn(world: World, process: Process) -> None:
    """Up to its next poll."""
    for _ in range(2_000):
        world.go(process)
        if process.halted is not None:
            mend(world, process.halted)
        if process.ended or process.fiber.at == "poll":
            return
    raise AssertionError(f"it does not poll any more: stands at {process.fiber.at}")


def settled(world: World) -> bool:
    """Nothing of any topic is left to do."""
    for where, log in world.topics.logs.items():
        last = log.messages[-1].offset() if log.messages else -1
        record = world.group.records.get(where)
        entry = decode(where, *record) if record is not None else None
        if (isinstance(entry, Settled) and entry.uuid == world.topics.ids[where.topic]) or isinstance(entry, Foreign):
            if entry.next <= last:
                return False
        elif isinstance(entry, Declared) or log.messages:
            return False
    return True


PENDING = re.compile(r"(\S+)\[(\d+)\] was to insert (\d+)-(\d+) so long ago that the store may have forgotten")


def mend(world: World, halt: str) -> None:
    """What an operator does who reads the message and does as it says."""
    if "readonly" in halt:
        return
    if forgotten := PENDING.findall(halt):
        for topic, number, _, _ in forgotten:
            where = Partition(topic, int(number))
            world.group.records[where] = (_looked_up(world, where, halt), "")
        return
    found = re.search(r"--topic (\S+):(\d+) --to-offset (\d+)", halt)
    assert found, f"halted without need: {halt}"
    assert world.group.nobody_wrote, f"halted without need: {halt}"
    world.group.records[Partition(found[1], int(found[2]))] = (int(found[3]), "")


def _looked_up(world: World, where: Partition, halt: str) -> int:
    """Where to go on: before the span that the store may have forgotten, or behind it if its rows are there.

    What landed in part, of a table or a rollup, nobody can complete then: the promise ends with the window.
    """
    entry = decode(where, *world.group.records[where])
    assert isinstance(entry, Declared), halt
    tables = world.store.tables[where.topic]
    mine = {number for number, place in world.places.items() if place.inside(entry.span)}
    raw = mine & {row.number for row in tables.raw.rows}
    rolled = mine & {
        number for rows in (tables.days.rows, tables.months.rows) for row in rows for number in row.numbers
    }
    if raw or rolled:
        world.believed.append(entry.span)
    return entry.span.last + 1 if raw else entry.span.first


def holds(world: World) -> None:
    """Nothing is lost, nothing is twice, in any table; what is lost is told."""
    for name, tables in world.store.tables.items():
        raw = Counter(row.number for row in tables.raw.rows)
        book = [row for row in world.store.book.rows if row.table == name]
        for what, rows in (("days", tables.days.rows), ("months", tables.months.rows), ("book", book)):
            found = Counter(number for row in rows for number in row.numbers)
            _same(world, raw, found, f"{what} of {name}")
    _nothing_is_missing(world)
    _the_book_has_no_gap(world)
    dead = {(letter.topic_uuid, letter.partition, letter.offset) for letter in world.letters.dead}
    assert dead <= world.bad
    assert world.bad - dead <= world.gone


def _same(world: World, raw: Counter[int], found: Counter[int], what: str) -> None:
    """Count and sum agree with the raw table's, but for what nobody can complete.

    That is what landed in part and then left the topic; and what landed in part and was tried again only when the store
    had forgotten its token: then the book is believed, or an operator, who sees the raw table.
    """
    twice = [
        number
        for number, count in (raw | found).items()
        if count > 1 and not (raw[number] == 1 and _believed(world, world.places[number]))
    ]
    assert not twice, f"{twice} are twice in {what}"
    torn = [world.places[number] for number in raw.keys() ^ found.keys()]
    wrong = [place.token for place in torn if _of(place) not in world.gone and not _believed(world, place)]
    assert not wrong, f"{wrong} are not in both of raw and {what}"


def _believed(world: World, place: Span) -> bool:
    return any(place.inside(span) for span in world.believed)


def _nothing_is_missing(world: World) -> None:
    stored = {row.number for tables in world.store.tables.values() for row in tables.raw.rows}
    missing = {number: place for number, place in world.places.items() if number not in stored}
    for number, place in missing.items():
        assert _of(place) in world.gone or _believed(world, place), f"{number} at {place.token} is missing"
    lost: Counter[Partition] = Counter()
    for place in set(missing.values()):
        ours = world.topics.ids.get(place.topic) == place.uuid and _of(place) not in world.never_ours
        if ours and not _believed(world, place):
            lost[place.where] += 1
    told = _told(world)
    for where, count in lost.items():
        assert count <= told[f"{where.topic}/{where.number}"], f"{count} lost of {where}, told {told}"


def _told(world: World) -> Counter[str]:
    told: Counter[str] = Counter()
    for envelope in world.letters.sent:
        if envelope.topic == "source-health":
            row = wire.unpack(TOPICS["source-health"], envelope.value)[0]
            told[row.subject] += row.count  # type: ignore[attr-defined]
    return told


def _of(place: Span) -> tuple[str, int, int]:
    return place.uuid, place.partition, place.first


def _the_book_has_no_gap(world: World) -> None:
    spans = defaultdict(list)
    for span in world.spans():
        spans[span.topic, span.uuid, span.partition].append(span)
    for found in spans.values():
        found.sort(key=lambda span: span.first)
        for one, other in pairwise(found):
            assert one.before(other), f"{one.token} and {other.token} overlap"
            missing = [replace(one, first=offset, last=offset) for offset in range(one.last + 1, other.first)]
            gap = {_of(place) for place in missing if not _believed(world, place)}
            assert gap <= world.gone | world.bad, f"a gap between {one.token} and {other.token}"

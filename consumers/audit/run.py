"""An audit from beginning to end. What moves while it is looked at is looked at again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

from confluent_kafka import KafkaException

from warpmeter import bus, migrate, store
from warpmeter.clock import Clock, SystemClock
from warpmeter.consumers import status
from warpmeter.consumers.audit import blame, counts, facts
from warpmeter.consumers.audit.counts import Compared, Counts
from warpmeter.consumers.audit.spans import Facts, Finding, Hole, Kind, judged, reached, short
from warpmeter.consumers.ledger import LedgerError
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import Range
from warpmeter.consumers.replay.staging import Staging, Unfinished
from warpmeter.consumers.span import Partition
from warpmeter.settings import Settings

LOOKS: Final = 4
WAIT_S: Final = 1.0
"""Before the second look, doubled before each later one: an insert under way lands, dead letters come."""
OF_THE_BOOK: Final[frozenset[Kind]] = frozenset({"missing", "doubled"})


@dataclass(frozen=True)
class Line:
    """One partition of one life of a topic, in offsets. `stored_to` (None: nothing yet), `reached` (the group's) and
    `end` are the first that are not; of what no span holds `refused` are dead letters, `told` published
    losses, `missing` neither."""

    topic: str
    partition: int
    life: str
    present: bool
    spans: int
    rows: int
    stored_to: int | None
    reached: int | None
    end: int | None
    unread: int | None
    refused: int
    told: int
    missing: int
    doubled: int


@dataclass(frozen=True)
class Report:
    """What was compared and what does not add up; `skipped` says in words what could not be compared, and why."""

    since: datetime | None
    partitions: Sequence[Line] = ()
    tables: Sequence[Compared] = ()
    findings: Sequence[Finding] = ()
    skipped: Sequence[str] = ()


@dataclass
class _Look:
    """One look at everything."""

    lines: list[Line] = field(default_factory=list)
    tables: list[Compared] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    moved: list[Partition] = field(default_factory=list)
    fine: set[Partition] = field(default_factory=set)
    unfinished: list[Unfinished] = field(default_factory=list)


Told = Callable[[str], None]
"""Who is told what is being done."""


def nobody(_: str) -> None:
    """Nobody is told."""


def audit(
    settings: Settings,
    since: float = 0.0,
    clock: Clock | None = None,
    looks: int = LOOKS,
    told: Told = nobody,
) -> Report:
    """Compare all that can be compared of what landed since `since` (seconds since the epoch; 0: all).

    What does not add up is looked at `looks` times in all, for it may be landing; one is enough where nothing does.
    Never raises for a broker or store that does not answer: `skipped` says so.
    """
    clock, fine = clock or SystemClock(), set[Partition]()
    for attempt in range(looks):
        wait_s = WAIT_S * 2**attempt
        again = f" again ({attempt + 1} of {looks} times): it may be landing" if attempt else ""
        look = _look(settings, since, clock, wait_s, lambda what, again=again: told(what + again))  # type: ignore[misc]
        fine |= look.fine
        look.moved = [where for where in look.moved if where not in fine]
        if not look.findings and not look.moved:
            break
        if attempt < looks - 1:
            clock.sleep(wait_s)
    skipped = look.skipped + [
        f"{where}: the group went on while it was looked at, each time; look again when less is landing"
        for where in look.moved
    ]
    return Report(
        datetime.fromtimestamp(since, UTC) if since else None, look.lines, look.tables, look.findings, skipped
    )


def _look(settings: Settings, since: float, clock: Clock, wait_s: float, told: Told) -> _Look:
    look = _Look()
    told("asking the broker")
    before = _bus(settings, look)
    try:
        with store.connect(settings.store) as client:
            _interrupted(settings, client, look)
            told("holding the book of spans against the topics")
            _offsets(settings, facts.Store(client, since), before, look)
            told("counting rows by day in tables, book and rollups")
            _counts(settings, Counts(client, _day(settings, since, clock)), clock, wait_s, look)
    except store.ClickHouseError as error:
        look.skipped.append(f"the store: {store.reason(error).splitlines()[0]}")
        if before is not None:
            look.findings += [each for known in facts.joined(status.subscribed(settings), {}, before)
                              for each in judged(known, ())]  # fmt: skip
    return look


def _interrupted(settings: Settings, client: store.Client, look: _Look) -> None:
    """Replays that have deleted rows and not brought them back: what they took out is not compared."""
    try:
        found = Staging(client, settings.store).found()
    except ReplayError as error:
        look.skipped.append(str(error))
        return
    look.unfinished = [each for each in found if each.stage != "loading"]
    look.findings += [
        Finding(
            "replay",
            f"{each.run.topic} {each.run.wanted}",
            f"{each}; its days, and offsets that no span holds, are left out below",
            f"wait for it, or bring it to its end: {each.command}; then check again",
        )
        for each in look.unfinished
    ]


def _left_out(look: _Look, table: str) -> set[date]:
    """Days of a table that an unfinished replay is at."""
    return {
        datetime.fromtimestamp(hour.start, UTC).date()
        for each in look.unfinished
        if each.run.table == table
        for hour in each.run.wanted.hours
    }


def _bus(settings: Settings, look: _Look) -> facts.Bus | None:
    try:
        return facts.ask_bus(settings, status.subscribed(settings))
    except (KafkaException, LedgerError) as error:
        look.skipped.append(bus.said(error, settings.kafka) if isinstance(error, KafkaException) else str(error))
        return None


def _offsets(settings: Settings, book: facts.Store, before: facts.Bus | None, look: _Look) -> None:
    topics = status.subscribed(settings)
    found = facts.joined(topics, book.books(), before)
    if before is not None and (after := _bus(settings, look)) is not None:
        found, look.moved = facts.unmoved(before, after, found)
    told = book.told()
    for each in found:
        holes = facts.looked_up(book, each, told)
        each = facts.timed(book, topics, each, holes)
        wrong = [found for found in judged(each, holes) if not (found.kind in OF_THE_BOOK and _replayed(look, each))]
        look.findings += wrong
        look.lines.append(_line(each, holes))
        if each.log is not None and not wrong:
            look.fine.add(each.where)


def _replayed(look: _Look, known: Facts) -> bool:
    """Whether an unfinished replay has taken spans of that topic out of the book, until it writes them anew."""
    return any(each.run.topic == short(known) for each in look.unfinished)


def _line(known: Facts, holes: Sequence[Hole]) -> Line:
    book, log, to = known.book, known.log, reached(known)
    last = book.end if book else None
    at = max((log.earliest if log else 0), (last + 1 if last is not None else 0), to or 0)
    return Line(
        topic=known.where.topic,
        partition=known.where.number,
        life=known.uuid,
        present=log is not None,
        spans=book.spans if book else 0,
        rows=book.rows if book else 0,
        stored_to=None if last is None else last + 1,
        reached=to,
        end=log.end if log else None,
        unread=max(0, log.end - at) if log else None,
        refused=sum(hole.refused for hole in holes),
        told=sum(hole.told for hole in holes),
        missing=sum(hole.unknown for hole in holes),
        doubled=book.doubled if book else 0,
    )


def _day(settings: Settings, since: float, clock: Clock) -> date:
    """The first day whose rows all of the raw tables must still have."""
    kept = datetime.fromtimestamp(clock.now(), UTC).date() - timedelta(days=_kept_days(settings) - 1)
    return max(kept, datetime.fromtimestamp(since, UTC).date())


def _kept_days(settings: Settings) -> int:
    names = ["ingest_batches", *(topic.table for topic in status.subscribed(settings).values())]
    names += [rollup.name for rollup in counts.ROLLUPS]
    return min(migrate.ttl_days(settings.store, name) for name in names)


def _counts(settings: Settings, ask: Counts, clock: Clock, wait_s: float, look: _Look) -> None:
    """Tables against book and rollups; `dead_letters` is left out, for doubles of it merge."""
    tables = [topic.table for topic in status.subscribed(settings).values() if topic.table != "dead_letters"]
    rollups = [rollup for rollup in counts.ROLLUPS if rollup.source in tables]
    book, windows = ask.landed(), [ask.windows(rollup) for rollup in rollups]
    rows = {table: ask.rows(table) for table in tables}
    raws = [ask.counted(rollup) for rollup in rollups]
    later_book, later_windows = ask.landed(), [ask.windows(rollup) for rollup in rollups]
    if book != later_book:  # it is landing: what was counted in the tables may still be on its way
        clock.sleep(wait_s)
        later_book, later_windows = ask.landed(), [ask.windows(rollup) for rollup in rollups]
    left_out = {table: _left_out(look, table) for table in tables}
    for table in tables:
        whole = {day: int(value) for day, value in rows[table].items()}
        landed = (book.get(table, ()), later_book.get(table, ()))
        look.tables.append(counts.booked(table, whole, landed, ask.since, left_out[table]))
    since, without = map(ask.whole_since, rollups), (left_out[rollup.source] for rollup in rollups)
    look.tables += map(counts.rolled_up, rollups, raws, windows, later_windows, since, without)
    look.findings += blame.findings(look.tables, _hours(ask, rollups))


def _hours(ask: Counts, rollups: Sequence[counts.Rollup]) -> blame.Hours:
    """Asks in which hours a table and a rollup differ by rows, or by what else is compared of it."""

    def hours(table: str, name: str, day: date) -> Sequence[Range]:
        found = (ask.hours(each, day) for each in rollups if (each.source, each.name) == (table, name))
        return next((runs for runs in found if runs), ())

    return hours

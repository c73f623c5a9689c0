"""Does it add up: the spans of `ingest_batches` held against the topics, the group's record and the dead letters.

Pure: facts in, findings out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from warpmeter.consumers.ledger import Declared, Entry, Foreign, Settled
from warpmeter.consumers.replay.hours import Range, command
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Tool, plan, remedy, wrong

Kind = Literal["missing", "doubled", "position", "pending", "lost", "beyond", "rows", "rollup", "replay"]


@dataclass(frozen=True, order=True)
class Offsets:
    """Offsets `first` to `last`, both included."""

    first: int
    last: int

    @property
    def count(self) -> int:
        """How many."""
        return self.last - self.first + 1

    def shared(self, other: "Offsets") -> int:
        """How many of them are in both."""
        return max(0, min(self.last, other.last) - max(self.first, other.first) + 1)

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True)
class Finding:
    """Something that does not add up: of what kind, where, what is seen, and what to do."""

    kind: Kind
    where: str
    seen: str
    remedy: str


@dataclass(frozen=True)
class Book:
    """What `ingest_batches` has of one partition of one life of a topic, in the time looked at.

    `holes` are offsets that no span holds, `overlaps` those that two hold: the first thousand of each; `missing` and
    `doubled` count all. `begin` and `end` are the first and last offset that it ever had.
    """

    spans: int
    rows: int
    begin: int
    end: int
    holes: tuple[Offsets, ...] = ()
    overlaps: tuple[Offsets, ...] = ()
    missing: int = 0
    doubled: int = 0


@dataclass(frozen=True)
class Log:
    """What the broker has of a partition: offsets `earliest` to `end` - 1, or more where `exact` is False."""

    earliest: int
    end: int
    exact: bool = True


@dataclass(frozen=True)
class Facts:
    """All that is known of one partition of one life `uuid` of a topic.

    `log` None: the life is over, or the broker was not asked. `attended`: ingest runs. `tool` moves the group.
    `times` are the hours of offsets that are missing or doubled, as far as they are known.
    """

    where: Partition
    uuid: str
    book: Book | None
    log: Log | None = None
    entry: Entry | None = None
    attended: bool = False
    tool: Tool = field(default_factory=Tool)
    times: Mapping[Offsets, Range] = field(default_factory=dict)


@dataclass(frozen=True)
class Hole:
    """Offsets that no span holds, and what is known of them: how many are dead letters, how many published losses."""

    offsets: Offsets
    refused: int = 0
    told: int = 0

    @property
    def unknown(self) -> int:
        """How many nobody has accounted for."""
        return max(0, self.offsets.count - self.refused - self.told)


def reached(facts: Facts) -> int | None:
    """The offset up to which, by the group's record, all is stored or refused; None where there is no record."""
    match facts.entry:
        case Settled(_, uuid, offset) if uuid == facts.uuid:
            return offset
        case Declared(span) if span.uuid == facts.uuid:
            return span.first
        case Foreign(_, offset):
            return offset
        case _:
            return None


def holes(facts: Facts) -> list[Offsets]:
    """Offsets that should be in a span and are in none: before, between and behind those in the book."""
    found = list(facts.book.holes) if facts.book else []
    to = reached(facts)
    begin = facts.book.begin if facts.book else to
    if facts.log is not None and begin is not None and facts.log.earliest < begin:
        found.insert(0, Offsets(facts.log.earliest, begin - 1))
    after = facts.book.end + 1 if facts.book else begin
    if to is not None and after is not None and after < to:
        found.append(Offsets(after, to - 1))
    return found


def judged(facts: Facts, looked: Sequence[Hole]) -> list[Finding]:
    """What does not add up in one partition; `looked` are its holes with what is known of them."""
    return [
        *_missing(facts, looked),
        *_doubled(facts),
        *_position(facts),
        *_pending(facts),
        *_log(facts),
    ]


def _missing(facts: Facts, looked: Iterable[Hole]) -> Iterable[Finding]:
    for hole in looked:
        if not hole.unknown:
            continue
        partly = [f"{hole.refused} are dead letters"] * bool(hole.refused)
        partly += [f"{hole.told} are published losses"] * bool(hole.told)
        seen = f"no span holds {hole.offsets} ({hole.offsets.count} offsets{''.join(f', {p}' for p in partly)})"
        yield Finding("missing", name(facts), seen, _to_store(facts, hole.offsets))


def _to_store(facts: Facts, offsets: Offsets) -> str:
    if facts.log is None:
        return "the topic of that time cannot be read any more: what its agents sent then is lost"
    if offsets.last < facts.log.earliest:
        return f"the topic begins at {facts.log.earliest}, retention took them: keep more of it, and alert on lag"
    return (
        f"the topic still has them: {_replay(facts, offsets)} stores their time again; then look for who moved the "
        "group's offset"
    )


def _doubled(facts: Facts) -> Iterable[Finding]:
    for overlap in facts.book.overlaps if facts.book else ():
        yield Finding(
            "doubled",
            name(facts),
            f"two spans hold {overlap} ({overlap.count} offsets): their rows are stored twice",
            f"{_replay(facts, overlap)} stores them once; then look for who set the group's offset, or whether two "
            "groups write to this store",
        )


def _replay(facts: Facts, offsets: Offsets) -> str:
    """The command that lands offsets again, with the hours where they are known."""
    found = facts.times.get(offsets)
    if found is None:
        return f"`warpmeter replay --topic {short(facts)} --from … --to …`"
    return f"`{command(short(facts), found)}`"


def _position(facts: Facts) -> Iterable[Finding]:
    """Where ingest itself would refuse to begin."""
    if facts.log is None or facts.book is None:
        return
    found = wrong(plan(facts.where, facts.uuid, facts.entry), facts.entry, facts.book.end)
    if found is not None:
        _, stop, rest = remedy([found], facts.tool).partition(_STOP)
        do = f"{stop}{rest}" if stop else remedy([found], facts.tool)
        yield Finding("position", name(facts), f"{found.why}: ingest does not begin here", do)


def _pending(facts: Facts) -> Iterable[Finding]:
    match facts.entry:
        case Declared(span) if span.uuid == facts.uuid and not facts.attended:
            landed = facts.book is not None and facts.book.end >= span.last
            state = "stored, and not yet settled" if landed else "not in the book"
            yield Finding(
                "pending",
                name(facts),
                f"span {span.first}-{span.last} is declared, {state}, and no consumer runs",
                "start `warpmeter ingest`: it inserts the span again first thing, and what is stored is dropped",
            )


def _log(facts: Facts) -> Iterable[Finding]:
    """Where the topic has lost what was not read, or does not have what was."""
    if facts.log is None:
        return
    to = reached(facts)
    if to is not None and facts.log.earliest > to:
        yield Finding(
            "lost",
            name(facts),
            f"retention took {Offsets(to, facts.log.earliest - 1)} before they were read",
            "start `warpmeter ingest`: it counts and publishes the loss; keep more of the topic, and alert on lag",
        )
    if facts.log.exact and facts.book is not None and facts.book.end >= facts.log.end:
        yield Finding(
            "beyond",
            name(facts),
            f"the book reaches {facts.book.end}, the topic ends at {facts.log.end - 1}: the broker lost messages that "
            "it had acknowledged (an unclean leader election, a restored disk)",
            "what is stored stays stored; stop ingest before the topic grows past there, and see docs/delivery.md",
        )


def short(facts: Facts) -> str:
    """The topic as commands take it, without its prefix."""
    return facts.where.topic.rpartition(".")[2]


def name(facts: Facts) -> str:
    """How a partition of a life is called: `topic[3]`, with the life's id where it is not the present one."""
    return str(facts.where) if facts.log is not None else f"{facts.where} {facts.uuid[:8]}"


_STOP: Final = "Stop all consumers"
UNTOLD: Final[Sequence[Offsets]] = ()


def explained(offsets: Offsets, refused: int, told: Sequence[Offsets] = UNTOLD) -> Hole:
    """A hole with what explains it; what was both refused and told counts once."""
    known = sum(loss.shared(offsets) for loss in told)
    return Hole(offsets, min(refused, offsets.count), min(known, max(0, offsets.count - refused)))

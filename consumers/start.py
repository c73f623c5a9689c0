"""Where a partition begins: what the ledger says, held against the topic's id and against what has landed.

Pure functions; the loop asks the broker and the store and acts.
"""

from dataclasses import dataclass
from typing import Final

from warpmeter.consumers.ledger import Declared, Entry, Foreign, Settled
from warpmeter.consumers.span import Partition

# The tables' deduplication windows are 100,000 blocks and 7 days; a span may touch several daily partitions, and
# several partitions of the topic share the window. Well inside it, a replay is dropped for certain.
WINDOW_S: Final = 6 * 86_400.0
WINDOW_INSERTS: Final = 40_000


@dataclass(frozen=True)
class Start:
    """Begin at `offset` (None: the earliest there is); `pending` is the declared span to insert again first.

    `old_life`: the ledger's record is of a topic of this name that is no more.
    """

    where: Partition
    uuid: str
    offset: int | None
    pending: Declared | None = None
    old_life: bool = False


def plan(where: Partition, uuid: str, entry: Entry | None) -> Start:
    """Where to begin on a partition of the topic's life `uuid`, by its ledger record."""
    match entry:
        case None:
            return Start(where, uuid, None)
        case Foreign(_, offset):
            return Start(where, uuid, offset)
        case Settled(_, life, offset) if life == uuid:
            return Start(where, uuid, offset)
        case Declared(span) if span.uuid == uuid:
            return Start(where, uuid, span.first, entry)
        case Settled() | Declared():
            return Start(where, uuid, None, old_life=True)


def objection(start: Start, entry: Entry | None, last: int | None) -> str | None:
    """Why it must not begin there, given the last offset that landed of this life of the topic; None if it may.

    The ledger must never be behind the table, else rows would land twice under other tokens. Ahead of it, somebody
    has set it: see `jump`.
    """
    if last is None:
        return None
    tail = f"the table holds offsets up to {last} of it: {_WHY_NOT}. {to_set(start.where, last + 1)}; {_TO_REPEAT}"
    match entry:
        case None:
            return f"the group has no offset of {start.where}, but {tail}"
        case Foreign(_, offset, why) if offset <= last or (offset > last + 1 and not entry.bare):
            return f"the group's offset {offset} of {start.where} is not ours ({why}), and {tail}"
        case Settled(_, uuid, offset) if uuid == start.uuid and last >= offset:
            return f"the group's offset {offset} of {start.where} was set back: {tail}"
        case Declared(span) if span.uuid == start.uuid and last >= span.first and last != span.last:
            return f"the group's declared span {span.first}-{span.last} of {start.where} is not the table's: {tail}"
        case Settled() | Declared() if start.old_life:
            return f"the group's offset of {start.where} is of a deleted topic of the same name, and {tail}"
        case _:
            return None


def jump(entry: Entry | None, last: int | None) -> tuple[int, int] | None:
    """The offsets (first, last) that somebody left out, by setting the group's offset to behind them with a tool."""
    match entry:
        case Foreign(_, offset) if last is not None and offset > last + 1:
            return last + 1, offset - 1
        case _:
            return None


_WHY_NOT: Final = "going on would store rows twice, or leave some out"
_TO_REPEAT: Final = "what is to be stored again is `warpmeter replay`'s, not the group's"


def to_set(where: Partition, offset: int) -> str:
    """What to do to let the group go on at `offset`."""
    return (
        "Stop all consumers (a killed one counts for its session timeout) and set the group's offset with Kafka's own "
        f"tools: kafka-consumer-groups.sh --reset-offsets --topic {where.topic}:{where.number} --to-offset {offset} "
        "--execute"
    )


def past_window(pending: Declared, now: float, inserts_since: int) -> bool:
    """Whether the store may have forgotten the token of a pending span."""
    return now - pending.at > WINDOW_S or inserts_since > WINDOW_INSERTS

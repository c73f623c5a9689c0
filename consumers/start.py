"""Where a partition begins: what the ledger says, held against the topic's id and against what has landed.

Pure functions; the loop asks the broker and the store and acts.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError

from warpmeter import bus
from warpmeter.consumers.ledger import Declared, Entry, Foreign, Settled
from warpmeter.consumers.span import Partition
from warpmeter.settings import Settings

# The tables' deduplication windows are 100,000 blocks and 7 days; a span may touch several daily partitions, and
# several partitions of the topic share the window. Well inside it, a replay is dropped for certain.
WINDOW_S: Final = 6 * 86_400.0
WINDOW_INSERTS: Final = 40_000


NAMED: Final = 8
"""So many partitions that must not begin are told of one by one; the command is for all."""


@dataclass(frozen=True)
class Tool:
    """How Kafka's own tool reaches the group; `secured`: the broker wants a login or TLS. `ledger` is the file in the
    group's place where there is one, which no tool can set."""

    bootstrap_servers: str = "HOST:PORT"
    group: str = "GROUP"
    secured: bool = False
    ledger: Path | None = None
    login: str = "this principal"

    @classmethod
    def of(cls, settings: Settings) -> "Tool":
        """The one for these settings."""
        folder, group = settings.ingest.ledger_dir, settings.ingest.group
        ledger = None if folder is None else folder / f"ledger-{group}.json"
        servers, login = settings.kafka.bootstrap_servers, bus.login(settings.kafka)
        return cls(servers, group, bus.secured(settings.kafka), ledger, login)

    def refused(self, error: object, topic: str | None) -> str:
        """What an error of the broker says to a person."""
        if not isinstance(error, KafkaError) or error.code() not in bus.FORBIDDEN:
            return str(error)
        grouped = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        right = f"group {self.group}" if grouped else f"topic {topic}"
        return bus.withheld(self.bootstrap_servers, self.login, f"Read on {right}")

    def to_set(self, offsets: Sequence[tuple[Partition, int]]) -> str:
        """The command that sets the group's offset of each partition, to be pasted into a shell."""
        group = f"--bootstrap-server {shlex.quote(self.bootstrap_servers)} --group {shlex.quote(self.group)}"
        login = " --command-config client.properties" if self.secured else ""
        tool = f"kafka-consumer-groups.sh {group}{login} --reset-offsets"
        if len(offsets) == 1:
            where, offset = offsets[0]
            return f"{tool} --topic {where.topic}:{where.number} --to-offset {offset} --execute"
        lines = " ".join(f"{where.topic},{where.number},{offset}" for where, offset in offsets)
        return f"echo {lines} | xargs -n1 > offsets.csv && {tool} --from-file offsets.csv --execute"


PLACEHOLDERS: Final = Tool()
"""For who does not know the settings."""


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


@dataclass(frozen=True)
class Wrong:
    """A partition that must not begin where the ledger says: why, and the offset to set.

    `otherwise`: what decides between that and another offset, in words; '' where nothing is to decide.
    """

    where: Partition
    why: str
    offset: int
    otherwise: str = ""


def wrong(start: Start, entry: Entry | None, last: int | None) -> Wrong | None:
    """Why it must not begin there, given the last offset that landed of this life of the topic; None if it may.

    The ledger must never be behind the table, else rows would land twice under other tokens. Ahead of it, somebody
    has set it: see `jump`.
    """
    if last is None or (why := _why_not(start, entry, last)) is None:
        return None
    return Wrong(start.where, f"{why} the table holds offsets up to {last} of it", last + 1)


def _why_not(start: Start, entry: Entry | None, last: int) -> str | None:
    match entry:
        case None:
            return f"the group has no offset of {start.where}, but"
        case Foreign(_, offset, why) if offset <= last or (offset > last + 1 and not entry.bare):
            return f"the group's offset {offset} of {start.where} is not ours ({why}), and"
        case Settled(_, uuid, offset) if uuid == start.uuid and last >= offset:
            return f"the group's offset {offset} of {start.where} was set back:"
        case Declared(span) if span.uuid == start.uuid and last >= span.first and last != span.last:
            return f"the group's declared span {span.first}-{span.last} of {start.where} is not the table's:"
        case Settled() | Declared() if start.old_life:
            return f"the group's offset of {start.where} is of a deleted topic of the same name, and"
        case _:
            return None


@dataclass(frozen=True)
class Group:
    """What the group and its topics are at one moment: the topics' lives, and the ledger's record of each partition."""

    ids: Mapping[str, str]
    entries: Mapping[Partition, Entry]

    def moved(self, later: "Group", where: Partition) -> bool:
        """Whether it is not the same later."""
        lives = self.ids.get(where.topic), later.ids.get(where.topic)
        return lives[0] != lives[1] or self.entries.get(where) != later.entries.get(where)


def compared(
    partitions: Collection[Partition], before: Group, last: Mapping[Partition, int], after: Group
) -> tuple[list[Wrong], list[Partition]]:
    """Who must not begin where the group is, by the last offsets that landed, which were read between the two; and of
    whom nobody can say, for the group went on meanwhile."""
    refused: list[Wrong] = []
    moved: list[Partition] = []
    for where in sorted(partitions):
        entry = before.entries.get(where)
        found = wrong(plan(where, before.ids[where.topic], entry), entry, last.get(where))
        if found is not None and before.moved(after, where):
            moved.append(where)
        elif found is not None:
            refused.append(found)
    return refused, moved


def objection(start: Start, entry: Entry | None, last: int | None, tool: Tool = PLACEHOLDERS) -> str | None:
    """What is `wrong` with this start, and what to do about it, in one message; None if it may begin."""
    found = wrong(start, entry, last)
    return None if found is None else remedy([found], tool)


def jump(entry: Entry | None, last: int | None) -> tuple[int, int] | None:
    """The offsets (first, last) that somebody left out, by setting the group's offset to behind them with a tool."""
    match entry:
        case Foreign(_, offset) if last is not None and offset > last + 1:
            return last + 1, offset - 1
        case _:
            return None


_WHY_NOT: Final = "going on would store rows twice, or leave some out"
_TO_REPEAT: Final = "what is to be stored again is `warpmeter replay`'s, not the group's"
_RESTORE: Final = (
    "Stop all consumers and restore {}, as it was; or start the embedded broker anew: its topics begin again then, and "
    "what they held and was not read is lost"
)
_STOP: Final = "Stop all consumers (a killed one counts for its session timeout)"


def remedy(found: Sequence[Wrong], tool: Tool) -> str:
    """What is wrong with these partitions, all of them, and the command that lets ingest go on."""
    if tool.ledger is not None:
        return f"{'; '.join(each.why for each in found[:NAMED])}: {_WHY_NOT}. {_RESTORE.format(tool.ledger)}"
    if len(found) == 1 and found[0].otherwise:
        return f"{found[0].why}. {_STOP} and {found[0].otherwise}: {tool.to_set([(found[0].where, found[0].offset)])}"
    told = "; ".join(each.why + (f" ({each.otherwise})" if each.otherwise else "") for each in found[:NAMED])
    more = f"; and {len(found) - NAMED} partitions more" if len(found) > NAMED else ""
    count = "" if len(found) == 1 else f"{len(found)} partitions must not begin where the group is: "
    offsets = "offset" if len(found) == 1 else "offsets"
    command = tool.to_set([(each.where, each.offset) for each in found])
    return (
        f"{count}{told}{more}: {_WHY_NOT}. {_STOP} and set the group's {offsets} with Kafka's own tools: {command} ; "
        f"{_TO_REPEAT}"
    )


def past_window(pending: Declared, now: float, inserts_since: int) -> bool:
    """Whether the store may have forgotten the token of a pending span."""
    return now - pending.at > WINDOW_S or inserts_since > WINDOW_INSERTS

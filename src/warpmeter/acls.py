"""Who may do what on the bus: the rights of each component, on Kafka's topics and groups, and nothing beyond.

`needs` is the table; `lacking` and `beyond` hold it against a broker's rules; all pure. `authorizer` asks brokers.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal

from warpmeter import bus
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Settings

Kind = Literal["topic", "group"]
Operation = Literal["Read", "Write", "Create", "Alter", "Describe", "DescribeConfigs", "AlterConfigs"]
Component = Literal["agent", "ingest", "scheduler", "web", "simulate", "topics", "check", "replay", "people", "reader"]

ALL: Final = tuple(TOPICS)
MEASURED: Final = tuple(name for name, topic in TOPICS.items() if topic.key == "host" and name != "capture-commands")
AGENT_WRITES: Final = (*MEASURED, "capture-events")
"""What agents publish. Commands are not among it: whoever writes them makes hosts trace."""
SIMULATED: Final = ("gpu-samples", "host-samples", "device-samples", "job-events", "stack-samples", "source-health")
READING_GROUPS: Final[Mapping[Component, str]] = {
    "agent": "agent",
    "scheduler": "capture-events",
    "web": "capture-events",
    "people": "capture-events",
    "replay": "replay",
    "reader": "tail",
}
"""As `Kafka.group` takes them. What reads partitions by itself joins no group and commits nothing, but librdkafka asks
for the coordinator of the name that it wants to be given: a right to describe."""
IMPLIED: Final[Mapping[str, frozenset[str]]] = {
    "Describe": frozenset({"Read", "Write", "Delete", "Alter"}),
    "DescribeConfigs": frozenset({"AlterConfigs"}),
}
"""Operations that come with others (https://kafka.apache.org/documentation/#operations_in_kafka)."""
MEANINGS: Final[Mapping[Component, str]] = {
    "agent": "`warpmeter agent`: writes what it measures, reads commands to its host",
    "ingest": "`warpmeter ingest`: reads all topics in its group, writes dead letters and its own health",
    "scheduler": "`warpmeter schedule`: is elected in its group, hears requests and events, commands, alerts, reports",
    "web": "`warpmeter web`: asks for captures, silences alerts, follows captures",
    "simulate": "`warpmeter simulate`: writes as agents do",
    "topics": "`warpmeter topics --create`: makes the topics and mends their settings",
    "check": "`warpmeter status`, `check`, `doctor`, `migrate`: look at topics and the group, and read no message",
    "replay": "`warpmeter replay`, `dead-letters replay`: read topics again in the place of ingest",
    "people": "`warpmeter capture`, `alerts silence`, `reports send`, `stacks import`: ask as the page does",
    "reader": "`warpmeter tail`, and whoever else reads the topics",
}


@dataclass(frozen=True, order=True)
class Right:
    """One operation on one topic or group, by its full name, or on all whose names begin so."""

    kind: Kind
    name: str
    operation: Operation
    prefixed: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}{'*' if self.prefixed else ''}"


@dataclass(frozen=True)
class _Needs:
    """Of one component: short names of topics, and full names of groups."""

    read: Sequence[str] = ()
    write: Sequence[str] = ()
    more: Mapping[Operation, Sequence[str]] = field(default_factory=dict)
    joins: Sequence[str] = ()
    describes: Sequence[str] = ()
    whole: Sequence[Operation] = ()


def _table(settings: Settings) -> dict[Component, _Needs]:
    ingest, elects = settings.ingest.group, settings.scheduler.group
    chosen = settings.ingest.topics or ALL
    alone = {component: (settings.kafka.group(part),) for component, part in READING_GROUPS.items()}
    return {
        "agent": _Needs(read=("capture-commands",), write=AGENT_WRITES, describes=alone["agent"]),
        "ingest": _Needs(read=chosen, write=("dead-letters", "source-health"), joins=(ingest,)),
        "scheduler": _Needs(
            read=("capture-requests", "capture-events", "alerts", "alert-words", "report-events"),
            write=(
                "capture-requests", "capture-schedules", "capture-commands", "capture-events", "alerts",
                "report-events",
            ),
            joins=(elects,),
            describes=alone["scheduler"],
        ),
        "web": _Needs(
            read=("capture-events",),
            write=("capture-requests", "capture-schedules", "capture-commands", "alert-words"),
            describes=alone["web"],
        ),
        "simulate": _Needs(write=SIMULATED, more={"DescribeConfigs": SIMULATED}),
        "topics": _Needs(whole=("Create", "Alter", "AlterConfigs")),
        "check": _Needs(more={"Describe": ALL, "DescribeConfigs": ALL}, describes=(ingest, elects)),
        "replay": _Needs(read=chosen, write=("dead-letters",), joins=(ingest,), describes=alone["replay"]),
        "people": _Needs(
            read=("capture-events",),
            write=(
                "capture-requests", "capture-schedules", "capture-commands", "alert-words", "report-events",
                "stack-samples",
            ),
            describes=alone["people"],
        ),
        "reader": _Needs(read=MEASURED, describes=alone["reader"]),
    }  # fmt: skip


def needs(settings: Settings) -> dict[Component, tuple[Right, ...]]:
    """The rights of each component, by the settings' prefix of topics and names of groups."""
    prefix = settings.kafka.topic_prefix
    return {component: tuple(sorted(_rights(prefix, each))) for component, each in _table(settings).items()}


def _rights(prefix: str, each: _Needs) -> set[Right]:
    topics: dict[Operation, Sequence[str]] = {"Read": each.read, "Write": each.write, **each.more}
    named = {Right("topic", TOPICS[t].full_name(prefix), operation) for operation, ts in topics.items() for t in ts}
    whole = {Right("topic", f"{prefix}.", operation, prefixed=True) for operation in each.whole}
    joined = {Right("group", group, "Read") for group in each.joins}
    return named | whole | joined | {Right("group", group, "Describe") for group in each.describes}


@dataclass(frozen=True, order=True)
class Rule:
    """One of the broker's access rules; `kind`, `operation` and `pattern` in Kafka's words."""

    kind: str
    name: str
    pattern: str
    principal: str
    operation: str
    allows: bool = True
    host: str = "*"

    def __str__(self) -> str:
        some = "*" if self.pattern == "prefixed" else ""
        may, where = "may" if self.allows else "may not", "" if self.host == "*" else f" from {self.host}"
        return f"{self.principal} {may} {self.operation} on {self.kind} {self.name}{some}{where}"

    def covers(self, right: Right, principal: str) -> bool:
        """Whether it speaks of that right, from wherever it is asked for."""
        implied = IMPLIED.get(right.operation, frozenset()) if self.allows else frozenset()
        return (
            self.kind == right.kind
            and self.principal in (principal, f"{principal.partition(':')[0]}:*")
            and self.operation in {right.operation, "All", *implied}
            and (self.host == "*" or not self.allows)
            and self._names(right)
        )

    def _names(self, right: Right) -> bool:
        if right.prefixed and not self.allows and self.name.startswith(right.name):
            return True  # one of the names that are meant
        if self.pattern == "prefixed":
            return right.name.startswith(self.name)
        return self.name == "*" or (self.name == right.name and not right.prefixed)


def lacking(rights: Iterable[Right], principal: str, rules: Sequence[Rule]) -> list[Right]:
    """Which of `rights` the rules do not give `principal`: not granted, or forbidden by a rule that denies."""
    out = []
    for right in rights:
        speaking = [rule.allows for rule in rules if rule.covers(right, principal)]
        if not speaking or not all(speaking):
            out.append(right)
    return out


def denial(right: Right, principal: str, rules: Iterable[Rule]) -> Rule | None:
    """A rule that denies it, if there is one: no grant outweighs that."""
    return next((rule for rule in rules if not rule.allows and rule.covers(right, principal)), None)


def beyond(rights: Sequence[Right], principal: str, rules: Sequence[Rule]) -> list[Rule]:
    """Rules that give `principal`, by name, more on topics and groups than `rights`."""
    known = {(right.kind, right.name, "prefixed" if right.prefixed else "literal", right.operation) for right in rights}
    own = [rule for rule in rules if rule.allows and rule.principal == principal and rule.kind in ("topic", "group")]
    return sorted(rule for rule in own if (rule.kind, rule.name, rule.pattern, rule.operation) not in known)


def shell(kafka: Kafka, principal: str, rights: Iterable[Right]) -> list[str]:
    """Calls of Kafka's own tool that grant `rights`, one for each kind and operation."""
    tool = f"kafka-acls.sh --bootstrap-server {shlex.quote(kafka.bootstrap_servers)}"
    login = " --command-config client.properties" if bus.secured(kafka) else ""
    start = f"{tool}{login} --add --allow-principal {shlex.quote(principal)}"
    lines = []
    for (kind, prefixed, operation), alike in groupby(sorted(rights, key=_alike), key=_alike):
        names = " ".join(f"--{kind} {shlex.quote(right.name)}" for right in alike)
        pattern = " --resource-pattern-type prefixed" if prefixed else ""
        lines.append(f"{start} --operation {operation}{pattern} {names}")
    return lines


def _alike(right: Right) -> tuple[str, bool, str]:
    return right.kind, right.prefixed, right.operation

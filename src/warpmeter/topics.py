"""The topics on the broker: what they should be, what differs, and how to mend it without touching a message.

`check` reads, `apply` mends what can be mended, `ensure` does both and says what is left. Nothing that an operator
raised (partitions, retention, sizes) is ever lowered.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from warpmeter import bus
from warpmeter.schemas.topics import HOUR_MS, TOPICS, Topic
from warpmeter.settings import Kafka

# `initial` is set when the topic is made and is the operator's from then on.
Rule = Literal["same", "at_least", "initial"]
TIMEOUT_S: Final = 15.0
CONNECT_S: Final = 5.0
SEEN_EVERY_S: Final = 0.1
REPLICAS: Final = 3
"""So many brokers can keep a message when one is away, and acknowledge one meanwhile."""
UNLIMITED: Final = "-1"
IN_SYNC: Final = "min.insync.replicas"
READ_AGAIN: Final = frozenset(
    {"capture-requests", "capture-schedules", "capture-events", "alerts", "alert-words", "report-events"}
)
"""What the scheduler that is elected reads from its start."""


class TopicsError(Exception):
    """The broker is away, or refuses; the message says which, and what to do."""


class ForbiddenError(TopicsError):
    """The broker answers, and this login may not."""


@dataclass(frozen=True)
class Option:
    """One configuration entry of a topic, and how strictly an existing topic is held to it."""

    key: str
    value: str
    rule: Rule

    def satisfied_by(self, has: str | None) -> bool:
        """Whether an existing topic's value will do; None is a broker that does not tell its defaults."""
        if self.rule == "initial" or has == self.value:
            return True
        if self.rule == "same" or has is None:
            return False
        return has == UNLIMITED or int(has) >= int(self.value)


@dataclass(frozen=True)
class Wanted:
    """One topic as it should be; `replication_factor` -1 leaves it to the broker."""

    name: str
    partitions: int
    replication_factor: int
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Found:
    """One topic as the broker has it; `replicas` is the least of its partitions."""

    partitions: int
    replicas: int
    config: Mapping[str, str | None]


@dataclass(frozen=True)
class Missing:
    """The topic is not there."""

    wanted: Wanted

    def __str__(self) -> str:
        return f"{self.wanted.name}: missing"


@dataclass(frozen=True)
class FewerPartitions:
    """Less parallelism than asked for. Adding some moves hosts to other partitions; no message is touched."""

    topic: str
    has: int
    wants: int

    def __str__(self) -> str:
        return f"{self.topic}: {self.has} partitions, wants {self.wants}"


@dataclass(frozen=True)
class FewerReplicas:
    """Less replication than asked for; only the cluster's own reassignment can change that.

    `held_back`: so many copies in sync are asked for, which is more than there are: nothing could be written.
    """

    topic: str
    has: int
    wants: int
    held_back: int | None = None

    def __str__(self) -> str:
        said = f"{self.topic}: {self.has} replicas, wants {self.wants}; use kafka-reassign-partitions"
        if self.held_back is None:
            return said
        return f"{said}, then min.insync.replicas = {self.held_back} can be set, and not before: none could be written"


@dataclass(frozen=True)
class ConfigDiffers:
    """One configuration entry that does not do; `has` is None when the broker does not tell."""

    topic: str
    key: str
    has: str | None
    wants: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.key} is {self.has or 'not set'}, wants {self.wants}"


Difference = Missing | FewerPartitions | FewerReplicas | ConfigDiffers


def done(difference: Difference) -> str:
    """What `apply` has done about a difference, in words."""
    match difference:
        case Missing(wanted):
            return f"{wanted.name}: created"
        case FewerPartitions(topic, has, wants):
            return f"{topic}: {has} partitions made {wants}"
        case ConfigDiffers(topic, key, has, wants):
            return f"{topic}: {key} was {has or 'not set'}, set to {wants}"
        case FewerReplicas():
            return f"{difference} (left as it is)"


def plan(kafka: Kafka, topics: Iterable[Topic] | None = None) -> tuple[Wanted, ...]:
    """The topics as the settings want them; `topics` defaults to all of the topic table."""
    return tuple(_wanted(kafka, topic) for topic in (TOPICS.values() if topics is None else topics))


def compare(wanted: Wanted, found: Found | None) -> list[Difference]:
    """What keeps one topic from being as wanted; empty when nothing does."""
    if found is None:
        return [Missing(wanted)]
    out: list[Difference] = []
    if found.partitions < wanted.partitions:
        out.append(FewerPartitions(wanted.name, found.partitions, wanted.partitions))
    differs = [
        ConfigDiffers(wanted.name, option.key, has, option.value)
        for option in wanted.options
        if not option.satisfied_by(has := found.config.get(option.key))
    ]
    too_many = [int(each.wants) for each in differs if each.key == IN_SYNC and int(each.wants) > found.replicas]
    if found.replicas < (wants := max(wanted.replication_factor, *too_many, 0)):
        out.append(FewerReplicas(wanted.name, found.replicas, wants, *too_many))
    return out + [each for each in differs if each.key != IN_SYNC or not too_many]


@dataclass(frozen=True)
class Copies:
    """How safe the topics are: brokers of the cluster, the topics that have one copy only, and those of which a copy is
    behind or away, as while a broker starts."""

    brokers: int
    single: tuple[str, ...]
    behind: tuple[str, ...] = ()

    @property
    def risky(self) -> bool:
        """There are brokers enough for more."""
        return bool(self.single) and self.brokers >= REPLICAS

    def __str__(self) -> str:
        """A sentence, or two; '' when there is nothing to say."""
        return "; ".join(part for part in (self._alone(), self._waits()) if part)

    def _waits(self) -> str:
        if not self.behind:
            return ""
        return (
            f"{len(self.behind)} topic(s) have a copy that is not in sync ({_shown(self.behind)}): a broker is away or "
            f"catches up; stop no other one until this is gone"
        )

    def _alone(self) -> str:
        if not self.single:
            return ""
        if self.brokers < REPLICAS:
            return f"{self.brokers} broker(s), one copy of every message: what a broker loses is lost"
        return (
            f"{len(self.single)} topic(s) have one copy of every message on a cluster of {self.brokers} brokers "
            f"({_shown(self.single)}): while that broker is away nothing "
            f"is taken, and what it loses is lost; use kafka-reassign-partitions.sh, and kafka.replication_factor = "
            f"{REPLICAS} for topics yet to be made"
        )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def copies(kafka: Kafka, topics: Iterable[Topic] | None = None, timeout_s: float = TIMEOUT_S) -> Copies:
    """How many copies the topics that exist have; raises TopicsError when the broker cannot be asked."""
    return _Admin(kafka, timeout_s).copies([topic.name for topic in plan(kafka, topics)])


def missing(kafka: Kafka, topics: Iterable[Topic] | None = None, timeout_s: float = TIMEOUT_S) -> list[str]:
    """Names of those that are not there, or not shown to a login that may not describe them; raises TopicsError."""
    return _Admin(kafka, timeout_s).missing([topic.name for topic in plan(kafka, topics)])


def check(kafka: Kafka, topics: Iterable[Topic] | None = None, timeout_s: float = TIMEOUT_S) -> tuple[Difference, ...]:
    """What differs on the broker, changing nothing; raises TopicsError when it cannot be asked."""
    wanted = plan(kafka, topics)
    found = _Admin(kafka, timeout_s).found([topic.name for topic in wanted])
    return tuple(difference for topic in wanted for difference in compare(topic, found.get(topic.name)))


def apply(kafka: Kafka, differences: Iterable[Difference], timeout_s: float = TIMEOUT_S) -> None:
    """Create what is missing, add partitions, set configuration; replicas are left alone.

    Harmless to repeat, and to run from several places at once. Raises TopicsError for what the broker refuses.
    """
    differences = tuple(differences)
    admin = _Admin(kafka, timeout_s)
    admin.create([each.wanted for each in differences if isinstance(each, Missing)])
    admin.add_partitions([each for each in differences if isinstance(each, FewerPartitions)])
    admin.configure([each for each in differences if isinstance(each, ConfigDiffers)])


def ensure(kafka: Kafka, topics: Iterable[Topic] | None = None, timeout_s: float = TIMEOUT_S) -> tuple[Difference, ...]:
    """Make the topics as wanted; returns what differed. Raises TopicsError as `check` and `apply` do."""
    chosen = None if topics is None else tuple(topics)
    if differences := check(kafka, chosen, timeout_s):
        apply(kafka, differences, timeout_s)
        _seen(kafka, chosen, timeout_s)
    return differences


def _seen(kafka: Kafka, topics: Sequence[Topic] | None, timeout_s: float) -> None:
    """Wait until the broker tells what was changed: a cluster's nodes learn of it one after the other."""
    deadline = time.monotonic() + timeout_s
    while any(not isinstance(each, FewerReplicas) for each in check(kafka, topics, timeout_s)):
        if time.monotonic() > deadline:
            return
        time.sleep(SEEN_EVERY_S)


def _wanted(kafka: Kafka, topic: Topic) -> Wanted:
    chosen = kafka.compression != Kafka().compression
    options = [
        Option("cleanup.policy", "delete", "same"),  # compaction would keep one sample a host
        _retention(kafka, topic),
        Option("max.message.bytes", str(topic.max_message_bytes), "at_least"),
        # By default as producers compress: the broker need not do it again. What the settings name is held to.
        Option("compression.type", kafka.compression, "same" if chosen else "initial"),
    ]
    if kafka.min_insync_replicas is not None:
        options.append(Option(IN_SYNC, str(kafka.min_insync_replicas), "same"))
    elif kafka.replication_factor >= 3:  # one replica may be away, and an acknowledged message is still on two
        options.append(Option(IN_SYNC, "2", "at_least"))
    partitions = 1 if topic.partitions == 1 else kafka.partitions or topic.partitions
    return Wanted(topic.full_name(kafka.topic_prefix), partitions, kafka.replication_factor, tuple(options))


def _retention(kafka: Kafka, topic: Topic) -> Option:
    """The table's at least; what the settings say of a topic just so, for then it is the operator's word."""
    hours = kafka.retention_hours.get(topic.name)
    if hours is None:
        return Option("retention.ms", str(topic.retention_ms), "at_least")
    return Option("retention.ms", UNLIMITED if math.isinf(hours) else str(round(hours * HOUR_MS)), "same")


def objection(kafka: Kafka) -> str:
    """Why topics cannot be as the settings want them; '' when they can."""
    copies, in_sync = kafka.replication_factor, kafka.min_insync_replicas
    if in_sync is not None and (in_sync < 1 or 0 < copies < in_sync):
        return f"kafka.min_insync_replicas = {in_sync} must lie between 1 and kafka.replication_factor ({copies})"
    for name, hours in kafka.retention_hours.items():
        if name not in TOPICS:
            return f"kafka.retention_hours names {name!r}, which is none of {', '.join(TOPICS)}"
        least = TOPICS[name].retention_ms / HOUR_MS if name in READ_AGAIN else 1.0
        if not hours >= least:
            why = f"{least:g} or more: whoever is elected reads it again" if name in READ_AGAIN else "1 or more, or inf"
            return f"kafka.retention_hours.{name} = {hours:g} must be {why}"
    return ""


class _Admin:
    """The few calls we make, with the broker's errors turned into what to do."""

    def __init__(self, kafka: Kafka, timeout_s: float) -> None:
        self._kafka, self._timeout_s = kafka, timeout_s
        try:
            self._client = bus.admin(kafka)
        except KafkaException as error:
            raise TopicsError(f"kafka.options cannot be used: {_reason(error)}") from error

    def found(self, names: Sequence[str]) -> dict[str, Found]:
        """Those of `names` that exist: of one that is being made, or removed, not all brokers know yet."""
        try:
            known = self._client.list_topics(timeout=min(CONNECT_S, self._timeout_s)).topics
        except KafkaException as error:
            raise self._explained(error, "read the list of topics") from error
        there = [name for name in names if name in known]
        config = self._config(there)
        return {
            name: Found(
                len(known[name].partitions),
                min((len(each.replicas) for each in known[name].partitions.values()), default=0),
                config[name],
            )
            for name in there
            if name in config
        }

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are not there, or are not shown to this login."""
        try:
            known = self._client.list_topics(timeout=min(CONNECT_S, self._timeout_s)).topics
        except KafkaException as error:
            raise self._explained(error, "read the list of topics") from error
        return [name for name in names if name not in known]

    def copies(self, names: Sequence[str]) -> Copies:
        """Brokers, which of `names` have one copy, and which lack one that is in sync."""
        try:
            found = self._client.list_topics(timeout=min(CONNECT_S, self._timeout_s))
        except KafkaException as error:
            raise self._explained(error, "read the list of topics") from error
        there = [(name, found.topics[name].partitions.values()) for name in names if name in found.topics]
        single = [name for name, parts in there if any(len(each.replicas) == 1 for each in parts)]
        behind = [name for name, parts in there if any(len(each.isrs) < len(each.replicas) for each in parts)]
        return Copies(len(found.brokers), tuple(single), tuple(behind))

    def create(self, topics: Sequence[Wanted]) -> None:
        """Create; a topic that somebody else has just made is fine."""
        if topics:
            new = [_new_topic(topic) for topic in topics]
            made = self._client.create_topics(new, operation_timeout=self._timeout_s, request_timeout=self._timeout_s)
            self._settle(made, "create", KafkaError.TOPIC_ALREADY_EXISTS)

    def add_partitions(self, topics: Sequence[FewerPartitions]) -> None:
        """Raise the number of partitions."""
        if topics:
            more = [NewPartitions(each.topic, each.wants) for each in topics]
            grown = self._client.create_partitions(
                more, operation_timeout=self._timeout_s, request_timeout=self._timeout_s
            )
            self._settle(grown, "add partitions to", KafkaError.INVALID_PARTITIONS)

    def configure(self, differences: Sequence[ConfigDiffers]) -> None:
        """Set configuration entries, leaving all others as they are."""
        if not differences:
            return
        changes = [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry(each.key, each.wants, incremental_operation=AlterConfigOpType.SET)
                    for each in differences
                    if each.topic == topic
                ],
            )
            for topic in sorted({each.topic for each in differences})
        ]
        altered = self._client.incremental_alter_configs(changes, request_timeout=self._timeout_s)
        self._settle({resource.name: future for resource, future in altered.items()}, "configure")

    def _config(self, names: Sequence[str]) -> dict[str, dict[str, str | None]]:
        if not names:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        out = {}
        for resource, future in self._client.describe_configs(asked, request_timeout=self._timeout_s).items():
            try:
                out[resource.name] = {key: entry.value for key, entry in future.result().items()}
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._explained(error, f"read the configuration of {resource.name}") from error
        return out

    def _settle(self, futures: Mapping[str, "Future[Any]"], verb: str, tolerated: int | None = None) -> None:
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                if tolerated is None or error.args[0].code() != tolerated:
                    raise self._explained(error, f"{verb} {name}") from error

    def _explained(self, error: KafkaException, what: str) -> TopicsError:
        code, servers = error.args[0].code(), self._kafka.bootstrap_servers
        if code in _FORBIDDEN:
            who, prefix = bus.login(self._kafka), self._kafka.topic_prefix
            return ForbiddenError(
                f"the broker forbids {who} to {what}; grant Describe, DescribeConfigs, Create, Alter and AlterConfigs "
                f"on topics {prefix}.* (`warpmeter acls` does it), or have an operator create them"
            )
        if code in bus.AWAY:
            return TopicsError(bus.said(error, self._kafka, self._client.complaint()))
        return TopicsError(f"cannot {what} at {servers}: {_reason(error)}")


_FORBIDDEN: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


def _new_topic(topic: Wanted) -> NewTopic:
    return NewTopic(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        config={option.key: option.value for option in topic.options},
    )


def _reason(error: KafkaException) -> str:
    return str(error.args[0].str())

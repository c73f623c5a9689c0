"""How far behind ingest is, what is declared and not settled, and what a consumer says of itself.

For `warpmeter status`, `warpmeter check` and `warpmeter migrate`. Every wait is bounded, whoever does not answer.
"""

import time
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from prometheus_client.parser import text_string_to_metric_families

from warpmeter import bus, store
from warpmeter.consumers.broker import uuid_of
from warpmeter.consumers.ledger import Declared, Entry, Foreign, LedgerError, Settled, decode
from warpmeter.consumers.ledger.file import is_held, ledger_path, read_records
from warpmeter.consumers.ledger.kafka import KafkaLedger
from warpmeter.consumers.sink import Away, Broken
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Group, Wrong, compared
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Metrics, Settings

TIMEOUT_S: Final = 5.0
PATIENCE_S: Final = 5
METRICS_S: Final = 2.0
SLOW_S: Final = 2.0
POLL_S: Final = 0.5
LOOKS: Final = 4
LOOK_AGAIN_S: Final = 0.5
"""Before the second look, twice as long before the third, and so on."""
DESCRIBE: Final = "Describe on the topics"
NOTHING: Final[Mapping[Partition, int]] = {}


@dataclass(frozen=True)
class Lag:
    """One partition: the last offset that landed (None: nothing yet), the broker's end, and the difference.

    `end` is a lower bound on the embedded broker, so `lag_messages` is too.
    """

    topic: str
    partition: int
    landed: int | None
    end: int
    lag_messages: int


def behind(
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    landed: Mapping[Partition, int],
    committed: Mapping[Partition, int] = NOTHING,
) -> list[Lag]:
    """The lag of every partition in `ends`; what retention took before anything landed is not behind any more.

    `committed` is the group's own position: what was refused, or left out, is behind it and in no table.
    """
    found = []
    for where, end in sorted(ends.items()):
        last = landed.get(where)
        reached = max(begins.get(where, 0), 0 if last is None else last + 1, committed.get(where, 0))
        found.append(Lag(where.topic, where.number, last, max(end, reached), max(0, end - reached)))
    return found


def subscribed(settings: Settings) -> dict[str, Topic]:
    """The topics that ingest reads, by full name."""
    names = settings.ingest.topics or tuple(TOPICS)
    return {TOPICS[name].full_name(settings.kafka.topic_prefix): TOPICS[name] for name in names}


def described(admin: AdminClient, topics: Sequence[str]) -> tuple[dict[str, str], list[Partition]]:
    """UUIDs and partitions of the topics that exist. Raises KafkaException when the broker cannot be asked."""
    ids, partitions = {}, []
    for name, future in admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S).items():
        try:
            topic = future.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code < 0 or code in bus.FORBIDDEN:  # below 0 is the client's own: the broker did not answer
                raise
            continue
        ids[name] = uuid_of(topic.topic_id)
        partitions += [Partition(name, item.id) for item in topic.partitions]
    return ids, partitions


def offsets(admin: AdminClient, partitions: Sequence[Partition], spec: OffsetSpec) -> dict[Partition, int]:
    """The offset that `spec` asks for, of each partition. Raises KafkaException."""
    asked = {TopicPartition(*where): spec for where in partitions}
    futures = admin.list_offsets(asked, request_timeout=TIMEOUT_S) if asked else {}
    return {Partition(item.topic, item.partition): future.result().offset for item, future in futures.items()}


def standing(settings: Settings, problems: list[str]) -> tuple[list[Mapping[str, Any]], Mapping[Partition, Entry]]:
    """The lag of each partition as rows, and the ledger's records; what could not be asked is added to `problems`."""
    topics = subscribed(settings)
    try:
        with bus.asking(settings.kafka) as admin:
            ids, partitions = described(admin, list(topics))
            begins = offsets(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            ends = offsets(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except KafkaException as error:
        problems.append(f"broker: {bus.said(error, settings.kafka, right=DESCRIBE)}")
        return [], {}
    if not ids:
        problems.append("none of the topics is there: run `warpmeter topics --create`")
    entries = recorded(settings, problems)
    committed = positions(entries, ids)
    landed = _landed(settings, topics, ids)
    if isinstance(landed, str):
        problems.append(f"store: {landed}")
        landed = {where: offset - 1 for where, offset in committed.items() if offset}
    return [asdict(row) for row in behind(begins, ends, landed, committed)], entries


def lag(settings: Settings, problems: list[str]) -> list[Mapping[str, Any]]:
    """The lag of each partition as rows; what could not be asked is added to `problems`."""
    return standing(settings, problems)[0]


def _landed(settings: Settings, topics: Mapping[str, Topic], ids: Mapping[str, str]) -> dict[Partition, int] | str:
    """Last offsets in the tables; or why the store does not say."""
    try:
        client = store.connect(settings.store, patience_s=PATIENCE_S)
    except store.ClickHouseError as error:
        return store.reason(error).splitlines()[0]
    with closing(client):
        history = ClickHouse(lambda: client, topics, {})
        found: dict[Partition, int] = {}
        for name, uuid in ids.items():
            last = history.last(name, uuid)
            if isinstance(last, Away | Broken):
                return last.why
            found |= {Partition(name, number): offset for number, offset in last.items()}
    return found


def positions(entries: Mapping[Partition, Entry], ids: Mapping[str, str]) -> dict[Partition, int]:
    """Up to which offset, by the ledger's records of the topics' present lives, all is stored, refused or left out."""
    found = {}
    for where, entry in entries.items():
        match entry:
            case Settled(_, uuid, offset) if uuid == ids.get(where.topic):
                found[where] = offset
            case Declared(span) if span.uuid == ids.get(where.topic):
                found[where] = span.first
            case Foreign(_, offset):
                found[where] = offset
    return found


@dataclass(frozen=True)
class Begins:
    """Where ingest may not begin: `refused`, and `moved`, of which nobody can say, for the group goes on.

    `running`: how many are at it, so that neither group nor tables stand still; nobody may set an offset then.
    """

    refused: Sequence[Wrong] = ()
    moved: Sequence[Partition] = ()
    running: int = 0


def refusals(settings: Settings, looks: int = LOOKS) -> Begins | str:
    """Where ingest would refuse to begin, as its own start looks at it; or why that cannot be told.

    What is landing looks wrong to who reads the group first and the tables then: the group is read again, and what is
    wrong is looked at `looks` times in all where it went on, or somebody is at it.
    """
    found = _begins(settings, None)
    for attempt in range(1, looks):
        if isinstance(found, str) or not (found.moved or (found.refused and found.running)):
            return found
        time.sleep(LOOK_AGAIN_S * attempt)
        found = _begins(settings, {*found.moved, *(each.where for each in found.refused)})
    return found


def _begins(settings: Settings, only: Collection[Partition] | None) -> Begins | str:
    """One look, at all partitions or some."""
    topics = subscribed(settings)
    try:
        with bus.asking(settings.kafka) as admin:
            ids, there = described(admin, list(topics))
            before = Group(ids, records(settings))
            landed = _landed(settings, topics, ids)
            if isinstance(landed, str):
                return landed
            after = Group(described(admin, list(topics))[0], records(settings))
            running = _running(settings)
    except (KafkaException, LedgerError) as error:
        return _said(error, settings)
    return Begins(*compared([each for each in there if only is None or each in only], before, landed, after), running)


def _running(settings: Settings) -> int:
    """How many ingest; on the embedded broker, which does not tell, 1 while the ledger is held; KafkaException else."""
    ingest = settings.ingest
    if ingest.ledger_dir is not None:
        return int(is_held(ingest.ledger_dir, ingest.group))
    return group_members(settings)


def recorded(settings: Settings, problems: list[str]) -> Mapping[Partition, Entry]:
    """The ledger's records, by partition; why they cannot be read is added to `problems`."""
    try:
        return records(settings)
    except LedgerError as error:
        problems.append(f"ledger: {error}")
        return {}


@dataclass(frozen=True)
class Member:
    """One consumer of the group, as the broker knows it: `client` names host and process, `host` is its address."""

    client: str
    host: str
    partitions: int


def members(settings: Settings) -> int | None:
    """How many consumers are in the group; None when the broker does not say, as the embedded one."""
    found = attending(settings)
    return None if found is None else len(found)


def attending(settings: Settings) -> Sequence[Member] | None:
    """The consumers of the group; None when the broker does not say, as the embedded one."""
    if settings.ingest.ledger_dir is not None:
        return None
    try:
        return group(settings)
    except KafkaException:
        return None


def group_members(settings: Settings) -> int:
    """How many consumers the group has; always 0 on the embedded broker, which does not tell. Raises KafkaException."""
    return len(group(settings))


def group(settings: Settings) -> Sequence[Member]:
    """The consumers of the group; none on the embedded broker, which does not tell. Raises KafkaException."""
    name, admin = settings.ingest.group, bus.admin(settings.kafka)
    try:
        found = bus.patiently(
            lambda: admin.describe_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result().members
        )
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise
    return [
        Member(each.client_id, each.host.removeprefix("/"), len(each.assignment.topic_partitions)) for each in found
    ]


def busy(settings: Settings) -> str | None:
    """Who may declare and insert spans at any moment, and what to do about it; None when nobody does.

    Raises LedgerError when nobody can tell, though something has landed before.
    """
    ingest = settings.ingest
    if ingest.ledger_dir is not None:
        runs = f"ingest runs, it holds the ledger in {ingest.ledger_dir}"
        held = is_held(ingest.ledger_dir, ingest.group)
        return f"{runs}: {_STOP_IT} (`warpmeter up` migrates as it starts)" if held else None
    try:
        count = group_members(settings)
    except KafkaException as error:
        if not _anything_landed(settings):
            return None
        raise LedgerError(_said(error, settings)) from error
    if not count:
        return None
    return (
        f"ingest runs, group {ingest.group} has {count} member(s): {_STOP_IT}; a killed one counts for its session "
        f"timeout ({ingest.session_timeout_s:g} s)"
    )


_STOP_IT: Final = "stop it everywhere, migrate, and start it again; agents may go on, the topics keep what they send"


@dataclass(frozen=True)
class Consumer:
    """What an ingest process says of itself. `state` is for `since_s` seconds (None: ok, or for no time).

    failing: inserts fail and are tried again; slow: one step has waited for the store for longer than two seconds.
    Rows, errors and losses are since its start. `group`: the consumer group that it is in, '' where it does not tell.
    """

    state: Literal["ok", "failing", "slow"]
    since_s: float | None
    rows: int
    failed_inserts: int
    lost_messages: int
    held_bytes: int
    group: str = ""


def consumer(metrics: Metrics, port: int) -> Consumer | None:
    """Ask the ingest process of this host through its own metrics; None when none answers."""
    try:
        with urllib.request.urlopen(f"http://{metrics.listen}:{port}/metrics", timeout=METRICS_S) as reply:
            text = reply.read().decode()
    except (OSError, ValueError):
        return None
    return said(text, time.time())


def said(text: str, now: float) -> Consumer:
    """A consumer's metrics, as Prometheus reads them, at Unix time `now`."""
    values: dict[str, float] = {}
    group = ""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            group = sample.labels["group"] if sample.name == "warpmeter_ingest_group" else group
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
    failing = values.get("warpmeter_ingest_failing_since_timestamp_seconds", 0.0)
    busy = values.get("warpmeter_ingest_busy_since_timestamp_seconds", 0.0)
    slow = bool(busy) and now - busy > SLOW_S
    began = failing or (busy if slow else 0.0)
    return Consumer(
        "failing" if failing else "slow" if slow else "ok",
        round(max(0.0, now - began), 1) if began else None,
        int(values.get("warpmeter_ingest_rows_total", 0)),
        int(values.get("warpmeter_ingest_store_errors_total", 0)),
        int(values.get("warpmeter_ingest_lost_messages_total", 0)),
        int(values.get("warpmeter_ingest_open_bytes", 0)),
        group,
    )


def declared(entries: Mapping[Partition, Entry]) -> list[dict[str, Any]]:
    """The spans among `entries` that are declared and not settled, as rows; `at` is Unix time."""
    return [
        {
            "topic": where.topic,
            "partition": where.number,
            "first": entry.span.first,
            "last": entry.span.last,
            "at": entry.at,
        }
        for where, entry in sorted(entries.items())
        if isinstance(entry, Declared)
    ]


def pending(settings: Settings) -> list[str]:
    """Tokens of spans that are declared and not settled: tables and views must not change under their replay.

    None are when nothing has ever landed. Raises LedgerError when the ledger cannot be read.
    """
    if not _anything_landed(settings):
        return []
    return sorted(entry.span.token for entry in records(settings).values() if isinstance(entry, Declared))


def _anything_landed(settings: Settings) -> bool:
    with store.connect(settings.store, database="default") as client:
        found = client.query(
            "SELECT count() FROM system.tables WHERE database = {database:String} AND name = 'ingest_batches'",
            {"database": settings.store.database},
        )
        if not found.result_rows[0][0]:
            return False
        rows = client.query(
            "SELECT count() FROM (SELECT 1 FROM {database:Identifier}.ingest_batches LIMIT 1)",
            {"database": settings.store.database},
        )
        return bool(rows.result_rows[0][0])


def records(settings: Settings) -> Mapping[Partition, Entry]:
    """The ledger's records of all partitions, as nobody of the group. Raises LedgerError."""
    if settings.ingest.ledger_dir is not None:
        stored = read_records(ledger_path(settings.ingest.ledger_dir, settings.ingest.group))
        return {where: decode(where, *record) for where, record in stored.items()}
    try:
        with bus.asking(settings.kafka) as admin:
            _, partitions = described(admin, list(subscribed(settings)))
    except KafkaException as error:
        raise LedgerError(_said(error, settings)) from error
    with closing(bus.consumer(settings.kafka, settings.ingest.group, {"log_level": 0})) as asking:
        try:
            return bus.patiently(lambda: _recalled(KafkaLedger(asking), partitions)) if partitions else {}
        except LedgerError as error:  # that the group may not be asked is an event of the consumer's own
            told = asking.poll(POLL_S)
            why = None if told is None else told.error()
            if why is not None and why.code() in bus.FORBIDDEN:
                raise LedgerError(_said(KafkaException(why), settings)) from error
            raise


def _said(error: KafkaException | LedgerError, settings: Settings) -> str:
    if isinstance(error, LedgerError):
        return str(error)
    grouped = error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    right = f"Describe on group {settings.ingest.group}" if grouped else DESCRIBE
    return bus.said(error, settings.kafka, right=right)


def _recalled(ledger: KafkaLedger, partitions: Sequence[Partition]) -> Mapping[Partition, Entry]:
    """As `recall`; raises KafkaException while the group's coordinator is being found."""
    try:
        return ledger.recall(partitions)
    except LedgerError as error:
        if isinstance(cause := error.__cause__, KafkaException) and bus.is_forming(cause):
            raise cause from error
        raise

"""How far behind ingest is, and what is declared and not settled: for `warpmeter status` and `warpmeter migrate`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from warpmeter import bus, store
from warpmeter.consumers.broker import uuid_of
from warpmeter.consumers.ledger import Declared, Entry, LedgerError, decode
from warpmeter.consumers.ledger_file import ledger_path, read_records
from warpmeter.consumers.ledger_kafka import KafkaLedger
from warpmeter.consumers.sink import Away, Broken, ClickHouse
from warpmeter.consumers.span import Partition
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Settings

TIMEOUT_S: Final = 5.0


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
    begins: Mapping[Partition, int], ends: Mapping[Partition, int], landed: Mapping[Partition, int]
) -> list[Lag]:
    """The lag of every partition in `ends`; what retention took before anything landed is not behind any more."""
    found = []
    for where, end in sorted(ends.items()):
        last = landed.get(where)
        reached = max(begins.get(where, 0), 0 if last is None else last + 1)
        found.append(Lag(where.topic, where.number, last, max(end, reached), max(0, end - reached)))
    return found


def _subscribed(settings: Settings) -> dict[str, Topic]:
    names = settings.ingest.topics or tuple(TOPICS)
    return {TOPICS[name].full_name(settings.kafka.topic_prefix): TOPICS[name] for name in names}


def _described(admin: AdminClient, topics: Sequence[str]) -> tuple[dict[str, str], list[Partition]]:
    """UUIDs and partitions of the topics that exist."""
    ids, partitions = {}, []
    for name, future in admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S).items():
        try:
            topic = future.result()
        except KafkaException as error:
            if error.args[0].retriable() and error.args[0].code() < 0:
                raise
            continue
        ids[name] = uuid_of(topic.topic_id)
        partitions += [Partition(name, item.id) for item in topic.partitions]
    return ids, partitions


def _offsets(admin: AdminClient, partitions: Sequence[Partition], spec: OffsetSpec) -> dict[Partition, int]:
    asked = {TopicPartition(*where): spec for where in partitions}
    futures = admin.list_offsets(asked, request_timeout=TIMEOUT_S) if asked else {}
    return {Partition(item.topic, item.partition): future.result().offset for item, future in futures.items()}


def lag(settings: Settings, problems: list[str]) -> list[Mapping[str, Any]]:
    """The lag of each partition as rows; what could not be asked is added to `problems`."""
    topics = _subscribed(settings)
    try:
        admin = bus.admin(settings.kafka)
        ids, partitions = _described(admin, list(topics))
        begins = _offsets(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = _offsets(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    except KafkaException as error:
        problems.append(f"broker {settings.kafka.bootstrap_servers}: {error.args[0].str()}")
        return []
    return [asdict(row) for row in behind(begins, ends, _landed(settings, topics, ids, problems))]


def _landed(
    settings: Settings, topics: Mapping[str, Topic], ids: Mapping[str, str], problems: list[str]
) -> dict[Partition, int]:
    history = ClickHouse(partial(store.client, settings.store), topics, {})
    found: dict[Partition, int] = {}
    for name, uuid in ids.items():
        try:
            last = history.last(name, uuid)
        except store.ClickHouseError as error:
            last = Away(str(error).splitlines()[0])
        if isinstance(last, Away | Broken):
            problems.append(f"store: {last.why}")
            break
        found |= {Partition(name, number): offset for number, offset in last.items()}
    return found


def pending(settings: Settings) -> list[str]:
    """Tokens of spans that are declared and not settled: tables and views must not change under their replay.

    None are when nothing has ever landed. Raises LedgerError when the ledger cannot be read.
    """
    if not _anything_landed(settings):
        return []
    return sorted(entry.span.token for entry in _records(settings).values() if isinstance(entry, Declared))


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


def _records(settings: Settings) -> Mapping[Partition, Entry]:
    if settings.ingest.ledger_dir is not None:
        records = read_records(ledger_path(settings.ingest.ledger_dir, settings.ingest.group))
        return {where: decode(where, *record) for where, record in records.items()}
    try:
        _, partitions = _described(bus.admin(settings.kafka), list(_subscribed(settings)))
    except KafkaException as error:
        raise LedgerError(f"broker {settings.kafka.bootstrap_servers}: {error.args[0].str()}; is it up?") from error
    consumer = bus.consumer(settings.kafka, settings.ingest.group)
    try:
        return KafkaLedger(consumer).recall(partitions) if partitions else {}
    finally:
        consumer.close()

"""The sink in ClickHouse, over HTTP or in this process."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError

from warpmeter import schema_lock
from warpmeter.cluster import QUORUM
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result, codes
from warpmeter.consumers.span import Span
from warpmeter.schemas.topics import Topic, row_type
from warpmeter.store import ONE_BLOCK as ONE_BLOCK
from warpmeter.store import ClickHouseError, Client, cause, code
from warpmeter.wire import joined

_IN_A_VIEW: Final = "while pushing to view "
_TARGET: Final = re.compile(r"Target table '([^']+)' of view")
_STATUS: Final = re.compile(r"HTTP (\d{3}) ")


def classified(table: str, code: int | None, cause: str) -> Refused | Away | Broken:
    """A store's error by its number (`codes`); what is not known to be the bytes' or permanent is tried again.

    `cause` is one line, as `store.cause` gives it. An error of the bytes within a view is the view's: the table takes
    the same bytes without it.
    """
    if code in codes.DATA:
        return Broken(f"cannot insert into {table}: {cause}") if _IN_A_VIEW in cause else Refused(cause)
    if code in codes.PERMANENT:
        return Broken(f"cannot insert into {table}: {cause}{codes.REMEDIES.get(code or 0, '')}")
    status = _STATUS.match(cause) if code is None else None
    if status is not None and (remedy := codes.PERMANENT_STATUSES.get(int(status[1]))):
        return Broken(f"cannot insert into {table}: {cause}; {remedy}")
    return Away(f"insert into {table}: {cause}{codes.REMEDIES.get(code or 0, '')}")


def inline_schema(topic: Topic) -> str:
    """The `.proto` as ClickHouse gets it with each insert, without comments: over HTTP it travels in the address."""
    return re.sub(r"\n\s*\n+", "\n", re.sub(r"[ \t]*//[^\n]*", "", topic.proto))


def insert_settings(topic: Topic) -> dict[str, str | int]:
    """Settings of every insert of a topic, without the token."""
    schema = {
        "format_schema_source": "string",
        "format_schema": inline_schema(topic),
        "format_schema_message_name": topic.message,
    }
    return {**ONE_BLOCK, **schema}


def garbled(topic: Topic, payload: bytes) -> bool:
    """Whether Protobuf itself cannot read the rows."""
    try:
        topic.envelope.FromString(payload)
    except DecodeError:
        return True
    return False


def columns(topic: Topic) -> list[str]:
    """The columns that every insert names: the message's fields.

    Without their names ClickHouse leaves out, in silence, what a field without a column holds.
    """
    return [field.name for field in row_type(topic.envelope).fields]


class ClickHouse:
    """Sink and History in ClickHouse, over HTTP or in this process. `client` gives the calling thread's client, `shard`
    that of the server that takes inserts of a partition, where not all go to the same.

    `topics` maps full names to the topic table's entries, `tables` full names to what inserts go to (a shard's own
    table, behind a Distributed one); `quorum` adds `insert_quorum = 'auto'`.
    """

    def __init__(
        self,
        client: Callable[[], Client],
        topics: Mapping[str, Topic],
        tables: Mapping[str, str],
        quorum: bool = False,
        failed: Callable[[float], None] = lambda _: None,
        shard: Callable[[int], Client] | None = None,
    ) -> None:
        self._client = client
        self._shard = shard or (lambda _: client())
        self._topics = topics
        self._tables = tables
        self._failed = failed
        extra: dict[str, str | int] = dict(QUORUM) if quorum else {}
        self._settings = {name: insert_settings(topic) | extra for name, topic in topics.items()}
        self._columns = {name: columns(topic) for name, topic in topics.items()}

    def insert(self, batch: Batch) -> Result:
        token = {"insert_deduplication_token": batch.token}
        to = (partial(self._shard, batch.span.partition), self._tables[batch.span.topic])
        return self._put(to, batch.span.topic, batch.kept_payloads, token)

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:
        return self._put((self._client, f"{self._topics[topic].table}_judge"), topic, payloads, {})

    def _put(
        self, to: tuple[Callable[[], Client], str], topic: str, payloads: Sequence[bytes], extra: Mapping[str, str]
    ) -> Result:
        (client, table), settings, since = to, {**self._settings[topic], **extra}, time.time()
        try:
            client().raw_insert(table, self._columns[topic], joined(payloads), settings, "ProtobufList")
        except ClickHouseError as error:
            self._failed(since)
            return self._found(table, topic, payloads, error)
        except OSError as error:
            return Away(f"insert into {table}: {error}")
        return Landed()

    def _found(self, table: str, topic: str, payloads: Sequence[bytes], error: ClickHouseError) -> Result:
        """What an error means. A length of 4 TiB inside a message is no error of the bytes to ClickHouse: its memory
        does not suffice, for now. Tried again for ever it would hold up the partition, so Protobuf is asked."""
        number = code(error)
        match classified(table, number, cause(error)):
            case Broken() as broken:
                return self._naming_views(broken)
            case Away() if number is not None and any(garbled(self._topics[topic], payload) for payload in payloads):
                return Refused(f"the bytes of a row do not parse as Protobuf: {cause(error)}")
            case found:
                return found

    def _naming_views(self, broken: Broken) -> Broken:
        """Of a view whose target is gone ClickHouse names the target and, as the view, the table before it."""
        target = _TARGET.search(broken.why)
        if target is None:
            return broken
        sql = (
            "SELECT concat(database, '.', name) FROM system.tables WHERE engine = 'MaterializedView' "
            "AND create_table_query LIKE concat('% TO ', {target:String}, ' %')"
        )
        rows = self._ask(sql, {"target": target[1]})
        names = ", ".join(row[0] for row in rows) if not isinstance(rows, Away | Broken) else ""
        return Broken(f"{broken.why}; the view is {names}") if names else broken

    def _ask(self, sql: str, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]] | Away | Broken:
        try:
            return self._client().query(sql, parameters=dict(parameters)).result_rows
        except ClickHouseError as error:
            said = cause(error)
            number = code(error)
            permanent = isinstance(classified("ingest_batches", number, said), Broken)
            remedy = codes.NOT_MIGRATED if number in (codes.NO_TABLE, codes.NO_DATABASE) else ""
            return (Broken if permanent else Away)(f"cannot read ingest_batches: {said}{remedy}")
        except OSError as error:
            return Away(f"cannot read ingest_batches: {error}")

    def ready(self) -> Away | Broken | None:
        rows = self._ask(schema_lock.AT_WORK, {})
        if isinstance(rows, Away | Broken):
            return rows
        match rows:
            case [(by, 1)]:
                return Broken(schema_lock.half_done(by))
            case [(by, _)]:
                return Away(f"a migration is at work ({by}): inserts wait for it")
            case _:
                return None

    def last(self, topic: str, uuid: str) -> Mapping[int, int] | Away | Broken:
        rows = self._ask(
            "SELECT partition, max(last) FROM ingest_batches "
            "WHERE table = {table:String} AND topic_uuid = {uuid:String} GROUP BY partition",
            {"table": self._topics[topic].table, "uuid": uuid},
        )
        return rows if isinstance(rows, Away | Broken) else {row[0]: row[1] for row in rows}

    def landed(self, span: Span) -> bool | Away | Broken:
        rows = self._ask(
            "SELECT count() FROM ingest_batches WHERE table = {table:String} AND token = {token:String}",
            {"table": self._topics[span.topic].table, "token": span.token},
        )
        return rows if isinstance(rows, Away | Broken) else bool(rows[0][0])

    def inserts_since(self, at: float) -> int | Away | Broken:
        rows = self._ask(
            "SELECT count() FROM ingest_batches WHERE inserted_at >= fromUnixTimestamp64Milli({at:Int64})",
            {"at": int(at * 1000)},
        )
        return rows if isinstance(rows, Away | Broken) else int(rows[0][0])

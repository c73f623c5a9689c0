"""The sink: a batch into its table as one block under its span's token, and what the store said, as a value."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from warpmeter.consumers.batch import Batch
from warpmeter.consumers.span import Span
from warpmeter.schemas.topics import Topic
from warpmeter.store import ClickHouseError, Client
from warpmeter.wire import joined


@dataclass(frozen=True)
class Landed:
    """It is in the table, now or since before."""


@dataclass(frozen=True)
class Refused:
    """The bytes are at fault: nothing of them is in the table."""

    why: str


@dataclass(frozen=True)
class Away:
    """The store could not do it now, or its reply was lost: the same again later."""

    why: str


@dataclass(frozen=True)
class Broken:
    """The store will never do it: table, schema, rights. Names table and cause."""

    why: str


Result = Landed | Refused | Away | Broken

# The whole insert is one block, so that a replay is the very same one; and a token goes on to the views.
# https://clickhouse.com/docs/operations/settings/settings
ONE_BLOCK: Final[Mapping[str, int]] = {
    "async_insert": 0,
    "max_insert_threads": 1,
    "input_format_parallel_parsing": 0,
    "max_insert_block_size": 1_000_000_000,
    "min_insert_block_size_rows": 1_000_000_000,
    "min_insert_block_size_bytes": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "insert_deduplicate": 1,
    # What a view makes of a block is aggregated already: collapsing it once more cost a third of the insert's CPU.
    "optimize_on_insert": 0,
    "parallel_view_processing": 1,
    # Times spread over more days than the default allows are no reason to refuse a batch for ever.
    "max_partitions_per_insert_block": 0,
}

# https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
DATA_ERRORS: Final = frozenset(
    {
        6,  # CANNOT_PARSE_TEXT
        25,  # CANNOT_PARSE_ESCAPE_SEQUENCE
        26,  # CANNOT_PARSE_QUOTED_STRING
        27,  # CANNOT_PARSE_INPUT_ASSERTION_FAILED
        32,  # ATTEMPT_TO_READ_AFTER_EOF
        33,  # CANNOT_READ_ALL_DATA
        38,  # CANNOT_PARSE_DATE
        41,  # CANNOT_PARSE_DATETIME
        69,  # ARGUMENT_OUT_OF_BOUND
        72,  # CANNOT_PARSE_NUMBER
        117,  # INCORRECT_DATA
        128,  # TOO_LARGE_ARRAY_SIZE
        131,  # TOO_LARGE_STRING_SIZE
        190,  # SIZES_OF_ARRAYS_DONT_MATCH
        321,  # VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
        349,  # CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
        407,  # DECIMAL_OVERFLOW
        441,  # CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING
        444,  # UNKNOWN_PROTOBUF_FORMAT
        469,  # VIOLATED_CONSTRAINT
        676,  # CANNOT_PARSE_IPV4
        677,  # CANNOT_PARSE_IPV6
        691,  # UNKNOWN_ELEMENT_OF_ENUM
    }
)
PERMANENT: Final = frozenset(
    {
        10,  # NOT_FOUND_COLUMN_IN_BLOCK
        16,  # NO_SUCH_COLUMN_IN_TABLE
        20,  # NUMBER_OF_COLUMNS_DOESNT_MATCH
        36,  # BAD_ARGUMENTS
        43,  # ILLEGAL_TYPE_OF_ARGUMENT
        44,  # ILLEGAL_COLUMN
        46,  # UNKNOWN_FUNCTION
        47,  # UNKNOWN_IDENTIFIER
        48,  # NOT_IMPLEMENTED
        50,  # UNKNOWN_TYPE
        53,  # TYPE_MISMATCH
        60,  # UNKNOWN_TABLE
        62,  # SYNTAX_ERROR
        73,  # UNKNOWN_FORMAT
        81,  # UNKNOWN_DATABASE
        115,  # UNKNOWN_SETTING
        164,  # READONLY
        192,  # UNKNOWN_USER
        193,  # WRONG_PASSWORD
        194,  # REQUIRED_PASSWORD
        195,  # IP_ADDRESS_NOT_ALLOWED
        291,  # DATABASE_ACCESS_DENIED
        433,  # PROTOBUF_BAD_CAST: a field's type and its column's do not go together
        434,  # PROTOBUF_FIELD_NOT_REPEATED
        436,  # CANNOT_PARSE_PROTOBUF_SCHEMA
        437,  # NO_COLUMN_SERIALIZED_TO_REQUIRED_PROTOBUF_FIELD
        452,  # SETTING_CONSTRAINT_VIOLATION
        497,  # ACCESS_DENIED
        516,  # AUTHENTICATION_FAILED
        671,  # NO_COLUMNS_SERIALIZED_TO_PROTOBUF_FIELDS
        720,  # USER_EXPIRED
    }
)


def classified(table: str, code: int | None, message: str) -> Refused | Away | Broken:
    """A store's error by its number; what is not known to be the bytes' or permanent is tried again.

    Too many parts (252), memory limit (241), timeouts (159, 209), the network (no number) are such.
    """
    cause = " ".join(message.split())[:500]
    if code in DATA_ERRORS:
        return Refused(cause)
    if code in PERMANENT:
        return Broken(f"cannot insert into {table}: {cause}")
    return Away(f"insert into {table}: {cause}")


class Sink(Protocol):
    """Where batches land. Every method may be called from one thread other than the loop's."""

    def insert(self, batch: Batch) -> Result:
        """Insert the batch's kept messages as one block; the same token again is dropped."""

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:
        """Whether the topic's table would take `payloads` as one insert; stores nothing."""


class History(Protocol):
    """What has landed, from `ingest_batches`."""

    def last(self, topic: str, uuid: str) -> Mapping[int, int] | Away | Broken:
        """Per partition, the last offset that landed of this life of the topic."""

    def landed(self, span: Span) -> bool | Away | Broken:
        """Whether this very span is there."""

    def inserts_since(self, topic: str, at: float) -> int | Away | Broken:
        """How many spans of the topic's table landed since `at`, seconds since the epoch."""


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


class ClickHouse:
    """Sink and History in ClickHouse, over HTTP or in this process. `client` gives the calling thread's client.

    `topics` maps full names to the topic table's entries, `tables` full names to what inserts go to (a shard's own
    table, behind a Distributed one); `quorum` adds `insert_quorum = 'auto'`.
    """

    def __init__(
        self,
        client: Callable[[], Client],
        topics: Mapping[str, Topic],
        tables: Mapping[str, str],
        quorum: bool = False,
    ) -> None:
        self._client = client
        self._topics = topics
        self._tables = tables
        extra: dict[str, str | int] = {"insert_quorum": "auto"} if quorum else {}
        self._settings = {name: insert_settings(topic) | extra for name, topic in topics.items()}

    def insert(self, batch: Batch) -> Result:
        token = {"insert_deduplication_token": batch.token}
        return self._put(self._tables[batch.span.topic], batch.span.topic, batch.body(), token)

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:
        return self._put(f"{self._topics[topic].table}_judge", topic, joined(payloads), {})

    def _put(self, table: str, topic: str, body: bytes, extra: Mapping[str, str]) -> Result:
        settings = {**self._settings[topic], **extra}
        try:
            self._client().raw_insert(table, insert_block=body, settings=settings, fmt="ProtobufList")
        except ClickHouseError as error:
            return classified(table, getattr(error, "code", None), str(error))
        except OSError as error:
            return Away(f"insert into {table}: {error}")
        return Landed()

    def _ask(self, sql: str, parameters: Mapping[str, object]) -> Sequence[Sequence[Any]] | Away | Broken:
        try:
            return self._client().query(sql, parameters=dict(parameters)).result_rows
        except ClickHouseError as error:
            found = classified("ingest_batches", getattr(error, "code", None), str(error))
            return Away(found.why) if isinstance(found, Refused) else found
        except OSError as error:
            return Away(f"reading ingest_batches: {error}")

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

    def inserts_since(self, topic: str, at: float) -> int | Away | Broken:
        rows = self._ask(
            "SELECT count() FROM ingest_batches "
            "WHERE table = {table:String} AND inserted_at >= fromUnixTimestamp64Milli({at:Int64})",
            {"table": self._topics[topic].table, "at": int(at * 1000)},
        )
        return rows if isinstance(rows, Away | Broken) else int(rows[0][0])


Rule = Callable[[bytes], str | None]


@dataclass
class MemorySink:
    """The twin: counts rows by token, drops a token it has seen, refuses payloads that `rule` objects to.

    `next_results` are handed out before anything else, one a call (an outage, a lost reply); `Landed` among them is a
    normal call. `lose_reply` lands and answers Away, as a cut connection does.
    """

    rule: Rule = lambda _: None
    rows: dict[Span, tuple[bytes, ...]] = field(default_factory=dict)
    next_results: list[Result] = field(default_factory=list)
    lose_reply: bool = False

    def insert(self, batch: Batch) -> Result:
        if self.next_results and not isinstance(result := self.next_results.pop(0), Landed):
            return result
        kept = [batch.payloads[index] for index in batch.kept]
        refused = self.ask(batch.span.topic, kept)
        if not isinstance(refused, Landed):
            return refused
        self.rows.setdefault(batch.span, tuple(kept))
        if self.lose_reply:
            self.lose_reply = False
            return Away("the connection was cut before the reply")
        return Landed()

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:
        why = next((why for payload in payloads if (why := self.rule(payload))), None)
        return Landed() if why is None else Refused(f"{topic}: {why}")

    def last(self, topic: str, uuid: str) -> Mapping[int, int] | Away | Broken:
        lasts: dict[int, int] = {}
        for span in self.rows:
            if (span.topic, span.uuid) == (topic, uuid):
                lasts[span.partition] = max(span.last, lasts.get(span.partition, -1))
        return lasts

    def landed(self, span: Span) -> bool | Away | Broken:
        return span in self.rows

    def inserts_since(self, topic: str, at: float) -> int | Away | Broken:  # noqa: ARG002
        return sum(span.topic == topic for span in self.rows)

    @property
    def stored(self) -> list[bytes]:
        """All payloads in the table, by span."""
        spans = sorted(self.rows, key=lambda span: (span.topic, span.uuid, span.partition, span.first))
        return [payload for span in spans for payload in self.rows[span]]

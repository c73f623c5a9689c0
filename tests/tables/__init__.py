"""Land rows in migrated tables as ingest does: one Protobuf insert, one token, one block."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from warpmeter.schemas.topics import TOPICS
from warpmeter.store import Client
from warpmeter.wire import joined, pack

UUID: Final = "5f1c7a1e-0000-4000-8000-000000000000"

# One insert, one block: see "Exactly once" in docs/architecture.md.
ONE_BLOCK: Final[Mapping[str, Any]] = {
    "async_insert": 0,
    "max_insert_threads": 1,
    "input_format_parallel_parsing": 0,
    "max_insert_block_size": 1_000_000_000,
    "min_insert_block_size_rows": 1_000_000_000,
    "min_insert_block_size_bytes": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
}


def row(topic: str, /, **fields: Any) -> Message:
    """A row message of a topic."""
    message = TOPICS[topic].envelope().rows.add(**fields)  # type: ignore[attr-defined]
    assert isinstance(message, Message)
    return message


def token(first: int, last: int, topic_uuid: str = UUID, partition: int = 0) -> str:
    """The token of a span."""
    return f"{topic_uuid}/{partition}/{first}-{last}"


def land(client: Client, topic: str, rows: Sequence[Message], insert_token: str = "", table: str = "") -> None:
    """Insert rows of a topic into its table (or `table`), under a token if there is one."""
    settings = {
        **ONE_BLOCK,
        "format_schema_source": "string",
        "format_schema": TOPICS[topic].proto,
        "format_schema_message_name": TOPICS[topic].message,
    }
    if insert_token:
        settings["insert_deduplication_token"] = insert_token
    client.raw_insert(
        table or TOPICS[topic].table,
        insert_block=joined([pack(TOPICS[topic], "k", rows).value]),
        fmt="ProtobufList",
        settings=settings,
    )


def ask(client: Client, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer."""
    return [tuple(found) for found in client.query(sql, parameters=parameters or None).result_rows]


def one(client: Client, sql: str, **parameters: Any) -> Any:
    """The single value of an answer."""
    ((value,),) = ask(client, sql, **parameters)
    return value

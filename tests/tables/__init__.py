"""Land rows in migrated tables as ingest does: one Protobuf insert, one token, one block."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import Message

from warpmeter.consumers.sink.clickhouse import insert_settings
from warpmeter.schemas.topics import TOPICS
from warpmeter.store import Client
from warpmeter.wire import joined, pack

UUID: Final = "5f1c7a1e-0000-4000-8000-000000000000"


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
    settings: dict[str, Any] = dict(insert_settings(TOPICS[topic]))
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

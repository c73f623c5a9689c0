"""Writing the answer: headers as ClickHouse names them, exceptions before and in the middle of a result."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from warpmeter.engine.compression import Encoder, Plain
from warpmeter.engine.errors import ClientGoneError, EngineError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_TYPES: Final = {
    "JSON": "application/json; charset=UTF-8",
    "XML": "application/xml; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "CSVWithNamesAndTypes": "text/csv; charset=UTF-8; header=present",
    "HTML": "text/html; charset=UTF-8",
    "Markdown": "text/markdown; charset=UTF-8",
    "Prometheus": "text/plain; version=0.0.4; charset=UTF-8",
}
_BINARY: Final = ("Native", "RowBinary", "Arrow", "Parquet", "ORC", "Avro", "Protobuf", "MsgPack", "CapnProto", "BSON")


STALLED_S: Final = 60.0
_PIECE: Final = 64 << 10


def impatient(send: Send, seconds: float) -> Send:
    """`send` that raises ClientGoneError when the client takes nothing, or less than a piece of 64 KiB, for so long."""

    async def within(message: Message) -> None:
        try:
            async with asyncio.timeout(seconds):
                await send(message)
        except TimeoutError as error:
            raise ClientGoneError from error

    return within


def content_type(name: str) -> str:
    """The media type of a format's bytes."""
    if name in _TYPES:
        return _TYPES[name]
    if name.startswith("JSON") and "EachRow" in name:
        return "application/x-ndjson; charset=UTF-8"
    if name.startswith("JSON"):
        return _TYPES["JSON"]
    if name.startswith(("TSV", "TabSeparated")):
        return "text/tab-separated-values; charset=UTF-8"
    return "application/octet-stream" if name.startswith(_BINARY) else "text/plain; charset=UTF-8"


@dataclass(frozen=True)
class Server:
    """What every answer says of the engine."""

    version: str
    timezone: str
    name: str


class Answer:
    """One answer: nothing is sent until `begin`, so a failure before it still has its own status."""

    def __init__(
        self, send: Send, server: Server, query_id: str, head: bool = False, packed: Encoder | None = None
    ) -> None:
        """`packed` is for the text of an exception, where the client asked for ClickHouse's own compression."""
        self._send = send
        self._server = server
        self._query_id = query_id
        self._head = head
        self._tag = secrets.token_hex(8)
        self._packed: Encoder = packed or Plain()
        self._encoder: Encoder = Plain()
        self.begun = False
        self.status = 0

    async def begin(
        self,
        status: HTTPStatus,
        headers: Mapping[str, str],
        encoding: tuple[str, Encoder] = ("", Plain()),
        length: int | None = None,
    ) -> None:
        """Send the head; `length`, when it is known, is of the bytes as sent."""
        name, self._encoder = encoding
        full = {
            "X-ClickHouse-Server-Display-Name": self._server.name,
            "X-ClickHouse-Timezone": self._server.timezone,
            "X-ClickHouse-Query-Id": self._query_id,
            "X-ClickHouse-Exception-Tag": self._tag,
            **headers,
        }
        if name:
            full["Content-Encoding"] = name
        if length is not None:
            full["Content-Length"] = str(length)
        self.begun, self.status = True, int(status)
        raw = [(key.encode("latin-1"), value.encode("latin-1", "replace")) for key, value in full.items()]
        await self._send({"type": "http.response.start", "status": int(status), "headers": raw})

    async def write(self, chunk: bytes) -> None:
        """Send some of the body. Raises ClientGoneError when the client does not take it."""
        out = self._encoder.add(chunk)
        for at in range(0, 0 if self._head else len(out), _PIECE):
            await self._send({"type": "http.response.body", "body": out[at : at + _PIECE], "more_body": True})

    async def end(self) -> None:
        """Send what the encoder holds, and end."""
        last = b"" if self._head else self._encoder.end()
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def whole(self, status: HTTPStatus, headers: Mapping[str, str], body: bytes) -> None:
        """An answer in one piece, not compressed."""
        await self.begin(status, headers, length=len(body))
        await self.write(body)
        await self.end()

    async def fail(self, error: EngineError) -> None:
        """Tell the client: by status and header before the head is sent, by a tagged block in the body after.

        After the block the connection is cut without the end of the body, so that no client takes it for whole.
        """
        message = f"{error.text} (version {self._server.version})\n".encode()
        if not self.begun:
            headers = {"Content-Type": "text/plain; charset=UTF-8", "X-ClickHouse-Exception-Code": str(error.code)}
            return await self.whole(error.status, headers, self._packed.add(message))
        tag = self._tag.encode()
        block = b"\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n" % (tag, message, len(message), tag)
        last = self._encoder.add(block) + self._encoder.end()
        await self._send({"type": "http.response.body", "body": last, "more_body": True})

"""The libraries of the pages: compressed once a process, not once a reader."""

import zlib
from typing import Final

from fastapi.concurrency import run_in_threadpool

from warpmeter.web.joined import Answer, answered
from warpmeter.web.security.gate import App, Message, Receive, Scope, Send

FILES: Final = "/_nicegui/"
LASTING: Final = b"max-age="
CONDITIONS: Final = frozenset({b"range", b"if-none-match", b"if-modified-since"})
MOST_BYTES: Final = 16 << 20
"""Of all that is kept; the libraries of every page come to about 2 MB."""
LEVEL: Final = 6
SMALL: Final = 1000


class Kept:
    """ASGI middleware before the pages: files that may be cached are kept as they go over the wire.

    Opening a page for the first time takes a megabyte of scripts, which would otherwise cost each new reader a seventh
    of a second of this process, in which nobody's questions are answered. What is asked for with conditions, or by who
    does not take gzip, is not kept.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._kept: dict[str, Answer] = {}
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from what is kept, else have it answered and keep it."""
        if not _may_be_kept(scope):
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        answer = self._kept.get(path)
        if answer is None:
            answer = await self._packed(path, await answered(self._app, scope))
        for message in answer:
            await send({**message, "headers": list(message["headers"])} if "headers" in message else message)

    async def _packed(self, path: str, answer: Answer) -> Answer:
        start, body = answer[0], b"".join(message.get("body", b"") for message in answer[1:])
        headers = dict(start["headers"])
        lasting = start["status"] == 200 and LASTING in headers.get(b"cache-control", b"")
        if not lasting or len(body) < SMALL or b"content-encoding" in headers or self._bytes > MOST_BYTES:
            return answer
        packed = await run_in_threadpool(_gzip, body)
        if path not in self._kept:
            self._bytes += len(packed)
        self._kept[path] = _whole(headers, packed)
        return self._kept[path]


def _may_be_kept(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(FILES):
        return False
    headers = dict(scope["headers"])
    return b"gzip" in headers.get(b"accept-encoding", b"") and not CONDITIONS & headers.keys()


def _whole(headers: dict[bytes, bytes], packed: bytes) -> Answer:
    told = {name: value for name, value in headers.items() if name not in (b"accept-ranges", b"content-length")}
    told |= {
        b"content-encoding": b"gzip",
        b"content-length": str(len(packed)).encode(),
        b"vary": b"accept-encoding",
        b"etag": b"W/" + headers.get(b"etag", b'""').removeprefix(b"W/"),
    }
    start: Message = {"type": "http.response.start", "status": 200, "headers": list(told.items())}
    return [start, {"type": "http.response.body", "body": packed}]


def _gzip(content: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()

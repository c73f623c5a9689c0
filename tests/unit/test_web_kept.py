"""The libraries of the pages are compressed once a process; what may not be kept is asked for anew."""

import asyncio
import gzip
from typing import Any

import pytest

from warpmeter.web.kept import Kept
from warpmeter.web.security.gate import Message

PATH = "/_nicegui/3/static/a.js"
CONTENT = b"let a = 1;\n" * 1000


class Files:
    """An application with one file, that counts how often it is asked."""

    def __init__(self, cache: bytes = b"public, max-age=3600", status: int = 200, content: bytes = CONTENT) -> None:
        self.asked = 0
        self.cache, self.status, self.content = cache, status, content

    async def __call__(self, _: Message, __: Any, send: Any) -> None:
        self.asked += 1
        headers = [(b"content-type", b"text/javascript"), (b"etag", b'"e"'), (b"accept-ranges", b"bytes")]
        headers += [(b"content-length", str(len(self.content)).encode()), (b"cache-control", self.cache)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.content[:100], "more_body": True})
        await send({"type": "http.response.body", "body": self.content[100:]})


def told(kept: Kept, path: str = PATH, method: str = "GET", **headers: str) -> tuple[dict[bytes, bytes], bytes]:
    messages: list[Message] = []

    async def send(message: Message) -> None:
        message.get("headers", []).append((b"x-of", b"one"))
        messages.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    named = {"accept-encoding": "gzip, br"} | {name.replace("_", "-"): value for name, value in headers.items()}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    asyncio.run(kept({"type": "http", "method": method, "path": path, "headers": pairs}, receive, send))
    start, *bodies = messages
    assert [name for name, _ in start["headers"]].count(b"x-of") == 1
    return dict(start["headers"]), b"".join(each["body"] for each in bodies)


def test_a_file_is_compressed_once_and_whole() -> None:
    files = Files()
    kept = Kept(files)
    for _ in range(3):
        headers, body = told(kept)
        assert gzip.decompress(body) == CONTENT
        assert headers[b"content-encoding"] == b"gzip"
        assert headers[b"content-length"] == str(len(body)).encode()
        assert headers[b"etag"] == b'W/"e"'
        assert headers[b"cache-control"] == b"public, max-age=3600"
        assert headers[b"vary"] == b"accept-encoding"
        assert b"accept-ranges" not in headers
    assert files.asked == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"accept_encoding": "identity"},
        {"range": "bytes=0-9"},
        {"if_none_match": '"e"'},
        {"method": "POST"},
        {"path": "/"},
        {"path": "/api/v1/hosts"},
    ],
)
def test_what_is_asked_otherwise_is_answered_by_the_application(asked: dict[str, str]) -> None:
    files = Files()
    kept = Kept(files)
    for _ in range(2):
        headers, body = told(kept, **asked)
        assert body == CONTENT
        assert b"content-encoding" not in headers
    assert files.asked == 2


@pytest.mark.parametrize(
    "files",
    [Files(cache=b"private, no-cache"), Files(status=404), Files(content=CONTENT[:500])],
    ids=("no-cache", "404", "small"),
)
def test_what_does_not_last_or_is_small_is_not_kept(files: Files) -> None:
    kept = Kept(files)
    for _ in range(2):
        assert told(kept)[1] == files.content
    assert files.asked == 2

"""Many who ask the same at once: one answer is worked out, each has it whole, and nobody's leaving spoils it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from warpmeter.web.joined import Joined
from warpmeter.web.request.access import Caller
from warpmeter.web.security.gate import Message

PATH = "/api/v1/fleet/states"


class Slow:
    """An application that answers when it is let, and counts what it was asked."""

    def __init__(self, error: bool = False) -> None:
        self.asked: list[str] = []
        self.go = asyncio.Event()
        self.error = error

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
        await self.go.wait()
        if self.error:
            raise OSError("in a test")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": str(len(self.asked)).encode()})


def scope(path: str = PATH, query: bytes = b"", method: str = "GET", **headers: str) -> Message:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "query_string": query, "headers": named}


async def asks(app: Joined, of: Message) -> list[Message]:
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        message.get("headers", []).append((b"x-of", b"one"))
        told.append(message)

    await app(of, receive, send)
    return told


def run(story: Callable[[Slow, Joined], Awaitable[None]], error: bool = False) -> None:
    async def whole() -> None:
        slow = Slow(error)
        await story(slow, Joined(slow))

    asyncio.run(whole())


async def begun(*these: Awaitable[Any]) -> list[asyncio.Future[Any]]:
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(each) for each in these]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_who_asks_meanwhile_has_the_same_answer_and_who_asks_later_a_new_one() -> None:
    async def story(slow: Slow, app: Joined) -> None:
        many = await begun(*(asks(app, scope()) for _ in range(50)))
        slow.go.set()
        answers = await asyncio.gather(*many)
        assert slow.asked == [PATH]
        assert {answer[1]["body"] for answer in answers} == {b"1"}
        assert {tuple(answer[0]["headers"]) for answer in answers} == {((b"a", b"b"), (b"x-of", b"one"))}
        assert (await asks(app, scope()))[1]["body"] == b"2"

    run(story)


@pytest.mark.parametrize(
    "other",
    [
        scope(query=b"since=-1h"),
        scope(accept_encoding="gzip"),
        scope(if_none_match='"a"'),
        scope(path="/api/v1/hosts"),
        scope(path="/api/v1/session"),
        scope(method="HEAD"),
        {**scope(), "state": {"caller": Caller("eve", "viewer")}},
    ],
)
def test_who_asks_something_else_has_an_answer_of_their_own(other: Message) -> None:
    async def story(slow: Slow, app: Joined) -> None:
        both = await begun(asks(app, scope()), asks(app, other))
        slow.go.set()
        await asyncio.gather(*both)
        assert len(slow.asked) == 2

    run(story)


@pytest.mark.parametrize("of", [scope(path="/api/v1/session"), scope(path="/api/v1/captures")])
def test_what_is_somebodys_own_is_never_shared(of: Message) -> None:
    async def story(slow: Slow, app: Joined) -> None:
        both = await begun(asks(app, of), asks(app, of))
        slow.go.set()
        await asyncio.gather(*both)
        assert len(slow.asked) == 2

    run(story)


def test_the_first_may_leave() -> None:
    async def story(slow: Slow, app: Joined) -> None:
        first, second = await begun(asks(app, scope()), asks(app, scope()))
        first.cancel()
        slow.go.set()
        assert (await second)[1]["body"] == b"1"

    run(story)


def test_a_failure_is_everybodys_and_the_next_asks_anew() -> None:
    async def story(slow: Slow, app: Joined) -> None:
        both = await begun(asks(app, scope()), asks(app, scope()))
        slow.go.set()
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [str(each) for each in found] == ["in a test"] * 2
        with pytest.raises(OSError, match="in a test"):
            await asks(app, scope())
        assert len(slow.asked) == 2

    run(story, error=True)

"""Clients that stop taking their answer, on the application itself, so that the wait is a short one."""

import asyncio
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from warpmeter.engine.app import App
from warpmeter.engine.session import Engine

STALLED_S = 1.0
SLOW_S = 3.0
"""For a reader that is slow and no more: a machine that stands still for a moment must not make it a stalled one."""
READERS = 4


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    (tmp_path / "data").mkdir()
    engine = Engine(tmp_path / "data", tmp_path, "default")
    found = App(engine, "token", threads=1, stalled_s=getattr(request, "param", STALLED_S))
    yield found
    found.close()
    engine.close()


class Client:
    """One request of a client that takes `pieces` pieces of the answer, one every `pause_s`, and then none."""

    def __init__(self, sql: bytes, pieces: int = 1 << 30, pause_s: float = 0.0) -> None:
        self.body = b""
        self._left = pieces
        self._pause_s = pause_s
        self._asked = [{"type": "http.request", "body": sql, "more_body": False}]

    async def receive(self) -> MutableMapping[str, Any]:
        """The request, and then nothing: the client stays."""
        if not self._asked:
            await asyncio.Event().wait()
        return dict(self._asked.pop())

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Take a piece, or take none for ever."""
        self._left -= 1
        if self._left < 0:
            await asyncio.Event().wait()
        await asyncio.sleep(self._pause_s)
        self.body += message.get("body", b"")

    async def ask(self, app: App) -> bytes:
        """The answer's body, as far as it came."""
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
        await asyncio.wait_for(app(scope, self.receive, self.send), timeout=120)
        return self.body


ENDLESS = b"SELECT * FROM numbers(1000000000000)"


def test_stalled_readers_make_room_and_their_queries_end(app: App) -> None:
    async def scene() -> tuple[bytes, bytes]:
        stalled = [asyncio.create_task(Client(ENDLESS, pieces=2).ask(app)) for _ in range(READERS * 2)]
        said = await Client(b"SELECT 1").ask(app)
        await asyncio.gather(*stalled)
        running, until = b"", time.monotonic() + 60
        while running != b"1\n" and time.monotonic() < until:  # the engine takes a moment to end what was killed
            await asyncio.sleep(0.05)
            running = await Client(b"SELECT count() FROM system.processes WHERE query LIKE '%00000%'").ask(app)
        return said, running

    assert asyncio.run(scene()) == (b"1\n", b"1\n")


@pytest.mark.parametrize("app", [SLOW_S], indirect=True)
def test_a_slow_reader_is_no_stalled_one(app: App) -> None:
    slow, begun = Client(b"SELECT * FROM numbers(120000)", pause_s=SLOW_S / 10), time.monotonic()
    assert asyncio.run(slow.ask(app)).endswith(b"\n119999\n")
    assert time.monotonic() - begun > SLOW_S, "it is no test where all is taken in the time of one piece"

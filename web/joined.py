"""Many who look at the same at once are given one answer: a fleet's page is not worked out anew for each of them."""

import asyncio
from collections.abc import Sequence
from typing import Final

from warpmeter.web.api import PREFIX
from warpmeter.web.request.access import Role
from warpmeter.web.security.gate import App, Message, Receive, Scope, Send

NAMES: Final = ("fleet/", "heatmap", "series", "hosts", "jobs", "gpus", "stacks/", "queries/live_")
SHARED: Final = tuple(f"{PREFIX}/{name}" for name in NAMES)
"""What is the same for whoever may ask: statistics, never what somebody wrote."""
HEADERS: Final = (b"accept-encoding", b"if-none-match")
"""What an answer depends on beside its address."""

Key = tuple[str, bytes, Role | None, tuple[tuple[bytes, bytes], ...]]
Answer = Sequence[Message]


class Joined:
    """ASGI middleware behind the gate: who asks what is being worked out waits for that answer.

    So a crowd costs no more than one who asks again and again, and nothing is kept once it is told. An answer is as old
    as it takes to work it out, at most. It goes on for the others when the first one leaves.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._going: dict[Key, asyncio.Task[Answer]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it, alone or with others."""
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(SHARED):
            await self._app(scope, receive, send)
            return
        key = _key(scope)
        going = self._going.get(key)
        if going is None:
            going = self._going[key] = asyncio.create_task(answered(self._app, scope))
            going.add_done_callback(lambda _: self._going.pop(key, None))
        for message in await asyncio.shield(going):
            await send(_own(message))


def _key(scope: Scope) -> Key:
    """What two requests must have in common for one answer: what one role may see, another may not."""
    caller = scope.get("state", {}).get("caller")
    told = tuple(pair for pair in scope["headers"] if pair[0] in HEADERS)
    return scope["path"], scope["query_string"], caller.role if caller else None, told


async def answered(app: App, scope: Scope) -> Answer:
    """What the application sends to a client that has said all and stays until the end."""
    told: list[Message] = []
    said = False

    async def receive() -> Message:
        nonlocal said
        if said:
            await asyncio.Event().wait()
        said = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await app(scope, receive, send)
    return told


def _own(message: Message) -> Message:
    """One client's copy: who sends it on adds headers to it."""
    return {**message, "headers": list(message["headers"])} if "headers" in message else message

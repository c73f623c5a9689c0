"""Connections that do not come to ask for anything: they are closed, so that nobody takes all of them by silence."""

import asyncio
from collections import Counter
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S: Final = 10
"""From the connection, or from its next request's first byte, to the end of the request's headers."""
BODY_S: Final = 20
"""From there to the end of its body."""
SHARE: Final = 4
"""An address has one in so many of all connections at most, websockets apart: those are of who is known."""

_held: Counter[str] = Counter()
"""Connections by the address of their other end."""


class Waiting(HttpToolsProtocol):
    """Uvicorn's protocol, which itself waits for ever until a request is there, and takes any number from anybody.

    Between requests its own timeout holds, and of what is answered the limits of queries.
    """

    _late: asyncio.TimerHandle | None = None
    _holder: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The time runs; one too many from its address ends at once."""
        super().connection_made(transport)
        self._holder = self.client[0] if self.client else ""
        _held[self._holder] += 1
        self._await(HEADERS_S)
        if self.limit_concurrency is not None and _held[self._holder] > self.limit_concurrency // SHARE:
            transport.abort()

    def on_message_begin(self) -> None:
        """The time runs, for a request that is not the first one."""
        super().on_message_begin()
        if self._late is None:
            self._await(HEADERS_S)

    def on_headers_complete(self) -> None:
        """In time; now for the body."""
        self._await(BODY_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """In time."""
        self._settle()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """From here on it is another protocol's."""
        self._settle()
        self._release()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._settle()
        self._release()
        super().connection_lost(exc)

    def _await(self, seconds: float) -> None:
        self._settle()
        self._late = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _settle(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _release(self) -> None:
        if self._holder is None:
            return
        _held[self._holder] -= 1
        if not _held[self._holder]:
            del _held[self._holder]
        self._holder = None

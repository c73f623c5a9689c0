"""Connections that do not come to ask for anything: they are closed, so that nobody takes all of them by silence."""

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S: Final = 10
"""From the connection, or from its next request's first byte, to the end of the request's headers."""


class Waiting(HttpToolsProtocol):
    """Uvicorn's protocol, which itself waits for ever until a connection's first request is there.

    Between requests its own timeout holds, and of what is answered the limits of queries.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The time runs."""
        super().connection_made(transport)
        self._await_headers()

    def on_message_begin(self) -> None:
        """The time runs, for a request that is not the first one."""
        super().on_message_begin()
        self._await_headers()

    def on_headers_complete(self) -> None:
        """In time."""
        self._settle()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._settle()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        self._late = self._late or self.loop.call_later(HEADERS_S, self.timeout_keep_alive_handler)

    def _settle(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

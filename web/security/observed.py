"""Requests as this process's own metrics: how many of which route came to what, and how long they took."""

import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from warpmeter import selfmetrics

FILES: Final = "/_nicegui"


class Answered(Protocol):
    """What came of a request: `status` is 0 until it was answered."""

    status: int
    began: float


@contextmanager
def request(scope: MutableMapping[str, Any], answer: Answered) -> Iterator[None]:
    """Count what goes on inside; a websocket while it is open."""
    if scope["type"] == "websocket":
        with selfmetrics.gauge("warpmeter_web_websockets").track_inprogress():
            yield
        return
    path = scope["path"]
    try:
        yield
    finally:
        name = route(scope, path)
        selfmetrics.counter("warpmeter_web_requests_total").labels(name, str(answer.status)).inc()
        selfmetrics.histogram("warpmeter_web_request_seconds").labels(name).observe(time.monotonic() - answer.began)


def route(scope: MutableMapping[str, Any], path: str) -> str:
    """The route that answered, as it was declared; files of the pages are one, and whatever has none is `other`."""
    if path.startswith(FILES):
        return FILES
    found = getattr(scope.get("route"), "path", "")
    prefix = "/api/v1" if path.startswith("/api/v1") and not found.startswith("/api") else ""
    return prefix + found if found else "other"

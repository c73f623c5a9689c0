"""What the gate looks at of a request, read once from ASGI's scope."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import cookie_parser

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
Scope = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request or a websocket: header names in lower case.

    `repeated` are headers that came more than once: whose word the last of them is, nobody knows. `peer` is the address
    of the other end of the connection, which may be a proxy; '' where there is none.
    """

    kind: str
    method: str
    path: str
    query: str
    secure: bool
    peer: str
    headers: dict[str, str]
    repeated: frozenset[str] = frozenset()

    @property
    def host(self) -> str:
        """The name and port that the browser asked for."""
        return self.headers.get("host", "").lower()

    @property
    def writes(self) -> bool:
        """It may change something. A websocket does: it is how a page's events come."""
        return self.kind == "websocket" or self.method not in READING

    @property
    def for_person(self) -> bool:
        """A browser goes there, to show it to somebody."""
        return self.method in ("GET", "HEAD") and self.kind == "http" and "text/html" in self.headers.get("accept", "")

    def cookie(self, name: str) -> str:
        """A cookie's value, '' without one; whatever else of this machine's name set beside it."""
        return cookie_parser(self.headers.get("cookie", "")).get(name, "")


def asked(scope: Scope) -> Asked:
    """A scope of kind http or websocket."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    times = Counter(name for name, _ in pairs)
    return Asked(
        scope["type"],
        scope.get("method", "GET"),
        scope["path"],
        scope.get("query_string", b"").decode("latin-1"),
        scope.get("scheme") in ("https", "wss"),
        (scope.get("client") or ("",))[0],
        dict(pairs),
        frozenset(name for name, count in times.items() if count > 1),
    )

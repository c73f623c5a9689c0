"""The gate before API and pages: every request and every websocket passes it, NiceGUI's among them.

In this order: is the name ours, who asks, is another site behind it, how often, how large. Then the application, which
asks for the role (`warpmeter.web.request.access`); then the headers that every answer has.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from warpmeter import log
from warpmeter.settings import Web
from warpmeter.web.request.access import Caller
from warpmeter.web.security import audit, headers, observed, origins
from warpmeter.web.security.identity import AMBIENT, CSRF_HEADER, Identified, Identity
from warpmeter.web.security.rates import Rates
from warpmeter.web.security.requests import Asked, asked

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

API: Final = "/api/"
SOCKET: Final = "/_nicegui_ws/"
SPEAKS: Final = f"{SOCKET}socket.io/"
"""Beside it NiceGUI answers a websocket as if it were a request, which is no answer."""
OPEN: Final = frozenset({"/login", "/favicon.ico", "/api/v1/health"})
"""What anybody may ask for."""
FORMS: Final = frozenset({"/login", "/logout"})
LOGINS_PER_MINUTE: Final = 10
UNPREFIXED: Final = b"x-forwarded-prefix"
"""NiceGUI believes anybody who sends it, and puts it into the page."""
AGAIN: Final = '<!doctype html><meta http-equiv="refresh" content="0"><title>warpmeter</title>'


@dataclass(frozen=True)
class Refusal:
    """An answer that the application has no part in."""

    status: int
    why: str
    headers: dict[str, str] = field(default_factory=dict)
    page: str = ""


class Gate:
    """ASGI middleware; the outermost."""

    def __init__(self, app: App, web: Web, identity: Identity) -> None:
        self._app, self._web, self._identity = app, web, identity
        self._writes = Rates(web.writes_per_minute)
        self._logins = Rates(LOGINS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on with `caller` and `nonce` in the request's state."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        request, identified = (found := asked(dict(scope))), self._identity.of(found)
        answer = _Answer(send, request, secrets.token_urlsafe(16))
        with observed.request(scope, answer):
            refusal = self._refusal(request, identified)
            if refusal is None:
                scope["state"] = {**scope.get("state", {}), **self._state(request, identified), "nonce": answer.nonce}
                scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != UNPREFIXED]
                refusal = await self._passed(scope, receive, answer, identified.caller)
            if refusal is not None:
                await answer.refuse(refusal)
        self._tell(request, identified, answer.status, refusal)

    def _state(self, request: Asked, identified: Identified) -> dict[str, object]:
        """What the application may know of the request."""
        return {
            "caller": identified.caller,
            "by": identified.by,
            "address": self._identity.address(request),
            "proxied": self._identity.through_proxy(request),
        }

    async def _passed(self, scope: Scope, receive: Receive, answer: "_Answer", who: Caller | None) -> Refusal | None:
        """The application's turn; a refusal when it did not come to an answer."""
        body = receive if scope["type"] == "websocket" else _bounded(receive, self._web.body_bytes)
        try:
            await self._app(scope, body, answer)
        except asyncio.CancelledError:  # the process stops, and has waited long enough
            if scope["type"] == "websocket" or answer.status:
                raise
            return Refusal(503, "this process stops: ask again", {"retry-after": "2"})
        except ClientDisconnect:  # while it still sent: nobody is there to answer
            return None
        except Exception as error:  # noqa: BLE001 - the edge: what nobody expected becomes a line in the log and a 500
            name = who.name if who else ""
            log.get("web").error("failed", path=scope["path"][:500], who=name, exc_info=error)
            return None if answer.status else Refusal(500, "this is a mistake of warpmeter's; its log says more")
        return None

    def _refusal(self, request: Asked, identified: Identified) -> Refusal | None:
        if why := origins.unknown_host(request, self._web):
            return Refusal(421, why)
        if identified.caller is None and request.path not in OPEN:
            return self._stranger(request, identified)
        if why := self._another_site(request, identified):
            return Refusal(403, why)
        if request.kind == "websocket" and not request.path.startswith(SPEAKS):
            return Refusal(404, "there is no websocket of that name")
        if wait_s := self._wait_s(request, identified):
            seconds = str(ceil(wait_s))
            return Refusal(429, f"too many requests: ask again in {seconds} s", {"retry-after": seconds})
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._web.body_bytes:
            return Refusal(413, _too_large(self._web.body_bytes), {"connection": "close"})
        return None

    def _stranger(self, request: Asked, identified: Identified) -> Refusal:
        if identified.by == "proxy":
            if twice := self._identity.came_twice(request):
                return Refusal(403, f"{twice} came twice: whose word it is nobody knows; let the proxy replace it")
            groups = ", ".join((*self._web.viewer_groups, *self._web.operator_groups))
            return Refusal(403, f"you are in none of the groups that may look: {groups}")
        if request.for_person and not request.path.startswith(API):
            if request.headers.get("sec-fetch-site") == "cross-site":
                # A link on another site: the browser kept the cookie back, and sends it when the page itself asks.
                return Refusal(200, "", page=AGAIN)
            here = request.path + (f"?{request.query}" if request.query else "")
            return Refusal(303, "log in", {"location": f"/login?next={quote(here, safe='')}"})
        why = "that token is not known" if identified.by == "token" else "say who you are: Authorization: Bearer TOKEN"
        return Refusal(401, why, {"www-authenticate": 'Bearer realm="warpmeter"'})

    def _another_site(self, request: Asked, identified: Identified) -> str:
        """Why a page of another site may be behind it, '' when not."""
        reads_api = request.path.startswith(API) and request.headers.get("sec-fetch-mode") != "navigate"
        opens_socket = request.path.startswith(SOCKET)  # its polling by GET has a session made, and names any origin
        if (request.writes or reads_api or opens_socket) and (why := origins.cross_site(request, self._web)):
            return why
        plain = request.kind == "http" and request.writes and request.path not in FORMS
        if plain and identified.by in AMBIENT and not request.path.startswith(SOCKET):
            expected = self._identity.sessions.csrf(identified.caller) if identified.caller else ""
            if not secrets.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), expected.encode()):
                return f"the header {CSRF_HEADER} must be what /api/v1/session says; load the page again"
        return ""

    def _wait_s(self, request: Asked, identified: Identified) -> float:
        if request.kind != "http" or not request.writes or request.path.startswith(SOCKET):
            return 0.0
        if request.path == "/login" or identified.caller is None:
            return self._logins.wait_s(self._identity.address(request))
        return self._writes.wait_s(identified.caller.key)

    def _tell(self, request: Asked, identified: Identified, status: int, refusal: Refusal | None) -> None:
        what = {"method": request.method, "path": request.path, "address": self._identity.address(request)}
        if refusal is not None and refusal.status >= 400:
            audit.refused(identified.caller, refusal.status, refusal.why, **what)
        elif request.kind == "http" and request.writes and identified.caller and not request.path.startswith(SOCKET):
            audit.record(identified.caller, "request", by=identified.by, status=status, **what)


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit} bytes"


def _bounded(receive: Receive, limit: int) -> Receive:
    """A body that says no length is counted."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            raise HTTPException(413, _too_large(limit))
        return message

    return counted


class _Answer:
    """Sends what the application answers, with our headers; `status` is 0 until it began."""

    def __init__(self, send: Send, request: Asked, nonce: str) -> None:
        self._send, self._request, self.nonce = send, request, nonce
        self.status = 0
        self.began = time.monotonic()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            given = {name.lower() for name, _ in message.get("headers", ())}
            told = [(name.encode(), value.encode()) for name, value in self._headers(message).items()]
            message["headers"] = [*message.get("headers", ()), *(pair for pair in told if pair[0] not in given)]
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)

    def _headers(self, message: Message) -> dict[str, str]:
        kind = next((value for name, value in message.get("headers", ()) if name.lower() == b"content-type"), b"")
        page = kind.startswith(b"text/html")
        policy = headers.page_policy(self.nonce) if page else headers.NOTHING
        return {**headers.ALWAYS, "content-security-policy": policy, "cache-control": "private, no-cache"}

    async def refuse(self, refusal: Refusal) -> None:
        """Answer in place of the application."""
        if self._request.kind == "websocket":
            self.status = refusal.status
            return await self._send({"type": "websocket.close", "code": 4000 + refusal.status, "reason": refusal.why})
        body = refusal.page.encode() or json.dumps({"detail": refusal.why}).encode()
        kind = "text/html; charset=utf-8" if refusal.page else "application/json"
        policy = {"content-security-policy": headers.NOTHING} if refusal.page else {}
        all_headers = {"content-type": kind, "content-length": str(len(body)), **policy, **refusal.headers}
        pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in all_headers.items()]
        await self({"type": "http.response.start", "status": refusal.status, "headers": pairs})
        await self._send({"type": "http.response.body", "body": body})

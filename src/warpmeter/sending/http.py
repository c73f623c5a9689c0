"""One POST with bounds, and what its answer means. Also for receivers of alerts."""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib import request
from urllib.parse import urlsplit

from warpmeter.sending.limits import CONNECT_S, Watch, within
from warpmeter.sending.outcome import Outcome, Refused, Sent, TryAgain

LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524, 529})
ANSWER_BYTES: Final = 4096
SAID: Final = 200
"""Characters of an answer that are told."""
LONGEST_PAUSE_S: Final = 6 * 3600.0
TOO_LARGE: Final = 413


@dataclass(frozen=True)
class Call:
    """A POST. `url` and `headers` may be secret: neither is ever told, the host alone is."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    ca_file: Path | None = None

    @property
    def host(self) -> str:
        """Of the address, with its port; '' where that is none."""
        try:
            parts = urlsplit(self.url)
            return (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
        except ValueError:
            return ""


def _handlers(watch: Watch, context: ssl.SSLContext) -> list[request.BaseHandler]:
    """Connections whose socket the watch knows. Without redirects: a POST that is sent on arrives as a GET."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            watch.socket = self.sock

    class Secure(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            watch.socket = self.sock

    class OnHTTP(request.HTTPHandler):
        def http_open(self, req: request.Request) -> http.client.HTTPResponse:
            return self.do_open(Plain, req)

    class OnHTTPS(request.HTTPSHandler):
        def https_open(self, req: request.Request) -> http.client.HTTPResponse:
            return self.do_open(Secure, req, context=context)

    return [request.ProxyHandler(), OnHTTP(), OnHTTPS(), request.UnknownHandler()]


def post(call: Call) -> Outcome:
    """Within about `timeout_s` seconds. 2xx is Sent; what passes by itself TryAgain; all else Refused."""
    if not call.host or not call.url.startswith(("http://", "https://")):
        return Refused("the address is no http:// or https:// URL")
    try:
        context = ssl.create_default_context(cafile=call.ca_file)
    except (OSError, ssl.SSLError) as error:
        return Refused(f"ca_file {call.ca_file} cannot be used: {error.strerror or error}")
    with within(call.timeout_s) as watch:
        try:
            status, headers, said = _answer(call, watch, context)
        except ValueError as error:  # a header that cannot be sent; its value is not told
            return Refused(f"the request to {call.host} cannot be made ({type(error).__name__}): look at its headers")
        except (OSError, http.client.HTTPException) as error:
            return _lost(call, error, watch.late)
    return understood(call, status, headers, said)


def _answer(call: Call, watch: Watch, context: ssl.SSLContext) -> tuple[int, Any, str]:
    opener = request.OpenerDirector()
    for handler in _handlers(watch, context):
        opener.add_handler(handler)
    asked = request.Request(call.url, call.body, {"User-Agent": "warpmeter", **call.headers}, method="POST")
    with opener.open(asked, timeout=min(CONNECT_S, call.timeout_s)) as reply:
        said = reply.read(ANSWER_BYTES).decode("utf-8", "replace")
        if watch.late:
            raise TimeoutError
        return reply.status, reply.headers, said


def _lost(call: Call, error: Exception, late: bool) -> Outcome:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Refused(f"{call.host} has a certificate that cannot be trusted ({reason.verify_message}): set ca_file")
    if late or isinstance(reason, TimeoutError):
        return TryAgain(f"{call.host} did not answer in time")
    return TryAgain(f"{call.host} cannot be reached: {getattr(reason, 'strerror', None) or type(reason).__name__}")


def understood(call: Call, status: int, headers: Mapping[str, str], said: str) -> Outcome:
    """What an answer means."""
    words = " ".join(_safe(call, said).split())[:SAID]
    answer = f"{call.host} answered {status}" + (f": {words}" if words else "")
    if 200 <= status < 300:
        return Sent()
    if status in LATER:
        return TryAgain(answer, pause_s(headers.get("Retry-After", "")))
    if 300 <= status < 400:
        return Refused(f"{answer}; it wants another address: set that one")
    if status == TOO_LARGE:
        return Refused(f"{answer}; it is too large: send fewer files (attach, attach_bytes)")
    return Refused(f"{answer}; look at the address and its secrets")


def _safe(call: Call, said: str) -> str:
    """An answer that repeats what it was sent must not bring a secret into a log."""
    told = [word for name, value in call.headers.items() if name != "Content-Type" for word in (value, *value.split())]
    for secret in (call.url, urlsplit(call.url).path, urlsplit(call.url).query, *told):
        if len(secret) > 3:
            said = said.replace(secret, "…")
    return said


def pause_s(retry_after: str) -> float:
    """Seconds that a Retry-After asks for (RFC 9110, 10.2.3): a number or a date. 0 where it is none."""
    if retry_after.strip().isdigit():
        return min(float(retry_after), LONGEST_PAUSE_S)
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError):
        return 0.0
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max((aware - datetime.now(UTC)).total_seconds(), 0.0), LONGEST_PAUSE_S)

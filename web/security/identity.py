"""Who asks: a program by its token, a person by the cookie of a session or by the headers of a trusted proxy."""

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from warpmeter.clock import Clock, SystemClock
from warpmeter.settings import Token, Web, unsendable
from warpmeter.web.request.access import LOCAL, Caller, Role
from warpmeter.web.security.requests import Asked
from warpmeter.web.security.sessions import COOKIE, Known, Sessions

CSRF_HEADER: Final = "x-csrf-token"
By = Literal["nobody", "token", "cookie", "proxy", "local"]
AMBIENT: Final = ("cookie", "proxy")
"""What a browser sends along by itself, whichever page asks."""
TOKEN_CHARACTERS: Final = 16


class TokenError(Exception):
    """A token cannot be used; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Identified:
    """Who asks, and by what they are known; `caller` is None for who said nothing, or nothing that holds."""

    caller: Caller | None
    by: By


def known(tokens: Iterable[Token]) -> dict[str, Known]:
    """Tokens by name, with those in files read. Raises TokenError."""
    return {token.name: Known(Caller(token.name, token.role), _text(token)) for token in tokens}


def _text(token: Token) -> str:
    if token.token_file is None:
        return token.token
    try:
        text = token.token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise TokenError(f"web.tokens {token.name!r}: cannot read {token.token_file}: {why}") from error
    if len(text) < TOKEN_CHARACTERS:
        raise TokenError(
            f"web.tokens {token.name!r}: {token.token_file} holds less than {TOKEN_CHARACTERS} characters; "
            "write a longer token into it, e.g. of `openssl rand -hex 24`"
        )
    if problem := unsendable(text):
        raise TokenError(f"web.tokens {token.name!r}: {token.token_file} {problem}")
    return text


class Identity:
    """Finds out who asks. Raises TokenError where a token's file cannot be used."""

    def __init__(self, web: Web, clock: Clock | None = None) -> None:
        self._web = web
        self._tokens = known(web.tokens)
        key = web.session_secret.encode() or secrets.token_bytes(32)
        self.sessions = Sessions(self._tokens, web.session_s, key, clock or SystemClock())
        self._proxies = [ipaddress.ip_network(each) for each in web.proxies]

    def of_token(self, given: str) -> Caller | None:
        """Whose token that is. Each is compared, in a time that does not tell how much of one was right."""
        found = None
        for each in self._tokens.values():
            if hmac.compare_digest(each.token.encode(), given.encode()):
                found = each.caller
        return found

    def of(self, asked: Asked) -> Identified:
        """Who asks. A token wins over a proxy's word, and that over a session."""
        if not self._web.guarded:
            return Identified(LOCAL, "local")
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return Identified(self.of_token(token.strip()), "token")
        if self.through_proxy(asked) and asked.headers.get(self._web.user_header.lower()):
            return Identified(self._of_proxy(asked), "proxy")
        cookie = asked.cookie(COOKIE)
        return Identified(self.sessions.read(cookie), "cookie") if cookie else Identified(None, "nobody")

    def address(self, asked: Asked) -> str:
        """Where a request comes from, as far as that can be known: beyond a trusted proxy what that one saw."""
        before = asked.headers.get("x-forwarded-for", "") if self.through_proxy(asked) else ""
        return before.rpartition(",")[2].strip()[:64] or asked.peer

    def through_proxy(self, asked: Asked) -> bool:
        """The other end of the connection is a proxy that is trusted."""
        try:
            peer = ipaddress.ip_address(asked.peer)
        except ValueError:
            return False
        mapped = peer.ipv4_mapped if isinstance(peer, ipaddress.IPv6Address) else None
        return any((mapped or peer) in network for network in self._proxies)

    def came_twice(self, asked: Asked) -> str:
        """The header of the proxy's that came more than once, as where it lets the browser's own through; else ''."""
        ours = (self._web.user_header, self._web.groups_header)
        return next((name for name in ours if name.lower() in asked.repeated), "")

    def _of_proxy(self, asked: Asked) -> Caller | None:
        """Who the proxy says it is; None for who is in none of the groups that may look, and who is said twice."""
        web = self._web
        if self.came_twice(asked):
            return None
        user = _text_of(asked.headers[web.user_header.lower()]).strip()[:200]
        said = _text_of(asked.headers.get(web.groups_header.lower(), ""))
        groups = {each.strip().removeprefix("/") for each in said.split(",")}  # Keycloak's begin with a slash
        role: Role | None = "operator" if groups & set(web.operator_groups) else None
        if role is None and (not web.viewer_groups or groups & set(web.viewer_groups)):
            role = "viewer"
        return Caller(user, role, "proxy") if role and user else None


def _text_of(header: str) -> str:
    """A header of a proxy: UTF-8 where it is that, else Latin-1, which is what HTTP says."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header

"""A page that nobody could reach, or everybody."""

import ipaddress
from typing import Final

from warpmeter import settings as parts
from warpmeter.config.known import ConfigError
from warpmeter.config.words import HEADER, refuse_any

TOKEN_CHARACTERS: Final = 16
WEB_LIMITS: Final = (
    "writes_per_minute", "body_bytes", "query_rows", "query_bytes", "query_memory", "sql_rows", "sql_bytes",
)  # fmt: skip


def refuse_web(web: parts.Web) -> None:
    """Raises ConfigError for a page that is open to more than it should be, or to nobody."""
    if not web.loopback and not web.guarded:
        raise ConfigError(
            f"web.listen {web.listen} is not loopback: anybody could look, and trace jobs; say who may with "
            "[[web.tokens]], or with web.proxies (docs/web.md)"
        )
    refuse_any("web.tokens", web.tokens, _token_problem)
    if 0 < len(web.session_secret) < TOKEN_CHARACTERS:
        raise ConfigError(f"web.session_secret is too short: give {TOKEN_CHARACTERS} characters or more")
    if bool(web.tls_certificate) != bool(web.tls_key):
        raise ConfigError("web.tls_certificate and web.tls_key go together")
    for proxy in web.proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ConfigError(f"web.proxies: {error}; give addresses or networks, e.g. 10.1.2.0/24") from error
    _refuse_web_limits(web)


def _token_problem(token: parts.Token) -> str:
    if bool(token.token) == bool(token.token_file):
        return "give token, or token_file: one of them"
    if token.token and len(token.token) < TOKEN_CHARACTERS:
        return (
            f"token is too short to be one: give {TOKEN_CHARACTERS} characters or more, e.g. of `openssl rand -hex 24`"
        )
    if problem := parts.unsendable(token.token):
        return f"token {problem}"
    return ""


def _refuse_web_limits(web: parts.Web) -> None:
    for key in WEB_LIMITS:
        if getattr(web, key) < 1:
            raise ConfigError(f"web.{key} must be more than 0")
    for key in ("user_header", "groups_header"):
        if not HEADER.fullmatch(f"{getattr(web, key)}: "):
            raise ConfigError(f"web.{key} {getattr(web, key)!r} is no name of a header")

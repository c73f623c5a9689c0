"""API and pages, and who may look."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from warpmeter.settings.common import LOOPBACK, SECRET


@dataclass(frozen=True)
class Token:
    """Who may ask the API and log in at the page: the token itself, or the file that holds it."""

    name: str
    role: Literal["viewer", "operator"] = "viewer"
    token: str = field(default="", metadata=SECRET, repr=False)
    token_file: Path | None = None


def unsendable(token: str) -> str:
    """Why programs cannot send that token in a header, '' when they can."""
    if token.isascii() and token.isprintable():
        return ""
    return "has characters that no header carries: make one of ASCII, e.g. of `openssl rand -hex 24`"


@dataclass(frozen=True)
class Web:
    """API and pages. On another address than loopback `tokens` or `proxies` say who may look; docs/web.md tells how.

    `hosts`: names that browsers know it by, beside its own address. `proxies`: addresses or networks whose
    `user_header` and `groups_header` are believed; members of `operator_groups` are operators, those of `viewer_groups`
    viewers (empty: whoever the proxy lets through). `session_secret` signs the cookies of those who log in, which are
    good for `session_s`; without one, a restart logs them out. A query may take `query_s` seconds and `query_memory`
    bytes, and answer `query_rows` rows of `query_bytes`; `sql_…` are those of the SQL console. A caller may make
    `writes_per_minute` requests that change something.
    """

    listen: str = "127.0.0.1"
    port: int = 8080
    hosts: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tokens: tuple[Token, ...] = ()
    session_secret: str = field(default="", metadata=SECRET, repr=False)
    session_s: float = 12 * 3600.0
    proxies: tuple[str, ...] = ()
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    operator_groups: tuple[str, ...] = ()
    viewer_groups: tuple[str, ...] = ()
    writes_per_minute: int = 60
    body_bytes: int = 1 << 20
    query_s: float = 10.0
    query_rows: int = 1_000_000
    query_bytes: int = 256 << 20
    query_memory: int = 2 << 30
    sql: bool = True
    sql_s: float = 30.0
    sql_rows: int = 10_000
    sql_bytes: int = 16 << 20

    @property
    def loopback(self) -> bool:
        """Only this machine reaches it."""
        return self.listen.startswith(LOOPBACK)

    @property
    def address(self) -> str:
        """Where a browser on this machine finds it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.listen, self.listen)
        return f"http{'s' if self.tls_certificate else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def guarded(self) -> bool:
        """Who asks must say who they are."""
        return bool(self.tokens or self.proxies)

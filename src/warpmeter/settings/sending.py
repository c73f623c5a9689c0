"""How something is sent to somebody."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from warpmeter.settings.common import PATH, SECRET


@dataclass(frozen=True, kw_only=True)
class Way:
    """How something is sent. A secret may stand in a file of its own; one attempt takes at most `timeout_s`.

    mail: `host`, `port` (0: that of `tls`), `username` and `password`, `sender`, `to`. slack: the incoming webhook's
    `url`. webhook: `url`, `headers`, `token` (sent as a bearer's), `secret` (the JSON is signed with it). `ca_file`:
    whom to believe instead of the machine's authorities.
    """

    url: str = field(default="", metadata=PATH, repr=False)
    url_file: Path | None = None
    host: str = ""
    port: int = 0
    tls: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: str = field(default="", metadata=SECRET, repr=False)
    password_file: Path | None = None
    sender: str = ""
    to: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, metadata=SECRET, repr=False)
    token: str = field(default="", metadata=SECRET, repr=False)
    token_file: Path | None = None
    secret: str = field(default="", metadata=SECRET, repr=False)
    secret_file: Path | None = None
    ca_file: Path | None = None
    timeout_s: float = 30.0


@dataclass(frozen=True)
class Target(Way):
    """Where reports, and alerts, go. `kind`: folder, mail, slack or webhook.

    folder: `url` is a folder of this machine or any URL that fsspec knows, with its `options`. `attach`: endings of the
    files that a mail or webhook carries, at most `attach_bytes` together; ["*"] all of them.
    """

    name: str
    kind: Literal["folder", "mail", "slack", "webhook"]
    options: Mapping[str, str] = field(default_factory=dict, metadata=SECRET, repr=False)
    attach: tuple[str, ...] = (".csv",)
    attach_bytes: int = 8 << 20

    def attaches(self, name: str) -> bool:
        """Whether a file of that name goes along."""
        return any(end == "*" or name.endswith(end) for end in self.attach)


@dataclass(frozen=True)
class Receiver(Way):
    """Who is told of alerts. `kind`: webhook, slack, mail, or alertmanager (`url` is Alertmanager's own address, and it
    takes `username` and `password`, too).

    `routes`: which alerts, any of them: each is a table of matchers as a silence has them, all of which must fit
    (`rule`, `severity` or a label, and its value, or `~` and an expression); without routes all alerts.
    `send_resolved`: it is told of the end, too, of what it was told. What goes on is told again each `repeat_s`, 0:
    after 4 hours, and after a minute to Alertmanager, which else takes it for resolved.
    """

    name: str
    kind: Literal["webhook", "slack", "alertmanager", "mail"]
    routes: tuple[Mapping[str, str], ...] = ()
    send_resolved: bool = True
    repeat_s: float = 0.0

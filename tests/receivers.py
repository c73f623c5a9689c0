"""Real servers that take what is sent: mail by SMTP, and POSTs over HTTP. Each on a port of its own, in threads."""

import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, ssl.SSLContext]:
    """A certificate of its own authority for that name: its file, and what a server serves it with."""
    path, key = folder / f"{name}.pem", folder / f"{name}.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={name}"]
    named = ["-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*made, *named, "-out", path, "-keyout", key], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    return path, context


@dataclass
class Mailbox:
    """What a mail server has taken. `refusals`: answers to give in turn to mail instead of taking it; `unknown`: who is
    not known here; `slowly`: do not answer to mail until `close`.
    """

    mails: list[EmailMessage] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    unknown: Mapping[str, str] = field(default_factory=dict)
    slowly: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    tried: int = 0

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Sequence[str]
    ) -> str:
        """Whether somebody is known here."""
        if address in self.unknown:
            return self.unknown[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Take it, or not."""
        self.tried += 1
        if self.slowly:
            import asyncio

            await asyncio.sleep(3600)
        if self.refusals:
            return self.refusals.pop(0)
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        mail = message_from_bytes(content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 taken"


@contextmanager
def mail_server(
    box: Mailbox | None = None, login: tuple[str, str] | None = None, starttls: ssl.SSLContext | None = None
) -> Iterator[Mailbox]:
    """A mail server; with a login it takes nothing from others."""
    box = box or Mailbox()

    def known(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any) -> AuthResult:
        given = (data.login.decode(), data.password.decode()) if isinstance(data, LoginPassword) else None
        return AuthResult(success=given == login, handled=False)

    extra: dict[str, Any] = (
        {"authenticator": known, "auth_required": True, "auth_require_tls": starttls is not None} if login else {}
    )
    controller = Controller(
        box, hostname="127.0.0.1", port=free_port(), tls_context=starttls, require_starttls=starttls is not None,
        ready_timeout=60, **extra,
    )  # fmt: skip
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop(no_assert=True)


def free_port() -> int:
    """A port that nobody has at the moment."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Posted:
    """One POST as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Hook:
    """A receiver of POSTs. `answers`: given in turn, then 200 for ever. `drips`: answers a byte now and then."""

    posts: list[Posted] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    drips: bool = False
    url: str = ""
    on_post: Callable[[Posted], None] = lambda _: None


@contextmanager
def http_server(given: Hook | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    """Any path takes POSTs."""
    hook = given or Hook()
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            posted = Posted(self.path, {key.lower(): value for key, value in self.headers.items()}, body)
            hook.posts.append(posted)
            hook.on_post(posted)
            if hook.drips:
                self._drip()
                return
            status, headers, said = hook.answers.pop(0) if hook.answers else (200, {}, b"ok")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def _drip(self) -> None:
            while not over.is_set():
                try:
                    self.wfile.write(b"H")
                    self.wfile.flush()
                except OSError:
                    return
                time.sleep(0.02)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    hook.url = f"http{'s' if tls else ''}://{'localhost' if tls else '127.0.0.1'}:{server.server_port}/hook/s3cret-path"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        over.set()
        server.shutdown()
        server.server_close()

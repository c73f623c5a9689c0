"""A message as a mail by SMTP: plain words, the page with its images inside (RFC 2392), and files as attachments."""

import hashlib
import smtplib
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from html import escape
from typing import Final

from warpmeter.sending.limits import CONNECT_S, Watch, within
from warpmeter.sending.message import File, Message
from warpmeter.sending.outcome import Outcome, Refused, Sent, TryAgain
from warpmeter.sending.secrets import SecretError, read
from warpmeter.settings import Target

PORTS: Final = {"none": 25, "starttls": 587, "tls": 465}
LATER: Final = 400
FINAL: Final = 500
SAID: Final = 200


def post(target: Target, message: Message) -> Outcome:
    """Within about `timeout_s` seconds. Sent: the server has taken it for at least one of those it goes to."""
    try:
        password = read(target.password, target.password_file, "password_file")
        context = ssl.create_default_context(cafile=target.ca_file)
    except SecretError as error:
        return Refused(str(error))
    except (OSError, ssl.SSLError) as error:
        return Refused(f"ca_file {target.ca_file} cannot be used: {error.strerror or error}")
    made = mail(target, message)
    with within(target.timeout_s) as watch:
        try:
            return _posted(target, made, password, context, watch)
        except smtplib.SMTPException as error:
            late = watch.late or isinstance(error.__context__, TimeoutError)  # smtplib tells of both as one
            return TryAgain(f"{_server(target)} did not answer in time") if late else _said(target, error)
        except ssl.SSLCertVerificationError as error:
            return Refused(f"{_server(target)} has a certificate that cannot be trusted ({error.verify_message}): "
                           "set ca_file, or the name that the certificate is for")  # fmt: skip
        except OSError as error:
            late = watch.late or isinstance(error, TimeoutError)
            why = "did not answer in time" if late else f"cannot be reached: {error.strerror or error}"
            return TryAgain(f"{_server(target)} {why}")
        except (ValueError, UnicodeError) as error:
            return Refused(f"the mail to {_server(target)} cannot be made: {error}")


def _server(target: Target) -> str:
    return f"the mail server {target.host}:{target.port or PORTS[target.tls]}"


def _posted(target: Target, made: EmailMessage, password: str, context: ssl.SSLContext, watch: Watch) -> Outcome:
    port, wait_s = target.port or PORTS[target.tls], min(CONNECT_S, target.timeout_s)
    server = _connected(target, port, wait_s, context, watch)
    try:
        if target.tls == "starttls":
            server.starttls(context=context)
            watch.socket = server.sock
        if target.username:
            server.login(target.username, password)
        refused = server.send_message(made)
    except BaseException:
        server.close()
        raise
    with suppress(smtplib.SMTPException, OSError):  # it is taken, however the parting goes
        server.quit()
    return Sent(f"not to {', '.join(f'{to} ({_words(code, said)})' for to, (code, said) in refused.items())}"
                if refused else "")  # fmt: skip


def _connected(target: Target, port: int, wait_s: float, context: ssl.SSLContext, watch: Watch) -> smtplib.SMTP:
    """The watch knows the connection before the server says its first word: a greeting may have no end."""

    class Plain(smtplib.SMTP):
        def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
            watch.socket = found = super()._get_socket(host, port, timeout)  # type: ignore[misc]
            return found  # type: ignore[no-any-return]

    class Secure(smtplib.SMTP_SSL):
        def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
            watch.socket = found = super()._get_socket(host, port, timeout)  # type: ignore[misc]
            return found  # type: ignore[no-any-return]

    if target.tls == "tls":
        return Secure(target.host, port, timeout=wait_s, context=context)
    return Plain(target.host, port, timeout=wait_s)


def _words(code: int, said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return f"{code} {' '.join(text.split())}"[:SAID]


def _said(target: Target, error: smtplib.SMTPException) -> Outcome:
    server = _server(target)
    match error:
        case smtplib.SMTPRecipientsRefused():
            each = [f"{to}: {_words(*why)}" for to, why in error.recipients.items()]
            later = any(code < FINAL for code, _ in error.recipients.values())
            why = f"{server} takes none of those it goes to: {'; '.join(each)}"[: 3 * SAID]
            return TryAgain(why) if later else Refused(f"{why}; look at `to`")
        case smtplib.SMTPAuthenticationError() if error.smtp_code >= FINAL:
            return Refused(f"{server} does not know the user and password: {_words(error.smtp_code, error.smtp_error)}")
        case smtplib.SMTPResponseException():
            why = f"{server} answered {_words(error.smtp_code, error.smtp_error)}"
            passes = LATER <= error.smtp_code < FINAL or error.smtp_code < 0
            return TryAgain(why) if passes else Refused(f"{why}; look at the target's settings")
        case smtplib.SMTPNotSupportedError():
            return Refused(f"{server}: {error}; set `tls` and `username` to what it offers")
        case smtplib.SMTPServerDisconnected() | smtplib.SMTPHeloError():
            return TryAgain(f"{server} ended the connection")
        case _:
            return Refused(f"{server}: {str(error)[:SAID]}")


def mail(target: Target, message: Message) -> EmailMessage:
    """The mail as it goes out. Files that are more than `attach_bytes` together are left out, and named."""
    made = EmailMessage()
    made["Subject"] = " ".join(message.title.split())
    made["From"] = _address(target.sender)
    made["To"] = [_address(to) for to in target.to]
    made["Date"] = format_datetime(datetime.now(UTC))
    made["Message-ID"] = message_id(target, message)
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answer from those who are away
    files, left_out = attached(target, message)
    notes = [f"Not attached, for they are too large: {', '.join(file.name for file in left_out)}"] if left_out else []
    made.set_content("\n\n".join([message.text, *notes, *([message.link] if message.link else [])]) + "\n")
    if message.html:
        note = "".join(f"<p>{escape(line)}</p>" for line in notes)
        page = message.html.replace("</body>", f"{note}</body>") if note else message.html
        made.add_alternative(page, subtype="html")
        _put_inside(made, message.inline)
    for file in files:
        main, _, sub = file.media_type.partition("/")
        made.add_attachment(file.data, main, sub or "octet-stream", filename=file.name.rpartition("/")[2])
    return made


def _put_inside(made: EmailMessage, images: tuple[File, ...]) -> None:
    """Images that the page shows, as parts beside it."""
    page = made.get_body(("html",))
    if not isinstance(page, EmailMessage):
        return
    for image in images:
        main, _, sub = image.media_type.partition("/")
        page.add_related(image.data, main, sub, cid=f"<{image.name}>", disposition="inline")


def _address(text: str) -> Address:
    name, plain = parseaddr(text)
    return Address(name, addr_spec=plain)


def message_id(target: Target, message: Message) -> str:
    """The same for each attempt, so that mail programs show one of two."""
    digest = hashlib.sha256(f"{target.name} {message.id}".encode()).hexdigest()[:32]
    return f"<{digest}@{parseaddr(target.sender)[1].rpartition('@')[2] or 'warpmeter'}>"


def attached(target: Target, message: Message) -> tuple[list[File], list[File]]:
    """Files that go along, and those that are wanted and for which there is no room."""
    taken, left_out, room = [], [], target.attach_bytes
    for file in message.files:
        if not target.attaches(file.name):
            continue
        if len(file.data) > room:
            left_out.append(file)
            continue
        taken.append(file)
        room -= len(file.data)
    return taken, left_out

"""Whether a target can be meant as it is set. Pure; nothing is reached."""

import re
from email.utils import parseaddr
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from warpmeter.settings import Target

HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+: [ -~]*")
ADDRESS: Final = re.compile(r"[^@\s,;<>\"]+@[^@\s,;<>\"]+")
OF_KIND: Final = {
    "folder": {"url", "options"},
    "mail": {
        "host", "port", "tls", "username", "password", "password_file", "sender", "to", "ca_file", "attach",
        "attach_bytes",
    },
    "slack": {"url", "url_file", "ca_file"},
    "webhook": {
        "url", "url_file", "headers", "token", "token_file", "secret", "secret_file", "ca_file", "attach",
        "attach_bytes",
    },
}  # fmt: skip
"""What can be set of each kind, beside name, kind and timeout_s."""


def objection(target: Target) -> str:
    """Why a target cannot be used, '' when it can."""
    if why := _astray(target):
        return why
    for key in ("url", "password", "token", "secret"):
        if getattr(target, key) and getattr(target, f"{key}_file", None):
            return f"give {key}, or {key}_file: one of them"
    if target.attach_bytes < 0:
        return "attach_bytes must not be below 0"
    match target.kind:
        case "folder":
            fits = "://" in target.url or Path(target.url).is_absolute()
            return "" if fits else "url must be an absolute folder, or a URL such as s3://bucket/reports"
        case "mail":
            return _no_mail(target)
        case _:
            return _no_hook(target)


def _astray(target: Target) -> str:
    """A setting of another kind of target would be ignored."""
    plain = Target(target.name, target.kind)
    given = {key for key in vars(plain) if getattr(target, key) != getattr(plain, key)}
    if astray := sorted(given - OF_KIND[target.kind] - {"timeout_s"}):
        return f"{astray[0]} means nothing to kind {target.kind}, which has {', '.join(sorted(OF_KIND[target.kind]))}"
    return ""


def _no_mail(target: Target) -> str:
    if not target.host or not 0 <= target.port <= 65535:
        return "host (and port) of the mail server are needed"
    if not target.to:
        return "to is needed: a list of addresses"
    for key, text in (("sender", target.sender), *(("to", each) for each in target.to)):
        if not is_address(text):
            return f"{key} {text!r} is no address: e.g. 'warpmeter <warpmeter@example.com>'"
    if bool(target.username) != bool(target.password or target.password_file):
        return "username and password (or password_file) go together"
    if target.username and target.tls == "none":
        return "tls = 'none' would send the password in clear text: use starttls or tls"
    return ""


def is_address(text: str) -> bool:
    """Of a mail, with a name or without."""
    return ADDRESS.fullmatch(parseaddr(text)[1]) is not None and text.isprintable()


def _no_hook(target: Target) -> str:
    if not target.url and not target.url_file:
        return "url is needed, or url_file with it"
    if target.url and not is_web(target.url):
        return "url must be http:// or https:// with a host"
    for name, value in target.headers.items():
        if not HEADER.fullmatch(f"{name}: {value}"):
            return f"headers: {name!r} is no HTTP header: a name, and a value on one line in ASCII"
    return ""


def is_web(url: str) -> bool:
    """An address that can be posted to."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False

"""A message as JSON to any URL, with an idempotency key and, with a secret, signed.

Signatures are those of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over `id.timestamp.body`,
which libraries of many languages check.
"""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

from warpmeter.sending.http import Call
from warpmeter.sending.http import post as posted
from warpmeter.sending.message import Message
from warpmeter.sending.outcome import Outcome, Refused
from warpmeter.sending.secrets import SecretError, read
from warpmeter.settings import Target


def post(target: Target, message: Message) -> Outcome:
    """The message as `body` has it."""
    return post_json(target, message.id, body(target, message))


def post_json(target: Target, key: str, value: Any) -> Outcome:
    """Any JSON to a target's URL, with its headers, token and signature. `key`: the same for each attempt."""
    try:
        url = read(target.url, target.url_file, "url_file")
        token = read(target.token, target.token_file, "token_file")
        secret = read(target.secret, target.secret_file, "secret_file")
    except SecretError as error:
        return Refused(str(error))
    data = json.dumps(value, ensure_ascii=False, default=str).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Idempotency-Key": ascii_id(key),
        **({"Authorization": f"Bearer {token}"} if token else {}),
        **(signed(secret, ascii_id(key), data, int(time.time())) if secret else {}),
        **target.headers,
    }
    return posted(Call(url, data, headers, target.timeout_s, target.ca_file))


def ascii_id(key: str) -> str:
    """A key that any header carries: itself, or its hash where it holds other characters."""
    plain = key.isascii() and key.isprintable() and len(key) <= 200
    return key if plain else hashlib.sha256(key.encode()).hexdigest()


def signed(secret: str, key: str, data: bytes, at: int) -> dict[str, str]:
    """The headers of Standard Webhooks. `secret`: `whsec_` and base64, or any text."""
    prefix, found, rest = secret.partition("whsec_")
    try:
        by = base64.b64decode(rest, validate=True) if found and not prefix else secret.encode()
    except binascii.Error:
        by = secret.encode()
    digest = hmac.new(by, f"{key}.{at}.".encode() + data, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": key, "webhook-timestamp": str(at), "webhook-signature": signature}


def body(target: Target, message: Message) -> dict[str, Any]:
    """A message for programs: files with size and hash; with their content where they are attached."""
    return {
        "id": message.id,
        "title": message.title,
        "text": message.text,
        "link": message.link,
        **message.facts,
        "files": list(_files(target, message)),
    }


def _files(target: Target, message: Message) -> Iterator[dict[str, Any]]:
    left = target.attach_bytes
    for file in message.files:
        told = {"name": file.name, "media_type": file.media_type, "bytes": len(file.data)}
        told["sha256"] = hashlib.sha256(file.data).hexdigest()
        if target.attaches(file.name) and len(file.data) <= left:
            left -= len(file.data)
            told["content_base64"] = base64.b64encode(file.data).decode()
        yield told

"""Confluent's wire format, and the registration of our schemas at a Schema Registry.

Only where `kafka.schema_registry_url` is set; without one, values are bare Protobuf. A framed value starts with a
zero byte and a bare Envelope with 0x0a, so a reader can tell them apart: `unframed` takes both.

API: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import base64
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from warpmeter.schemas.topics import Topic
from warpmeter.settings import Kafka

if TYPE_CHECKING:
    import ssl

MAGIC: Final = b"\0"
FIRST_MESSAGE: Final = b"\0"  # message indexes [0]: the file's first message, our Envelope, in short
HEADER_BYTES: Final = 5  # magic byte and schema id
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
INCOMPATIBLE: Final = 409


class RegistryError(Exception):
    """The registry is away or refuses; the message says which, and what to do."""


class FramingError(ValueError):
    """The value is not framed, or is framed for another message than the first of its schema."""


def configured(kafka: Kafka) -> "Registry | None":
    """The one that the settings name, if any. Raises RegistryError."""
    if not kafka.schema_registry_url:
        return None
    token, ca_file = kafka.schema_registry_token, kafka.schema_registry_ca_file
    return Registry(kafka.schema_registry_url, kafka.topic_prefix, token=token, ca_file=ca_file)


class Registry:
    """Registers schemas at `url`. User and password in it are sent as basic authentication, `token` as a bearer's.

    Subjects follow Confluent's TopicNameStrategy: `<topic>-value`. An id is asked for once and kept.
    """

    def __init__(
        self, url: str, prefix: str, timeout_s: float = 10.0, token: str = "", ca_file: Path | None = None
    ) -> None:
        """Asks nothing yet. `ca_file`: whom to believe. Raises RegistryError for what is no URL, or two logins."""
        self._url, self._headers = _split(url)
        if token and "Authorization" in self._headers:
            raise RegistryError("kafka.schema_registry_url has a login, and there is a schema_registry_token: set one")
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._prefix, self._timeout_s, self._ca_file = prefix, timeout_s, ca_file
        self._frames: dict[str, bytes] = {}

    def frame(self, topic: Topic) -> bytes:
        """What goes in front of each value of a topic; registers its schema at the first call.

        Registering the same schema again gives the same id. Raises RegistryError, and may be called again.
        """
        if topic.name not in self._frames:
            self._frames[topic.name] = MAGIC + struct.pack(">I", self._register(topic)) + FIRST_MESSAGE
        return self._frames[topic.name]

    def _register(self, topic: Topic) -> int:
        subject = f"{topic.full_name(self._prefix)}-value"
        path = f"/subjects/{quote(subject, safe='')}/versions"
        reply = self._post(path, {"schemaType": "PROTOBUF", "schema": topic.proto}, subject)
        number = reply.get("id")
        if not isinstance(number, int):
            raise RegistryError(f"the Schema Registry at {self._url} gave no id for {subject}; is it one?")
        return number

    def _post(self, path: str, body: Mapping[str, Any], subject: str) -> dict[str, Any]:
        from urllib import error, request  # 4 MiB that an agent without a registry does not need

        asked = request.Request(self._url + path, json.dumps(body).encode(), self._headers, method="POST")
        try:
            with request.urlopen(asked, timeout=self._timeout_s, context=self._believed()) as reply:
                kind, text = reply.headers.get_content_type(), reply.read()
        except error.HTTPError as refused:
            raise RegistryError(self._refused(refused.code, _message(refused.read()), subject)) from refused
        except (OSError, ValueError) as away:
            reason = getattr(away, "reason", away)
            raise RegistryError(
                f"cannot reach the Schema Registry at {self._url}: {reason}; is kafka.schema_registry_url right?"
            ) from away
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as other:
            raise RegistryError(
                f"what answers at {self._url} is no Schema Registry: it gave no JSON object but {kind}, "
                f"{len(text)} bytes; is kafka.schema_registry_url right, and no page to log in before it?"
            ) from other

    def _believed(self) -> "ssl.SSLContext | None":
        """Raises OSError for a file that cannot be read, or holds no certificates."""
        if self._ca_file is None:
            return None
        import ssl

        return ssl.create_default_context(cafile=self._ca_file)

    def _refused(self, status: int, message: str, subject: str) -> str:
        if status == INCOMPATIBLE:
            return (
                f"{subject} at {self._url} holds a schema that ours is not compatible with: {message}; what registered "
                "it is another version, or not warpmeter: let all be of one version, or give this one a "
                "kafka.topic_prefix of its own"
            )
        if status in (401, 403):
            return (
                f"the Schema Registry at {self._url} forbids to register {subject} ({status}): {message}; log in with "
                "a user and password in kafka.schema_registry_url, or with kafka.schema_registry_token"
            )
        return f"the Schema Registry at {self._url} answered {status} to {subject}: {message}"


def unframed(value: bytes) -> bytes:
    """The bare Protobuf of a value, framed or not; raises FramingError as `strip` does."""
    return strip(value) if value.startswith(MAGIC) else value


def _zigzag_varint(value: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and the place after it."""
    number = shift = 0
    while True:
        if at >= len(value) or shift > 63:
            raise FramingError("the message indexes of the Schema Registry framing are cut off")
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def strip(value: bytes) -> bytes:
    """The bare Protobuf payload; raises FramingError, saying what is wrong.

    Only the schema's first message (indexes `[0]`, written as the single byte 0) is an Envelope of ours.
    """
    if len(value) < HEADER_BYTES or not value.startswith(MAGIC):
        raise FramingError("no Schema Registry framing (magic byte 0), though a registry is configured")
    count, at = _zigzag_varint(value, HEADER_BYTES)
    indexes = []
    for _ in range(max(count, 0)):
        index, at = _zigzag_varint(value, at)
        indexes.append(index)
    if count < 0 or indexes not in ([], [0]):
        raise FramingError(f"framed for message {indexes} of its schema, not for the Envelope")
    return value[at:]


def _split(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RegistryError("kafka.schema_registry_url must be http(s)://host[:port]")
    headers = {"Content-Type": CONTENT_TYPE, "Accept": CONTENT_TYPE}
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), headers


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")

"""What the loop needs of a Kafka message: confluent-kafka's Message, or a twin of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Final, Protocol

Headers = Sequence[tuple[str, bytes | None]]


class Message(Protocol):
    """One message as confluent-kafka gives it; `error()` is None for a message and a KafkaError for an event."""

    def topic(self) -> str:
        """Full name on the broker."""

    def partition(self) -> int:
        """Number of the partition."""

    def offset(self) -> int:
        """Its offset."""

    def key(self) -> bytes | None:
        """Its key."""

    def value(self) -> bytes | None:
        """Its value; None is a tombstone."""

    def headers(self) -> Headers | None:
        """Its headers, in order; None when there are none. See `whole` for those that cannot be read."""

    def error(self) -> object | None:
        """None, or what happened instead of a message."""


# Not message.headers(): the interpreter's quick path for such calls does not look for the error that is left behind,
# which then hits whatever is called next.
_headers: Final = methodcaller("headers")
HEADERLESS: Final = "its headers cannot be read: the name of one is not UTF-8"


def whole(message: Message) -> tuple[Message, Headers | None, str | None]:
    """The message, its headers, and why they cannot be read: then the message that is returned has none.

    A header's name is any bytes on the wire. For one that is not UTF-8 confluent-kafka 2.16 leaves an error set, which
    becomes a SystemError, and gives a list that holds null pointers: that message must not be asked again.
    """
    try:
        return message, _headers(message), None
    except (SystemError, UnicodeDecodeError):
        where = message.topic(), message.partition(), message.offset()
        return Given(*where, message.value(), None, message.key()), None, HEADERLESS


@dataclass(frozen=True)
class Given:
    """A message made by hand: the twin for tests and replays."""

    topic_: str
    partition_: int
    offset_: int
    value_: bytes | None
    headers_: Headers | None = None
    key_: bytes | None = None

    def topic(self) -> str:
        return self.topic_

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> Headers | None:
        return self.headers_

    def error(self) -> object | None:
        return None

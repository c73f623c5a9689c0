"""Ways out of the agent: each is an `Output` that takes rows from all threads and never makes them wait."""

from collections.abc import Sequence
from typing import Protocol

from google.protobuf.message import Message

from warpmeter.producers.source import Health


class OutputError(Exception):
    """An output cannot be had on this host; the message says what to do."""


class Output(Protocol):
    """One way out. `name`: as in `source_health`."""

    @property
    def name(self) -> str: ...

    @property
    def gone(self) -> bool:
        """Whether nobody will ever take anything from it again."""

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Take the rows of one tick; from any thread. Never waits and never raises."""

    def pump(self) -> bool:
        """Do what is due, about once a second, from the main thread; True when there is more to do at once."""

    def health(self) -> tuple[Health, list[Health]]:
        """How it fares, and what of it does not."""

    def close(self, timeout_s: float) -> None:
        """Bring out what can be within `timeout_s`; called once, after the last row."""

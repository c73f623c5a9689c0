"""What the tests know of a broker: its address and its gifts, not its kind."""

from typing import Protocol


class Broker(Protocol):
    """A running broker, or a cluster of them, on loopback."""

    @property
    def name(self) -> str:
        """`tansu` or `kafka`, for messages."""

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of a client."""

    @property
    def size(self) -> int:
        """How many brokers."""

    @property
    def keeps_commit_metadata(self) -> bool:
        """Whether an offset commit's metadata string can be read back."""

    def close(self) -> None:
        """End its processes; idempotent."""

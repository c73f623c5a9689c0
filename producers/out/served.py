"""`/metrics` as an output: the latest samples beside the agent's own metrics, on the port of those."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from warpmeter import selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers.out.latest import Latest
from warpmeter.producers.out.page import Collected
from warpmeter.producers.source import Health
from warpmeter.settings import Settings

AGAIN_S: Final = 30.0
"""A port that was taken is tried again so often."""


class Served:
    """An Output that is asked, not sent."""

    name: Final = "output/prometheus"
    gone: Final = False

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Listens at once, or says in its health why not."""
        self._metrics, self._clock = settings.metrics, clock
        self._latest = Latest(settings.agent, clock)
        self._collected = Collected(self._latest.rows, settings.agent.names == "dynolog")
        selfmetrics.REGISTRY.register(self._collected)
        self._serve()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Keep the rows of one tick."""
        self._latest.publish(topic, rows)

    def pump(self) -> bool:
        """Try again for a port that was taken."""
        if self._why and self._clock.monotonic() >= self._again_at:
            self._serve()
        return False

    def health(self) -> tuple[Health, list[Health]]:
        """Not ok while the port is somebody else's."""
        return Health("", "failed" if self._why else "ok", self._why), []

    def close(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing waits
        """Show nothing more."""
        selfmetrics.REGISTRY.unregister(self._collected)

    def _serve(self) -> None:
        self._again_at = self._clock.monotonic() + AGAIN_S
        self._why = selfmetrics.serve(self._metrics, "agent")

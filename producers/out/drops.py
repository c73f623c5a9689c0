"""What an output dropped: counted by reason, and told in its health for an hour after the last of its kind."""

from collections import Counter
from collections.abc import Mapping
from threading import Lock
from typing import Final

from warpmeter import selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers.source import Health

TELL_S: Final = 3600.0


class Drops:
    """Counts of one output. `meanings`: reason -> what it means and what to do."""

    def __init__(self, output: str, meanings: Mapping[str, str], clock: Clock) -> None:
        self._output, self._meanings, self._clock = output, meanings, clock
        self._counts: Counter[str] = Counter()
        self._last: dict[str, float] = {}
        self._lock = Lock()
        self._metric = selfmetrics.counter("warpmeter_output_dropped_total")

    def add(self, why: str, count: int) -> None:
        """So many more were dropped; from any thread."""
        if count:
            with self._lock:
                self._counts[why] += count
                self._last[why] = self._clock.monotonic()
            self._metric.labels(self._output, why).inc(count)

    def told(self) -> list[Health]:
        """A subject for each reason of the last hour, with the count since the start."""
        now = self._clock.monotonic()
        with self._lock:
            fresh = {why: self._counts[why] for why, at in self._last.items() if now - at < TELL_S}
        return [Health(f"dropped/{why}", "failed", self._meanings[why], count) for why, count in fresh.items()]

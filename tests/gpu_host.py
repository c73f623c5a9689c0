"""A host with the GPU source against the NVML stand-in, tick by tick."""

from typing import Any

from tests.nvml import NvmlStub
from warpmeter.producers.gpu import GpuSource
from warpmeter.producers.gpu.event_source import Shared
from warpmeter.producers.gpu.reader import Snapshot
from warpmeter.producers.source import Attribution, Reading, Sample


class Host:
    """A host with a GPU source on a clock that only moves with its ticks."""

    def __init__(self, stub: NvmlStub) -> None:
        self.stub, self.now = stub, 1000.0
        self.attribution = Attribution()
        self.shared = Shared()
        self.source = GpuSource("node1", 1.0, self.attribution, lambda: self.now, shared=self.shared)
        self.before: Sample[Snapshot] | None = None

    def tick(self, seconds: float = 1.0) -> Reading:
        """One read and what it means."""
        self.now += seconds
        self.stub.time_s = self.now
        sample = Sample(1_790_000_000.0 + self.now, self.now, 1.0, self.source.read())
        reading = self.source.parse(sample, self.before)
        self.before = sample
        return reading

    def ticks(self, count: int) -> Reading:
        """The last of several ticks."""
        return [self.tick() for _ in range(count)][-1]


def columns(row: Any) -> dict[str, int]:
    """The measured columns that a row has."""
    return {field.name: value for field, value in row.ListFields() if 10 <= field.number < 78}


def by_uuid(reading: Reading) -> dict[str, Any]:
    """Rows by uuid."""
    return {row.uuid: row for row in reading.rows}  # type: ignore[attr-defined]


def states(reading: Reading) -> dict[str, str]:
    """Health by subject."""
    return {health.subject: health.state for health in reading.health}


def unhealthy(reading: Reading, uuid: str) -> dict[str, str]:
    """State by column, of one GPU."""
    return {
        subject.removeprefix(f"{uuid}/"): state
        for subject, state in states(reading).items()
        if subject.startswith(uuid)
    }

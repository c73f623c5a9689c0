"""The GPU source: every GPU and MIG instance of the host, through NVML.

`table` declares what is read; `nvml` alone speaks to the library; `reader` finds the GPUs; `parse` makes rows.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from warpmeter import settings
from warpmeter.producers.gpu import dcgm
from warpmeter.producers.gpu.device import GpuRaw
from warpmeter.producers.gpu.parse import health, rates, uses, values
from warpmeter.producers.gpu.reader import Reader, Snapshot
from warpmeter.producers.source import AnySource, Attribution, Reading, Sample
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope

TIMEOUT_S: Final = 5.0
"""A tick of eight GPUs takes milliseconds; a driver in trouble answers in seconds, or never."""


class GpuSource:
    """Source of `gpu-samples`. Which jobs run on a GPU comes from `attribution`, which learns the GPUs' processes."""

    name: Final = "gpu"
    topic: Final = "gpu-samples"
    timeout_s: Final = TIMEOUT_S

    def __init__(
        self,
        host: str,
        period_s: float,
        attribution: Attribution,
        monotonic: Callable[[], float] = time.monotonic,
        pages: dcgm.Pages | None = None,
    ) -> None:
        """`pages`: of a DCGM exporter, which complete the rows."""
        self._host, self.period_s, self._attribution, self._pages = host, period_s, attribution, pages
        self._reader = Reader(period_s, monotonic)

    def read(self) -> Snapshot:
        """All GPUs now; raises SourceError when there is no NVML to ask."""
        return self._reader.read()

    def parse(self, sample: Sample[Snapshot], before: Sample[Snapshot] | None) -> Reading:
        """A row for every GPU and MIG instance that answered; health for the others and for columns without a value."""
        earlier = {gpu.identity.uuid: gpu for gpu in before.raw.gpus} if before else {}
        seconds = sample.since(before)
        self._attribution.set_gpu_uses(sample, uses(sample.raw))
        rows: list[Envelope.GpuSample] = []
        nonsense: dict[str, list[str]] = {}
        for gpu in sample.raw.gpus:
            gauges = [*gpu.gauges, *rates(gpu, earlier.get(gpu.identity.uuid), seconds)]
            good, nonsense[gpu.identity.uuid] = values(gauges)
            rows.append(self._row(sample, gpu, good))
        if self._pages is not None:
            self._pages.complete(sample, rows, {gpu.identity.uuid: gpu.unsupported for gpu in sample.raw.gpus})
        return Reading(rows, health(sample.raw, nonsense))

    def _row(self, sample: Sample[Snapshot], gpu: GpuRaw, columns: dict[str, Any]) -> Envelope.GpuSample:
        what = gpu.identity
        return Envelope.GpuSample(
            host=self._host,
            ts=sample.ts,
            period_ms=sample.period_ms,
            gpu=what.index,
            uuid=what.uuid,
            model=what.model,
            gpu_instance=what.gpu_instance,
            compute_instance=what.compute_instance,
            job_ids=self._attribution.job_ids([process.pid for process in gpu.processes or ()]),
            **columns,
        )

    def close(self) -> None:
        """Ends the session of NVML."""
        self._reader.close()


def sources(agent: settings.Agent, attribution: Attribution) -> Sequence[AnySource]:
    """The GPU source, unless the settings leave it out, and the DCGM pages that complete it.

    A host without a driver has the GPU source too, as `unsupported`.
    """
    pages = dcgm.pages(agent)
    own = [GpuSource(agent.host, agent.interval_s, attribution, pages=pages)] if agent.gpu else []
    return [*own, *dcgm.sources(agent, pages)]

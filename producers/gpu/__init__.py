"""The GPU source: every GPU and MIG instance of the host, through NVML.

`table` declares what is read; `nvml` alone speaks to the library; `reader` finds the GPUs; `parse` makes rows.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from warpmeter import settings
from warpmeter.producers import files
from warpmeter.producers.gpu import dcgm
from warpmeter.producers.gpu.device import GpuRaw
from warpmeter.producers.gpu.event_source import GpuEventSource, Shared
from warpmeter.producers.gpu.nvml import GpuProcess
from warpmeter.producers.gpu.parse import health, look, members, rates, uses, values
from warpmeter.producers.gpu.pause import Pause, file_of
from warpmeter.producers.gpu.process_rows import PROCESSES, process_rows
from warpmeter.producers.gpu.reader import SLOW_PERIOD_S, Reader, Snapshot
from warpmeter.producers.gpu.shares import shares
from warpmeter.producers.source import AnySource, Attribution, Reading, Sample, SourceError
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope

TIMEOUT_S: Final = 5.0
"""A tick of eight GPUs takes milliseconds; a driver in trouble answers in seconds, or never."""
TELL_EVERY_S: Final = 600.0
"""Where the columns come from is said at the start, at a change, and so often."""


class GpuSource:
    """Source of `gpu-samples`, and every 10 s of `gpu-processes`.

    Which jobs run on a GPU comes from `attribution`, which learns the GPUs' processes.
    """

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
        shared: Shared | None = None,
    ) -> None:
        """`pages`: of a DCGM exporter, which complete the rows. `shared`: what it shares with the source of events."""
        self._host, self.period_s, self._attribution, self._pages = host, period_s, attribution, pages
        self._shared = shared or Shared()
        self._pause = Pause(monotonic, self._shared.paused)
        self._reader = Reader(period_s, monotonic, self._shared.listener, self._pause, self._shared.proc)
        self._asked_at: float | None = None
        self.pause, self.resume = self._pause.pause, self._pause.resume

    def read(self) -> Snapshot:
        """All GPUs now; raises SourceError when there is no NVML to ask."""
        try:
            return self._reader.read()
        except SourceError as error:
            if self._pages is not None and error.state == "unsupported":
                self._pages.without_nvml()
            raise

    def parse(self, sample: Sample[Snapshot], before: Sample[Snapshot] | None) -> Reading:
        """A row for every GPU and MIG instance that answered; health for the others and for columns without a value."""
        earlier = {gpu.identity.uuid: gpu for gpu in before.raw.gpus} if before else {}
        seconds = sample.since(before)
        self._attribution.set_gpu_uses(sample, uses(sample.raw))
        self._shared.look = look(sample.ts, sample.raw)
        new_driver = before is None or before.raw.driver != sample.raw.driver
        tell = new_driver or sample.ts // TELL_EVERY_S != (before.ts if before else 0.0) // TELL_EVERY_S
        rows: list[Envelope.GpuSample] = []
        nonsense: dict[str, list[str]] = {}
        for gpu, processes in members(sample.raw):
            last = earlier.get(gpu.identity.uuid)
            good, nonsense[gpu.identity.uuid] = values([*gpu.gauges, *rates(gpu, last, seconds)])
            rows.append(self._row(sample, gpu, processes, good))
            if tell or last is None or last.sources != gpu.sources:
                _tell_sources(rows[-1], gpu, sample.raw.driver)
        if self._pages is not None:
            self._pages.complete(sample, rows, {gpu.identity.uuid: gpu.unsupported for gpu in sample.raw.gpus})
        return Reading(rows, health(sample.raw, nonsense), self._others(sample))

    def _row(
        self, sample: Sample[Snapshot], gpu: GpuRaw, processes: Sequence[GpuProcess], columns: dict[str, Any]
    ) -> Envelope.GpuSample:
        what = gpu.identity
        jobs = self._attribution.jobs_of([process.pid for process in processes])
        job_ids = sorted(set(jobs.values()))
        return Envelope.GpuSample(
            host=self._host,
            ts=sample.ts,
            period_ms=sample.period_ms,
            gpu=what.index,
            uuid=what.uuid,
            model=what.model,
            gpu_instance=what.gpu_instance,
            compute_instance=what.compute_instance,
            job_ids=job_ids,
            job_share_permille=shares(job_ids, jobs, processes, gpu.uses),
            **columns,
        )

    def _others(self, sample: Sample[Snapshot]) -> Mapping[str, Sequence[Message]]:
        """Processes, at the reads that asked about them."""
        people = sample.raw.people
        if people is None:
            return {}
        since = sample.period_s if self._asked_at is None else sample.monotonic - self._asked_at
        self._asked_at = sample.monotonic
        periods = max(1, round(min(since, SLOW_PERIOD_S) / sample.period_s))
        jobs = self._attribution.jobs_of(people)
        rows = process_rows(self._host, sample, periods * sample.period_ms, jobs)
        return {PROCESSES: rows} if rows else {}

    def close(self) -> None:
        """Ends the session of NVML."""
        self._reader.close()


def _tell_sources(row: Envelope.GpuSample, gpu: GpuRaw, driver: str) -> None:
    """What hardly ever changes: which source gives which column, the driver, the device file."""
    row.column_sources.update(gpu.sources)
    row.driver_version = driver
    if gpu.identity.minor_number is not None:
        row.minor_number = gpu.identity.minor_number


def sources(agent: settings.Agent, attribution: Attribution) -> Sequence[AnySource]:
    """The GPU source, unless the settings leave it out, and the DCGM pages that complete it.

    A host without a driver has the GPU source too, as `unsupported`.
    """
    pages = dcgm.pages(agent)
    return [*(_own(agent, attribution, pages) if agent.gpu else ()), *dcgm.sources(agent, pages)]


def _own(agent: settings.Agent, attribution: Attribution, pages: dcgm.Pages | None) -> Sequence[AnySource]:
    shared = Shared(proc=files.below(agent.root, "proc"), paused=file_of(agent.spool_dir))
    memory = agent.spool_dir.with_name(f"{agent.spool_dir.name}-xids.json")
    return (
        GpuSource(agent.host, agent.interval_s, attribution, pages=pages, shared=shared),
        GpuEventSource(agent.host, shared, attribution, agent.root, memory),
    )

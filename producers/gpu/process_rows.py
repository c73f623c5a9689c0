"""Rows of `gpu-processes`: who is on which GPU, with how much memory, and what it did there. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from warpmeter.producers.gpu.device import GpuRaw
from warpmeter.producers.gpu.nvml import IDLE, GpuProcess
from warpmeter.producers.gpu.parse import PERMILLE, mebibytes, members, stored
from warpmeter.producers.gpu.people import Who
from warpmeter.producers.gpu.reader import Snapshot
from warpmeter.producers.source import Sample
from warpmeter.schemas.generated.gpu_processes_pb2 import Envelope

PROCESSES: Final = "gpu-processes"
NOBODY: Final = Who()


def process_rows(
    host: str, sample: Sample[Snapshot], period_ms: int, jobs: Mapping[int, str]
) -> list[Envelope.GpuProcess]:
    """A row for every process on every GPU and MIG instance. `period_ms`: what the rows stand for; `jobs`: by pid."""
    people = sample.raw.people or {}
    return [
        Envelope.GpuProcess(
            host=host,
            ts=sample.ts,
            period_ms=period_ms,
            gpu=gpu.identity.index,
            uuid=gpu.identity.uuid,
            pid=process.pid,
            job_id=jobs.get(process.pid, ""),
            name=people.get(process.pid, NOBODY).name,
            user=people.get(process.pid, NOBODY).user,
            mem_mebibytes=mebibytes(process),
            **_shares(gpu, process),
        )
        for gpu, processes in members(sample.raw)
        for process in processes
    ]


def _shares(gpu: GpuRaw, process: GpuProcess) -> Mapping[str, Any]:
    """NVML tells only who did something; where it does not tell at all, nothing is known."""
    if gpu.uses is None:
        return {}
    use = gpu.uses.get(process.pid, IDLE)
    shares = {"sm": use.sm, "mem": use.memory, "encoder": use.encoder, "decoder": use.decoder}
    return {
        (column := f"{name}_util_permille"): stored(column, share * PERMILLE / 100) for name, share in shares.items()
    }

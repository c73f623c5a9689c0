"""Several jobs on one GPU: which part of it each has. Pure.

By what the jobs' processes did on the multiprocessors lately, where NVML tells; else by the memory they hold; else in
equal parts. Whole permille, which sum to 1000 exactly (the largest remainders are rounded up).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from warpmeter.producers.gpu.nvml import IDLE, GpuProcess, Use

WHOLE: Final = 1000


def shares(
    job_ids: Sequence[str],
    job_of: Mapping[int, str],
    processes: Sequence[GpuProcess],
    uses: Mapping[int, Use] | None,
) -> list[int]:
    """Permille of the GPU by each of `job_ids`, in their order. `job_of`: the job of a pid, at least of these jobs."""
    if len(job_ids) < 2:
        return [WHOLE] * len(job_ids)
    mine = [process for process in processes if process.pid in job_of]
    for weight in (_by_work(mine, uses), _by_memory(mine)):
        by_job = _summed(job_ids, zip((job_of[process.pid] for process in mine), weight, strict=False))
        if sum(by_job) > 0:
            return largest_remainder(by_job)
    return largest_remainder([1.0] * len(job_ids))


def _by_work(processes: Sequence[GpuProcess], uses: Mapping[int, Use] | None) -> list[float]:
    return [] if uses is None else [uses.get(process.pid, IDLE).sm for process in processes]


def _by_memory(processes: Sequence[GpuProcess]) -> list[float]:
    held = [process.used_bytes for process in processes]
    return [] if None in held else [float(used or 0) for used in held]


def _summed(job_ids: Sequence[str], weights: Iterable[tuple[str, float]]) -> list[float]:
    sums = dict.fromkeys(job_ids, 0.0)
    for job, weight in weights:
        sums[job] = sums.get(job, 0.0) + weight
    return [sums[job] for job in job_ids]


def largest_remainder(weights: Sequence[float], whole: int = WHOLE) -> list[int]:
    """Whole parts of `whole` in proportion to `weights`, which sum to it exactly. Raises ZeroDivisionError when no
    weight is above 0."""
    total = sum(weights)
    exact = [weight * whole / total for weight in weights]
    parts = [int(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (parts[i] - exact[i], i))
    for i in by_remainder[: whole - sum(parts)]:
        parts[i] += 1
    return parts

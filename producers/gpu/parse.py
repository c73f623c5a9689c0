"""What a snapshot means: rows of `GpuSample` and the health of each GPU and column. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from warpmeter.producers.counters import UINT32_MAX, fitting
from warpmeter.producers.gpu.device import GpuRaw
from warpmeter.producers.gpu.found import Gauge
from warpmeter.producers.gpu.nvml import GpuProcess
from warpmeter.producers.gpu.reader import Snapshot
from warpmeter.producers.gpu.standing import Look
from warpmeter.producers.source import GpuUse, Health

MIB: Final = 1 << 20
PERMILLE: Final = 1000
TOLERATED_PERMILLE: Final = 1050
"""Means over an interval come out a little above the whole; much above is nonsense."""

BYTES: Final = frozenset(
    {"performance_state", "compute_mode", "nvlink_links_up", "pcie_link_generation", "pcie_link_width"}
    | {"pcie_link_generation_max", "pcie_link_width_max"}
)
WORDS: Final = frozenset({"processes", "minor_number"})
SHORT: Final = (
    *("_mebibytes", "_megabytes_per_s"),
    *("rows_corrected", "rows_uncorrected", "pages_corrected", "pages_uncorrected"),
)

PAUSED: Final = "a profiler has them, as was asked for; they are read again when its time is over or it gives them back"


def most(column: str) -> float:
    """The largest value that a column of `gpu_samples` holds, or that makes sense in it."""
    if column.endswith("_permille"):
        return TOLERATED_PERMILLE
    if column in BYTES or column.endswith("_celsius"):
        return 0xFF
    if column in WORDS or column.endswith(("_deciwatts", "_megahertz")):
        return 0xFFFF
    return UINT32_MAX if column.endswith(SHORT) else 2.0**63 - 1024


def stored(column: str, value: float) -> int | None:
    """The stored integer of a scaled value; None for what cannot be: negative, infinite, a ratio above one, or more
    than its column holds, for that would be refused with all GPUs of the host."""
    if not 0 <= value <= most(column):
        return None
    return min(round(value), PERMILLE) if column.endswith("_permille") else round(value)


def rates(now: GpuRaw, before: GpuRaw | None, seconds: float | None) -> Iterator[Gauge]:
    """Counters per second. None between reads of different sessions, where they may have begun again: a count that
    went down gives nothing."""
    if before is None or not seconds:
        return
    for column, (factor, count) in now.counters.items():
        _, earlier = before.counters.get(column, (factor, float("inf")))
        if count >= earlier:
            yield column, factor, (count - earlier) / seconds


def values(gauges: Sequence[Gauge]) -> tuple[dict[str, int], list[str]]:
    """Columns with their stored integers, and the columns whose number makes no sense."""
    good: dict[str, int] = {}
    bad: list[str] = []
    for column, factor, number in gauges:
        value = stored(column, number * factor)
        if value is None:
            bad.append(column)
        else:
            good[column] = value
    return good, bad


def health(snapshot: Snapshot, nonsense: Mapping[str, Sequence[str]]) -> list[Health]:
    """Every subject that is not `ok`: GPUs by uuid, columns by `uuid/column`. `nonsense`: columns by uuid."""
    found = [Health(subject, why.state, why.why) for subject, why in snapshot.absent]
    for gpu in snapshot.gpus:
        uuid = gpu.identity.uuid
        for problems in (gpu.unsupported, gpu.failing):
            found += [Health(f"{uuid}/{column}", why.state, why.why) for column, why in problems.items()]
        found += [Health(f"{uuid}/{column}", "failed", "NVML gave an impossible value") for column in nonsense[uuid]]
    if snapshot.paused_s:
        found.append(Health("performance counters", "paused", PAUSED))
    return found


def members(snapshot: Snapshot) -> Iterator[tuple[GpuRaw, tuple[GpuProcess, ...]]]:
    """The processes of every GPU and MIG instance, each once: what is in a MIG instance is not also on its GPU."""
    cut = {gpu.identity.index for gpu in snapshot.gpus if gpu.identity.gpu_instance is not None}
    for gpu in snapshot.gpus:
        processes = gpu.processes or ()
        if gpu.identity.gpu_instance is None and gpu.identity.index in cut:
            processes = tuple(process for process in processes if process.gpu_instance is None)
        yield gpu, processes


def uses(snapshot: Snapshot) -> list[GpuUse]:
    """Processes on GPUs, each once."""
    return [
        GpuUse(process.pid, gpu.identity.index, gpu.identity.uuid, mebibytes(process))
        for gpu, processes in members(snapshot)
        for process in processes
    ]


def mebibytes(process: GpuProcess) -> int | None:
    """Device memory that it holds; None when the driver does not tell."""
    return None if process.used_bytes is None else fitting(process.used_bytes // MIB)


def look(ts: float, snapshot: Snapshot) -> Look:
    """What the XIDs that stand are held against."""
    gpus = snapshot.gpus
    return Look(
        ts,
        snapshot.loads,
        {gpu.identity.uuid: _pids(gpu.processes) for gpu in gpus},
        frozenset(subject for subject, why in snapshot.absent if why.state == "gone"),
        {
            (gpu.identity.index, gpu.identity.gpu_instance, gpu.identity.compute_instance): gpu.identity.uuid
            for gpu in gpus
            if gpu.identity.gpu_instance is not None
        },
        {gpu.identity.uuid: energy for gpu in gpus if (energy := _energy(gpu)) is not None},
    )


def _pids(processes: tuple[GpuProcess, ...] | None) -> frozenset[int] | None:
    return None if processes is None else frozenset([process.pid for process in processes])


def _energy(gpu: GpuRaw) -> float | None:
    return next((number for column, _, number in gpu.gauges if column == "energy_joules"), None)

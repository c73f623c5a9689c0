"""One GPU or MIG instance: what it is, and what reading it once gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpmeter.producers.gpu import nvml, table
from warpmeter.producers.gpu.calls import Calls, Processes, ProcessReader
from warpmeter.producers.gpu.counters import Counters, Means
from warpmeter.producers.gpu.found import Found, Gauge
from warpmeter.producers.gpu.nvml import GpuProcess, Handle, Problem, Use
from warpmeter.producers.gpu.throughput import Throughput


@dataclass(frozen=True)
class Identity:
    """What a GPU is, read once. `index`: NVML's, of the whole GPU also for a MIG instance, and so `minor_number`."""

    index: int
    uuid: str
    model: str
    gpu_instance: int | None = None
    compute_instance: int | None = None
    minor_number: int | None = None


@dataclass(frozen=True)
class GpuRaw:
    """What one read of one GPU gave, in NVML's units. A column that was not read now is in no list.

    `counters` become rates. `unsupported` and `failing`: columns without a value, and why.
    `processes`: None when the list could not be had; `uses`: what they did lately, None when not known or not asked.
    `sources`: which source gives which column, as far as it was ever read.
    """

    identity: Identity
    gauges: list[Gauge]
    counters: Mapping[str, tuple[float, float]]
    processes: tuple[GpuProcess, ...] | None
    unsupported: Mapping[str, Problem]
    failing: Mapping[str, Problem]
    uses: Mapping[int, Use] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


class _MigCounters:
    """A MIG instance's counters: GPM, asked through its GPU."""

    def __init__(self, parent: Handle, gpu_instance: int) -> None:
        self._means = Means(parent, gpu_instance)

    def read(self, found: Found, profiling: bool) -> Problem | None:
        if not profiling:
            self._means.rest()
            return None
        unsupported = self._means.read(found)
        if isinstance(unsupported, Problem):
            return unsupported
        found.unsupported.update(unsupported)
        return None

    def close(self) -> None:
        self._means.close()


@dataclass(frozen=True)
class Parts:
    """What a GPU is read with."""

    calls: Calls
    counters: Counters | _MigCounters
    processes: ProcessReader


class Device:
    """A GPU found in this session of NVML, with all its calls prepared.

    `has_mig`: it can be cut into MIG instances; `is_cut`: it is now, so that other calls work on it.
    """

    def __init__(self, identity: Identity, handle: Handle, parts: Parts, mig: bool | None = None) -> None:
        """`mig`: whether MIG is on, None where there is none."""
        self.identity, self.handle = identity, handle
        self.has_mig, self.is_cut = mig is not None, bool(mig)
        self._parts = parts
        self._found = Found()

    def read(self, uses_over_s: float | None, profiling: bool = True) -> GpuRaw | Problem:
        """Everything that is due; a Problem when the GPU is lost, NVML is down, or nothing at all could be read.

        `uses_over_s`: also ask what each process did in so many seconds. `profiling`: with performance counters.
        """
        found = self._found
        found.begin()
        fatal = self._parts.calls.read(found) or self._parts.counters.read(found, profiling)
        if fatal is not None:
            return fatal
        processes = self._parts.processes.read(found, uses_over_s)
        if isinstance(processes, Problem):
            return processes
        if not found.gauges and found.failing:
            return next(iter(found.failing.values()))
        return self._raw(found, processes)

    def _raw(self, found: Found, processes: Processes | None) -> GpuRaw:
        everyone, uses = (processes.all, processes.uses) if processes else (None, None)
        unsupported, failing = dict(found.unsupported), dict(found.failing)
        counters = found.counters
        return GpuRaw(self.identity, found.gauges, counters, everyone, unsupported, failing, uses, found.sources)

    def close(self) -> None:
        """Gives back what NVML holds for it."""
        self._parts.counters.close()


def whole_gpu(identity: Identity, handle: Handle, slow_every: int, throughput: Throughput) -> Device:
    """A GPU; slow values are read at the first two and at every `slow_every`th read."""
    calls = Calls(handle, table.CALLS, slow_every, identity.index)
    parts = Parts(calls, Counters(handle, identity.uuid, throughput), ProcessReader(handle))
    mig = nvml.mig_enabled(handle)
    return Device(identity, handle, parts, None if isinstance(mig, Problem) else mig)


def mig_instance(identity: Identity, handle: Handle, parent: Handle) -> Device:
    """A MIG instance: NVML gives its memory and processes, and GPM through its GPU."""
    calls = Calls(handle, (call for call in table.CALLS if call.mig), 1, 0)
    assert identity.gpu_instance is not None
    return Device(identity, handle, Parts(calls, _MigCounters(parent, identity.gpu_instance), ProcessReader(handle)))


def mig_identities(parent: Identity, handle: Handle) -> list[tuple[Identity, Handle]]:
    """The MIG instances of a GPU now; none when it has no MIG, or it is off."""
    slots = nvml.mig_slots(handle) if nvml.mig_enabled(handle) is True else 0
    found: list[tuple[Identity, Handle]] = []
    for slot in range(0 if isinstance(slots, Problem) else slots):
        mig = nvml.mig_handle(handle, slot)
        if isinstance(mig, Problem):
            continue
        uuid, model, ids = nvml.uuid(mig), nvml.model(mig), nvml.instance_ids(mig)
        if isinstance(uuid, Problem) or isinstance(ids, Problem):
            continue
        name = parent.model if isinstance(model, Problem) else model
        found.append((Identity(parent.index, uuid, name, *ids, parent.minor_number), mig))
    return found

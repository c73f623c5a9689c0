"""One trace, all figures: what each part found, in one document with a version."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from warpmeter.analysis import breakdown as breakdowns
from warpmeter.analysis import causes
from warpmeter.analysis.breakdown import Breakdown, DeviceBreakdown
from warpmeter.analysis.copies import MemoryOperations, copies
from warpmeter.analysis.critical import CriticalPath, critical_path
from warpmeter.analysis.findings import Finding, Seen, findings
from warpmeter.analysis.kernels import Kernel, kernels
from warpmeter.analysis.launches import Launches, launches
from warpmeter.analysis.links import Links, links
from warpmeter.analysis.memory import DeviceMemory, memory
from warpmeter.analysis.modules import ModuleTimes, module_times
from warpmeter.analysis.operators import OperatorTimes, operators
from warpmeter.analysis.overview import Overview, overview
from warpmeter.analysis.roofline import Roofline, roofline
from warpmeter.analysis.selection import Numbers, chosen, cut
from warpmeter.analysis.stacks import Stacks, stacks
from warpmeter.analysis.steps import Spread, Step, StepReport, steps
from warpmeter.analysis.streams import KERNEL_WAIT_NS, DeviceIdle, Stream, Streams, streams
from warpmeter.analysis.trace import Int8s, Trace
from warpmeter.analysis.windows import Windows, windows

SCHEMA_VERSION: Final = 1
"""Of the JSON. A new field leaves it as it is; another meaning, or a field less, raises it."""


@dataclass(frozen=True)
class Options:
    """What is wanted of a trace.

    `device` names the data sheet where the trace does not tell what it ran on. `strict`: a part's fault is raised
    instead of noted (for tests).
    """

    steps: Numbers | None = None
    device: str | None = None
    strict: bool = False


@dataclass(frozen=True)
class GpuDevice:
    """A device as the trace describes it; None where it does not."""

    id: int
    name: str
    memory_bytes: int | None
    processors: int | None


@dataclass(frozen=True)
class IdleCauses:
    """The idle time of all devices together by what the next event waited for (see `causes`); sums to `idle_ns`."""

    input_ns: int
    sync_ns: int
    allocation_ns: int
    launching_ns: int
    device_ns: int
    unknown_ns: int


@dataclass(frozen=True)
class RankReport:
    """Everything that was found in one trace. A part is None where it could not be computed; `notes` says why."""

    rank: int
    world_size: int | None
    file: str
    events: int
    notes: list[str]
    device_names: list[GpuDevice]
    epoch_ns: int
    gpu_events: int
    compute_events: int
    comm_events: int
    memcpy_events: int
    memset_events: int
    start_ns: int | None
    span_ns: int | None
    busy_ns: int | None
    idle_ns: int | None
    compute_ns: int | None
    comm_ns: int | None
    mem_ns: int | None
    memcpy_ns: int | None
    memset_ns: int | None
    comm_compute_overlap_ns: int | None
    mem_compute_overlap_ns: int | None
    mem_comm_overlap_ns: int | None
    exposed_comm_ns: int | None
    exposed_mem_ns: int | None
    total_ns: int | None
    devices: list[DeviceBreakdown]
    kernels: list[Kernel]
    streams: list[Stream]
    device_idle: list[DeviceIdle]
    kernel_wait_threshold_ns: int
    launch: Launches | None
    memory_operations: list[MemoryOperations]
    steps: list[Step]
    step_source: str
    step_label: str
    step_spread: list[Spread]
    outside_steps_events: int
    outside_steps_ns: int
    idle_causes: IdleCauses | None
    operators: OperatorTimes | None
    roofline: Roofline | None
    critical_path: CriticalPath | None
    memory: list[DeviceMemory] | None
    stacks: Stacks | None
    modules: ModuleTimes | None
    overview: Overview | None
    findings: list[Finding]
    steps_wanted: str | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """What the parts work on: the trace (cut to its steps where some are wanted), its links, steps and sorts."""

    trace: Trace
    links: Links
    steps: Windows
    sort: Int8s


def material(trace: Trace, options: Options = Options()) -> Material:
    """Join a trace and find its steps. Raises SelectionError where those that are wanted are not there."""
    joined = links(trace)
    steps = windows(trace, joined)
    if options.steps is not None:
        trace = cut(trace, steps, chosen(steps, options.steps))
        joined = links(trace)
        steps = windows(trace, joined)
    return Material(trace, joined, steps, breakdowns.sorts(trace.gpu, trace.names))


def analyze(trace: Trace, options: Options = Options()) -> RankReport:
    """All figures of one trace. Raises SelectionError where steps are wanted that are not there."""
    return report(material(trace, options), options)


Part = Callable[[Material, Options], Any]

PARTS: Final[Mapping[str, Part]] = {
    "stacks": lambda on, _: stacks(on.trace, on.links),
    "critical_path": lambda on, _: critical_path(on.trace, on.links, on.steps),
    "steps": lambda on, _: steps(on.trace, on.links, on.steps),
    "operators": lambda on, _: operators(on.trace, on.links),
    "overview": lambda on, _: overview(on.trace, on.sort),
    "launch": lambda on, _: launches(on.trace, on.links),
    "memory": lambda on, _: memory(on.trace, on.links, on.steps).devices,
    "modules": lambda on, _: module_times(on.trace, on.links),
    "roofline": lambda on, options: roofline(on.trace, on.links, on.steps, options.device),
    "kernels": lambda on, _: kernels(on.trace, on.links, on.sort),
    "streams": lambda on, _: streams(on.trace, on.links, on.sort),
    "idle_causes": lambda on, _: causes.gaps(on.trace, on.links),
    "memory_operations": lambda on, _: copies(on.trace),
}
"""Parts that need nothing of each other."""


def report(on: Material, options: Options = Options()) -> RankReport:
    """All figures of one trace that is joined already. What a part cannot compute is left out, and `notes` says so."""
    trace = on.trace
    found, notes = _parts(on, options)
    streams_ = found.pop("streams") or Streams(KERNEL_WAIT_NS, (), ())
    by_step = found.pop("steps") or StepReport("", "", [], [], 0, 0)
    found["kernels"] = found["kernels"] or []
    found["memory_operations"] = found["memory_operations"] or []
    gaps = found.pop("idle_causes")
    totals = breakdowns.breakdown(trace.gpu, on.sort)
    said, note = _attempt("findings", lambda *_: findings(_seen(on, totals, gaps, by_step, found)), on, options)
    return RankReport(
        rank=trace.rank,
        world_size=trace.distributed.world_size if trace.distributed is not None else None,
        file=trace.file,
        events=trace.events,
        device_names=[GpuDevice(d.id, d.name, d.memory_bytes or None, d.processors or None) for d in trace.devices],
        epoch_ns=trace.epoch_ns,
        devices=breakdowns.devices(trace.gpu, on.sort),
        streams=list(streams_.streams),
        device_idle=list(streams_.devices),
        kernel_wait_threshold_ns=streams_.kernel_wait_threshold_ns,
        steps=by_step.steps,
        step_source=by_step.source,
        step_label=by_step.label,
        step_spread=by_step.spread,
        outside_steps_events=by_step.outside_events,
        outside_steps_ns=by_step.outside_ns,
        steps_wanted=None if options.steps is None else str(options.steps),
        idle_causes=None if gaps is None else _idle_causes(gaps, totals),
        findings=said or [],
        notes=[*trace.notes, *notes, *note],
        **asdict(totals),
        **found,
    )


def _parts(on: Material, options: Options) -> tuple[dict[str, Any], list[str]]:
    """What each part found, and a note of each that failed."""
    found = {name: _attempt(name, part, on, options) for name, part in PARTS.items()}
    return {name: value for name, (value, _) in found.items()}, [note for _, notes in found.values() for note in notes]


def _attempt(name: str, part: Part, on: Material, options: Options) -> tuple[Any, list[str]]:
    """What it found and nothing to say; or nothing and why: the fault of one part takes no other along."""
    try:
        return part(on, options), []
    except Exception as error:
        if options.strict:
            raise
        words = name.replace("_", " ")
        return None, [f"{words} left out, by a fault of warpmeter: {type(error).__name__}: {error}"]


def _idle_causes(gaps: causes.Gaps, totals: Breakdown) -> IdleCauses | None:
    if totals.idle_ns is None:
        return None
    parts = ("input", "sync", "allocation", "launching", "device")
    known = {f"{part}_ns": int(getattr(gaps, part).sum()) for part in parts}
    return IdleCauses(**known, unknown_ns=totals.idle_ns - sum(known.values()))


def _seen(
    on: Material, totals: Breakdown, gaps: causes.Gaps | None, by_step: StepReport, found: Mapping[str, Any]
) -> Seen:
    return Seen(
        on.trace,
        on.links,
        totals,
        causes.gaps(on.trace, on.links) if gaps is None else gaps,
        exposed=causes.exposed_communication(on.trace, on.sort),
        kernels=found["kernels"],
        launch=found["launch"],
        steps=by_step.steps,
        spread=by_step.spread,
        roofline=found["roofline"],
        memory=found["memory"] or (),
    )

"""A decoded trace: columns of the events that analysis needs, times as integer nanoseconds.

Every array of a table has one entry an event, in ascending order of `start` (ties: the longer first, so that a parent
stands before its children; then as in the file). Times are those of the file's text times 1,000, never rounded;
`Trace.epoch_ns` makes them nanoseconds since the epoch. Texts are indexes into `Trace.names`. -1 is "not there".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Int8s = npt.NDArray[np.int8]
Float32s = npt.NDArray[np.float32]
Booleans = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]

NONE: Final = -1


@dataclass(frozen=True, eq=False)
class Columns:
    """Arrays of one length. Subclasses name them."""

    start: Int64s

    def __len__(self) -> int:
        return len(self.start)

    def take(self, where: Booleans | Places | slice) -> Self:
        """The same columns of the chosen events, in their order."""
        return type(self)(**{column.name: getattr(self, column.name)[where] for column in fields(self)})


@dataclass(frozen=True, eq=False)
class Spans(Columns):
    """Events with a duration."""

    duration: Int64s
    name: Int32s

    @property
    def end(self) -> Int64s:
        """Start plus duration."""
        return self.start + self.duration


class Kind(IntEnum):
    """What a GPU event is: by its category alone."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


@dataclass(frozen=True, eq=False)
class GpuEvents(Spans):
    """What ran on a device: categories kernel, gpu_memcpy, gpu_memset (and their older names), mtia_ccp_events.

    `correlation` joins it to `Calls`, `external` to `Operators`. `bytes` of copies and sets. `occupancy` is Kineto's
    estimate 0-1, NaN where there is none. `collective` indexes `Trace.collectives`, `launch` indexes `Trace.launches`.
    """

    kind: Int8s
    device: Int32s
    stream: Int64s
    correlation: Int64s
    external: Int64s
    bytes: Int64s
    occupancy: Float32s
    collective: Int32s
    launch: Int32s


@dataclass(frozen=True, eq=False)
class Calls(Spans):
    """Calls of the GPU's runtime or driver library on the host, by `thread` (index into `Trace.threads`)."""

    thread: Int32s
    correlation: Int64s
    external: Int64s


@dataclass(frozen=True, eq=False)
class Operators(Spans):
    """`cpu_op`: operators of PyTorch and ranges that its record functions open.

    `sequence` and `forward_thread` (Kineto's number of the thread, not an index) join a backward operator to its
    forward one. `inputs` indexes `Trace.inputs`. `collective` indexes `Trace.collectives` (record_param_comms).
    """

    thread: Int32s
    external: Int64s
    sequence: Int64s
    forward_thread: Int64s
    inputs: Int32s
    collective: Int32s


@dataclass(frozen=True, eq=False)
class Annotations(Spans):
    """`user_annotation`: ranges that the program or a library named, `ProfilerStep#N` among them.

    `inputs` indexes `Trace.inputs`.
    """

    thread: Int32s
    external: Int64s
    inputs: Int32s


@dataclass(frozen=True, eq=False)
class GpuAnnotations(Spans):
    """`gpu_user_annotation`: the same ranges as the GPU saw them, from the first to the last event below."""

    device: Int32s
    stream: Int64s


@dataclass(frozen=True, eq=False)
class Frames(Spans):
    """`python_function`: Python calls and `nn.Module` calls. `id` and `parent` are the profiler's own numbers."""

    thread: Int32s
    id: Int64s
    parent: Int64s


@dataclass(frozen=True, eq=False)
class Waits(Spans):
    """`cuda_sync`: what a stream or the host waited for. No work of the GPU."""

    device: Int32s
    stream: Int64s
    correlation: Int64s
    on_stream: Int64s
    on_correlation: Int64s


@dataclass(frozen=True, eq=False)
class Allocations(Columns):
    """`[memory]` instants: `bytes` came (above zero) or went. `device_type` 0 is the host, 1 CUDA, 20 HIP.

    `allocated` and `reserved` are the allocator's totals after it, -1 where not told.
    """

    thread: Int32s
    address: Int64s
    bytes: Int64s
    device_type: Int32s
    device: Int32s
    allocated: Int64s
    reserved: Int64s


@dataclass(frozen=True, eq=False)
class Flows(Columns):
    """Arrows of category fwdbwd, forward operator to backward one: `begins` or ends arrow `id` on `thread`."""

    id: Int64s
    thread: Int32s
    begins: Booleans


@dataclass(frozen=True, eq=False)
class Counters(Columns):
    """Counter events: one value of one series (`name` is the counter's and the series' name)."""

    name: Int32s
    value: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Thread:
    """A host thread: pid and tid as text (some tracks have words for ids) and the names the trace gives them."""

    pid: str
    tid: str
    process_name: str = ""
    name: str = ""


@dataclass(frozen=True)
class Device:
    """A device as the trace describes it; figures 0 where it does not."""

    id: int
    name: str
    memory_bytes: int = 0
    processors: int = 0
    compute_capability: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Inputs:
    """An operator's inputs, as JSON gave them: nested lists of sizes, type names, concrete values as text."""

    dims: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    concrete: tuple[Any, ...] = ()
    strides: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Collective:
    """What a collective kernel or its operator says of itself; empty or 0 where it says nothing."""

    name: str = ""
    dtype: str = ""
    in_elements: int = 0
    out_elements: int = 0
    group_name: str = ""
    group_description: str = ""
    group_size: int = 0
    group_ranks: tuple[int, ...] = ()
    source: int = NONE
    """The rank that a recv is from, -1 where it is not told."""
    target: int = NONE
    """The rank that a send goes to, -1 where it is not told."""


@dataclass(frozen=True)
class Launch:
    """How a kernel was launched: blocks and threads by dimension, registers a thread, bytes of shared memory a block.

    Empty or -1 where it is not told.
    """

    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int = NONE
    shared_bytes: int = NONE


@dataclass(frozen=True)
class ProcessGroup:
    """A process group from `distributedInfo`."""

    name: str
    description: str
    backend: str
    ranks: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Distributed:
    """`distributedInfo`: None where the trace has none."""

    backend: str
    rank: int
    world_size: int
    groups: tuple[ProcessGroup, ...] = ()


@dataclass(frozen=True, eq=False)
class Trace:
    """One file of one process."""

    file: str
    names: Sequence[str]
    threads: Sequence[Thread]
    gpu: GpuEvents
    calls: Calls
    operators: Operators
    annotations: Annotations
    gpu_annotations: GpuAnnotations
    frames: Frames
    waits: Waits
    allocations: Allocations
    flows: Flows
    counters: Counters
    inputs: Sequence[Inputs] = ()
    collectives: Sequence[Collective] = ()
    launches: Sequence[Launch] = ()
    devices: Sequence[Device] = ()
    distributed: Distributed | None = None
    epoch_ns: int = 0
    events: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """What was wrong with the file and what was left out because of it, in words; empty for a sound one."""

    @property
    def rank(self) -> int:
        """Its rank by `distributedInfo`; 0 for a process that is alone."""
        return self.distributed.rank if self.distributed is not None else 0

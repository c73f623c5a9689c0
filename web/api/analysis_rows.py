"""What the API answers of analysed traces (docs/analysis.md): times in seconds, shares 0-1, null for "not known"."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

Sort = Literal["compute", "comm", "memcpy", "memset"]


class CaptureAnalysed(BaseModel):
    """A capture whose ranks are analysed. Shares are of the sum of their spans; `step_seconds`: of the median rank."""

    capture_id: str = Field(examples=["capture-7"])
    job_id: str
    workload: str
    captured_at: datetime
    loaded_at: datetime
    ranks: int
    world_size: int | None
    hosts: list[str]
    gpu_models: list[str]
    busy_share: float | None
    exposed_comm_share: float | None
    step_seconds: float | None


class CapturesAnalysed(BaseModel):
    """A page of captures."""

    data: list[CaptureAnalysed]
    total: int
    next: int | None


class Work(BaseModel):
    """What GPUs did in the `span` from the first event to the last, and what idle time waited for.

    `busy` = `compute` + `exposed_comm` + `exposed_mem`; overlaps count where both ran at once. The parts `idle_…`
    add up to `idle`; they and overlaps of copies are null in what was loaded before they were kept.
    """

    span_seconds: float | None = Field(examples=[1.222847])
    busy_seconds: float | None
    idle_seconds: float | None
    compute_seconds: float | None
    comm_seconds: float | None
    mem_seconds: float | None
    comm_compute_overlap_seconds: float | None
    mem_compute_overlap_seconds: float | None
    mem_comm_overlap_seconds: float | None
    exposed_comm_seconds: float | None
    exposed_mem_seconds: float | None
    idle_input_seconds: float | None
    idle_sync_seconds: float | None
    idle_allocation_seconds: float | None
    idle_launching_seconds: float | None
    idle_device_seconds: float | None
    idle_unknown_seconds: float | None


class Rank(Work):
    """A rank's trace, and what its GPU did."""

    process: str = Field(
        examples=["0"], description="What a load replaces: the rank, or host/rank where it is not told."
    )
    rank: int
    host: str = Field(examples=["gpu-07"])
    job_id: str = Field(examples=["4711"])
    workload: str
    gpu_model: str = Field(examples=["NVIDIA H100 80GB HBM3"])
    devices: list[int]
    backend: str
    world_size: int | None
    captured_at: datetime
    loaded_at: datetime
    file: str
    events: int
    gpu_events: int
    total_seconds: float | None
    launch_matched: int | None
    launch_delay_p50_seconds: float | None
    launch_delay_p99_seconds: float | None
    queue_depth: float | None
    steps: int
    step_source: str
    step_p50_seconds: float | None
    step_min_seconds: float | None
    step_max_seconds: float | None
    flops: int | None
    flops_per_s: float | None
    mfu: float | None
    memory_peak_bytes: int | None
    memory_reserved_bytes: int | None
    notes: list[str]


class Ranks(BaseModel):
    """How far a capture is, and its ranks that are analysed.

    `state`: analysed; else capturing, waiting (for the analysis) or failed, and `why` says what is wrong. Counts are
    of its processes, null where it was loaded by hand. Of an analysed one `why` says what of it is missing.
    """

    capture_id: str = Field(examples=["capture-7"])
    sequence: int
    state: Literal["analysed", "capturing", "waiting", "failed"]
    why: str
    processes: int | None
    captured: int | None
    analysed: int | None
    failed: int | None
    rounds: list[int] = Field(
        description="Rounds that are analysed, of a capture that takes several.", examples=[[1, 2]]
    )
    data: list[Rank]


class Breakdown(Work):
    """All chosen ranks together: sums over their spans. `ranks` is how many."""

    ranks: int


class Finding(BaseModel):
    """What stands out, in words, and what to do. `cost_seconds`: the time it concerns, on the rank where it is most."""

    id: str = Field(examples=["launch_bound"])
    text: str
    advice: str
    value: float
    unit: str = Field(examples=["ratio"])
    cost_seconds: float
    worst_rank: int | None = Field(description="null for what stands out between the ranks.")
    ranks: int = Field(description="On how many of the ranks; of those together, where it is between them.")


class Findings(BaseModel):
    """What stands out, what concerns most time first."""

    data: list[Finding]


class Kernel(BaseModel):
    """A kernel (or copy, or set) by name, over the chosen ranks. `share` is of the sum of all durations."""

    kernel: str = Field(examples=["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"])
    name: str
    sort: Sort
    total_seconds: float
    share: float | None
    count: int
    mean_seconds: float
    min_seconds: float
    max_seconds: float
    launch_delay_seconds: float | None = Field(description="From the end of the launching call to the start, mean.")
    ranks: int
    slowest_rank: int
    slowest_over_fastest: float | None
    operator: str = Field(examples=["aten::mm"])
    occupancy: float | None
    matrix_units: bool | None


class Kernels(BaseModel):
    """A page of kernels."""

    data: list[Kernel]
    total: int
    next: int | None


class Operator(BaseModel):
    """An operator by name (and shapes of its inputs), over the chosen ranks."""

    operator: str = Field(examples=["aten::mm"])
    dims: str = Field(examples=["[[4096,1024],[1024,4096]]"])
    types: str
    calls: int
    gpu_self_seconds: float
    gpu_total_seconds: float
    cpu_self_seconds: float
    cpu_total_seconds: float
    gpu_events: int
    flops: int | None
    flops_per_s: float | None
    roof_share: float | None
    bound: str
    ranks: int


class Operators(BaseModel):
    """A page of operators."""

    data: list[Operator]
    total: int
    next: int | None


class Step(BaseModel):
    """A step, over the chosen ranks: means, but for the longest (`duration`) and the shortest.

    `during_…` are parts of its window: what the GPUs ran in it, for whichever step. `odd`: it is longer than the median
    by a tenth, and by five times the usual distance from it.
    """

    step: str = Field(examples=["ProfilerStep#12"])
    ranks: int
    duration_seconds: float
    mean_seconds: float
    shortest_seconds: float
    median_seconds: float
    odd: bool
    slowest_rank: int
    start_seconds: float
    during_compute_seconds: float | None
    during_exposed_comm_seconds: float | None
    during_exposed_mem_seconds: float | None
    during_idle_seconds: float | None
    busy_share: float | None
    compute_seconds: float | None
    exposed_comm_seconds: float | None
    wait_seconds: float | None
    input_seconds: float | None
    lead_seconds: float | None
    tail_seconds: float | None
    gpu_events: int
    launches: int
    flops: int | None
    mfu: float | None
    memory_peak_bytes: int | None


class Steps(BaseModel):
    """All steps, in order."""

    data: list[Step]


class Stream(BaseModel):
    """A stream of a rank: how long it ran what, and what its gaps waited for.

    `host_wait`: the next event was not launched yet when the one before ended; `kernel_wait`: other gaps below 30 µs.
    """

    process: str
    rank: int
    device: int
    stream: int
    gpu_events: int
    span_seconds: float
    busy_seconds: float
    compute_seconds: float
    comm_seconds: float
    mem_seconds: float
    idle_seconds: float
    host_wait_seconds: float
    kernel_wait_seconds: float
    other_seconds: float


class Streams(BaseModel):
    """A page of streams."""

    data: list[Stream]
    total: int
    next: int | None


class Collective(BaseModel):
    """Collectives of a group, kind, type and size. `wait_share`: the part of their time in which ranks waited."""

    group: str
    kind: str = Field(examples=["all_reduce"])
    dtype: str
    bytes: int | None
    collectives: int
    count: int
    ranks: int
    group_size: int | None
    total_seconds: float
    wait_seconds: float | None
    wait_share: float | None
    transfer_p50_seconds: float | None
    skew_p50_seconds: float | None
    skew_max_seconds: float | None
    bus_bytes_per_s: float | None
    last_rank: int | None = Field(description="The rank that most often surely came last.")
    late: int
    id: str = Field(description="What tells it from the others.", examples=["0/all_reduce/Float/4194304"])


class Collectives(BaseModel):
    """A page of collectives."""

    data: list[Collective]
    total: int
    next: int | None


class Skewed(BaseModel):
    """A single collective to which one rank surely came last, and why."""

    meeting: int | None
    group: str
    kind: str
    bytes: int | None
    ranks: int
    last_rank: int
    last_host: str
    start_ns: int
    skew_seconds: float
    late_seconds: float | None
    cost_seconds: float | None
    cause: str


class SkewedPage(BaseModel):
    """A page of single collectives."""

    data: list[Skewed]
    total: int
    next: int | None


class Copies(BaseModel):
    """Copies of a direction, or sets: how many, how long, how much, how fast. Bytes are of those whose size is told."""

    operation: str = Field(examples=["Memcpy HtoD"])
    sort: Sort
    count: int
    total_seconds: float
    mean_seconds: float
    min_seconds: float
    max_seconds: float
    bytes: int | None
    bytes_per_s: float | None
    paths: list[str] = Field(examples=[["Pinned -> Device"]])
    ranks: int


class Holder(BaseModel):
    """Who held memory at the peak."""

    operator: str
    module: str
    step: str
    blocks: int
    bytes: int


class Held(BaseModel):
    """Memory of a device over time, as columns; `absolute` false: against the beginning of the trace."""

    process: str
    rank: int
    device_type: str
    device: int
    absolute: bool
    at_seconds: list[float]
    allocated_bytes: list[int]
    reserved_bytes: list[int | None]
    peak_bytes: int
    peak_at_seconds: float
    holders: list[Holder]


class Memory(BaseModel):
    """Copies and sets, and what tensors held (empty where the trace was made without `profile_memory`)."""

    copies: list[Copies]
    devices: list[Held]


class Straggler(BaseModel):
    """A rank for which the others waited in collectives. `cost`: what the job gains if this rank alone keeps up."""

    rank: int
    host: str
    gpu_model: str
    last: int
    of: int
    cost_seconds: float
    late_seconds: float
    worst_seconds: float
    waited_seconds: float
    cause: str = Field(examples=["slow_kernels"])
    causes_seconds: dict[str, float]
    compute_over_median: float | None


class Stragglers(BaseModel):
    """The costliest first; empty where all came in time."""

    data: list[Straggler]


class Side(BaseModel):
    """A capture of two: times of a `unit`."""

    side: Literal["before", "after"]
    capture_id: str
    ranks: int
    steps: int
    units: int
    span_seconds: float | None
    compute_seconds: float | None
    exposed_comm_seconds: float | None
    exposed_mem_seconds: float | None
    idle_seconds: float | None
    kernels_seconds: float | None


class Diff(BaseModel):
    """Two captures. `unit`: times are of one `step` of one rank, or of the `capture` where not both have steps."""

    unit: Literal["step", "capture"]
    before: Side
    after: Side


Status = Literal["came", "went", "slower", "faster", "more", "fewer", "same"]


class Changed(BaseModel):
    """A kernel on both sides: times a unit; `change` = `by_number` (of calls) + `by_duration` (of each call)."""

    kernel: str
    name: str
    sort: Sort
    status: Status
    before_count: int
    after_count: int
    before_seconds: float
    after_seconds: float
    change_seconds: float
    changed_seconds: float
    by_number_seconds: float
    by_duration_seconds: float
    before_mean_seconds: float | None
    after_mean_seconds: float | None
    operator: str


class ChangedPage(BaseModel):
    """A page of kernels, the largest change first."""

    data: list[Changed]
    total: int
    next: int | None


class ChangedOperator(BaseModel):
    """An operator on both sides: times a unit."""

    operator: str
    before_calls: int
    after_calls: int
    before_gpu_seconds: float
    after_gpu_seconds: float
    change_gpu_seconds: float
    changed_gpu_seconds: float
    before_cpu_seconds: float
    after_cpu_seconds: float
    change_cpu_seconds: float


class ChangedOperators(BaseModel):
    """A page of operators, the largest change on the GPU first."""

    data: list[ChangedOperator]
    total: int
    next: int | None

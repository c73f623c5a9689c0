"""Rules about what the GPU did with its time."""

import re
from typing import Final

import numpy as np

from warpmeter.analysis.findings.seen import EVIDENCE, Evidence, Finding, Seen, by_time, most, ns, number
from warpmeter.analysis.kernels import Kernel
from warpmeter.analysis.memory import HOST, Holder
from warpmeter.analysis.names import short_name
from warpmeter.analysis.trace import GpuEvents
from warpmeter.analysis.words import count, digits, duration, percent, size

EXPOSED_COMM_SHARE: Final = 0.05
ALL_BUT: Final = 0.95
"""A kernel with so much of something has all of it, in words."""
EXPOSED_MEM_SHARE: Final = 0.05
PAGEABLE_SHARE: Final = 0.01
DEVICE_SHARE: Final = 0.10
DEVICE_GAP_NS: Final = 30_000
"""Shorter gaps before work that was launched are what starting a kernel costs."""
SMALL_NS: Final = 10_000
SMALL_COUNT: Final = 100
SMALL_SHARE_OF_COUNT: Final = 0.5
SMALL_SHARE_OF_TIME: Final = 0.2
LOW_OCCUPANCY: Final = 0.25
LOW_OCCUPANCY_SHARE: Final = 0.2
NO_MATRIX_UNITS_SHARE: Final = 0.1
LAYOUT_SHARE: Final = 0.03
SLOW_ROOF_SHARE: Final = 0.3
SLOW_SHARE: Final = 0.2
UNEVEN_RATIO: Final = 1.5
UNEVEN_STEPS: Final = 4
FULL_SHARE: Final = 0.95
FIRST_TENSOR_CORES: Final = (7, 0)

_LAYOUT: Final = re.compile(r"nchwToNhwc|nhwcToNchw|nchw_to_nhwc|nhwc_to_nchw|batched_transpose", re.I)
_PAGEABLE: Final = re.compile(r"Memcpy .*Pageable")


def exposed_communication(seen: Seen) -> Finding | None:
    """The GPU communicates and computes nothing meanwhile."""
    cost = seen.totals.exposed_comm_ns or 0
    if seen.share(cost) < EXPOSED_COMM_SHARE or not seen.exposed:
        return None
    first = seen.exposed[0]
    all_of_it = first.exposed_ns >= ALL_BUT * cost
    where = f"{'' if all_of_it else ', ' + percent(seen.share(first.exposed_ns))} in {short_name(first.name)}"
    return Finding(
        "exposed_communication",
        f"Exposed communication takes {percent(seen.share(cost))} of the time{where}",
        seen.share(cost),
        "ratio",
        cost,
        [ns(short_name(each.name), each.exposed_ns) for each in seen.exposed[:EVIDENCE]],
        "Overlap it with computation (bucket sizes, prefetching of FSDP, a stream of its own), send less (precision, "
        "gradient accumulation, sharding), or look for a rank that comes late: all others wait in the same kernels.",
    )


def exposed_memory(seen: Seen) -> Finding | None:
    """Copies and sets during which no kernel ran."""
    cost = seen.totals.exposed_mem_ns or 0
    if seen.share(cost) < EXPOSED_MEM_SHARE:
        return None
    moves = [kernel for kernel in seen.kernels if kernel.sort in ("memcpy", "memset")]
    return Finding(
        "exposed_memory",
        f"Copies and sets of memory that nothing hides take {percent(seen.share(cost))} of the time; "
        f"{count(sum(each.count for each in moves), 'operation')}, most time in {_longest(moves).name}",
        seen.share(cost),
        "ratio",
        cost,
        by_time(moves),
        "Copy from pinned memory with non_blocking=True on another stream, ahead of time; keep tensors on the device; "
        "avoid .contiguous() and clones.",
    )


def pageable_copies(seen: Seen) -> Finding | None:
    """Copies between the device and host memory that is not pinned: slow, and the host waits in them."""
    copies = [kernel for kernel in seen.kernels if _PAGEABLE.match(kernel.name)]
    cost = seen.covered(_events(seen, copies)) if copies else 0
    if seen.share(cost) < PAGEABLE_SHARE:
        return None
    return Finding(
        "pageable_copies",
        f"Copies from or to pageable memory take {percent(seen.share(cost))} of the time: "
        f"{count(sum(each.count for each in copies), 'copy', 'copies')} in {duration(cost)}",
        seen.share(cost),
        "ratio",
        cost,
        by_time(copies),
        "Pin the host's memory: DataLoader(pin_memory=True) or tensor.pin_memory(), then .to(device, "
        "non_blocking=True).",
    )


def _longest(kernels: list[Kernel]) -> Kernel:
    return max(kernels, key=lambda kernel: kernel.total_ns)


def device_wait(seen: Seen) -> Finding | None:
    """Work was launched, and the device did not begin it."""
    long = seen.gaps.device >= DEVICE_GAP_NS
    cost = int(seen.gaps.device[long].sum())
    if seen.share(cost) < DEVICE_SHARE:
        return None
    return Finding(
        "device_wait",
        f"The GPU stands still {percent(seen.share(cost))} of the time with work in its queue, in "
        f"{count(int(long.sum()), 'gap')}, the longest {duration(int(seen.gaps.device.max()))}",
        seen.share(cost),
        "ratio",
        cost,
        [number("gaps", int(long.sum())), ns("longest gap", int(seen.gaps.device.max()))],
        "Something outside of this trace's kernels holds it: an event of another process or of the host, another "
        "process on the device, a profiler or debugger (CUDA_LAUNCH_BLOCKING).",
    )


def small_kernels(seen: Seen) -> Finding | None:
    """Most kernels are so short that starting them counts."""
    compute = _events(seen, seen.compute).duration
    small = compute[compute < SMALL_NS]
    share = len(small) / len(compute) if len(compute) else 0.0
    cost = int(small.sum())
    of_time = cost / seen.compute_total if seen.compute_total else 0.0
    if len(small) < SMALL_COUNT or share < SMALL_SHARE_OF_COUNT or of_time < SMALL_SHARE_OF_TIME:
        return None
    kernels = [kernel for kernel in seen.compute if kernel.p50_ns < SMALL_NS]
    return Finding(
        "small_kernels",
        f"{count(len(small), 'kernel')} of {len(compute):,} are shorter than {duration(SMALL_NS)}; together they take "
        f"{percent(of_time)} of the kernels' time",
        share,
        "ratio",
        cost,
        [ns("median of all kernels", int(np.median(compute))), *by_time(kernels)[: EVIDENCE - 1]],
        "Fuse them: torch.compile, fused or foreach optimizers, fused layers (attention, norms); or larger batches.",
    )


def _events(seen: Seen, kernels: list[Kernel]) -> GpuEvents:
    """The GPU events of these names."""
    names = {kernel.name for kernel in kernels}
    gpu = seen.trace.gpu
    wanted = [index for index in np.unique(gpu.name).tolist() if seen.trace.names[index] in names]
    return gpu.take(np.isin(gpu.name, np.array(wanted, np.int32)))


def low_occupancy(seen: Seen) -> Finding | None:
    """Kernels that leave most of each multiprocessor's threads unused; products on tensor cores do so on purpose.

    An estimate of 0 says nothing: Kineto gives it where it could not reckon.
    """
    low = [
        kernel
        for kernel in seen.compute
        if kernel.occupancy and kernel.occupancy < LOW_OCCUPANCY and kernel.matrix_units is not True
    ]
    cost = sum(kernel.total_ns for kernel in low)
    share = cost / seen.compute_total if seen.compute_total else 0.0
    if share < LOW_OCCUPANCY_SHARE:
        return None
    first = _longest(low)
    return Finding(
        "low_occupancy",
        f"Kernels with an occupancy below {percent(LOW_OCCUPANCY)} take {percent(share)} of the kernels' time; the "
        f"longest, {first.short_name}, has {percent(first.occupancy or 0.0)}",
        share,
        "ratio",
        cost,
        [Evidence(each.short_name, each.occupancy or 0.0, "ratio") for each in _longest_first(low)[:EVIDENCE]],
        "Give them more to do at once: larger batches, other block sizes, fewer registers or less shared memory each.",
    )


def _longest_first(kernels: list[Kernel]) -> list[Kernel]:
    return sorted(kernels, key=lambda kernel: (-kernel.total_ns, kernel.name))


def no_tensor_cores(seen: Seen) -> Finding | None:
    """Matrix products and convolutions that leave the device's matrix units unused."""
    if any((0, 0) < device.compute_capability < FIRST_TENSOR_CORES for device in seen.trace.devices):
        return None
    without = [kernel for kernel in seen.compute if kernel.matrix_units is False]
    cost = sum(kernel.total_ns for kernel in without)
    share = cost / seen.compute_total if seen.compute_total else 0.0
    if share < NO_MATRIX_UNITS_SHARE:
        return None
    return Finding(
        "no_tensor_cores",
        f"Matrix products without tensor cores take {percent(share)} of the kernels' time, most of it "
        f"{_longest(without).short_name}",
        share,
        "ratio",
        cost,
        by_time(without),
        "Use bf16 or fp16 (torch.autocast), or TF32 for float32 (torch.set_float32_matmul_precision('high')); sizes "
        "that are multiples of 8.",
    )


def layout_conversion(seen: Seen) -> Finding | None:
    """Convolutions that turn their tensors around first."""
    turns = [kernel for kernel in seen.compute if _LAYOUT.search(kernel.name)]
    cost = sum(kernel.total_ns for kernel in turns)
    share = cost / seen.compute_total if seen.compute_total else 0.0
    if share < LAYOUT_SHARE:
        return None
    return Finding(
        "layout_conversion",
        f"Turning tensors from one memory layout to another takes {percent(share)} of the kernels' time",
        share,
        "ratio",
        cost,
        by_time(turns),
        "Keep model and input in channels_last: .to(memory_format=torch.channels_last).",
    )


def slow_products(seen: Seen) -> Finding | None:
    """Products far from what the device's data sheet allows at their intensity."""
    rates = seen.roofline.operators if seen.roofline is not None else []
    slow = [each for each in rates if each.roof_share is not None and each.roof_share < SLOW_ROOF_SHARE]
    cost = sum(each.gpu_ns for each in slow)
    share = cost / seen.compute_total if seen.compute_total else 0.0
    if share < SLOW_SHARE:
        return None
    reached = sum((each.roof_share or 0.0) * each.gpu_ns for each in slow) / cost
    first = max(slow, key=lambda each: each.gpu_ns)
    return Finding(
        "slow_products",
        f"Products that reach {percent(reached)} of what the device allows take {percent(share)} of the kernels' time, "
        f"most of it {first.name} {first.dims}",
        reached,
        "ratio",
        round(cost * (1 - reached)),
        [Evidence(f"{each.name} {each.dims}", each.roof_share or 0.0, "ratio") for each in slow[:EVIDENCE]],
        "Larger and even sizes (multiples of 64), batched instead of single products, a lower precision, a tuned "
        "library (max-autotune).",
    )


def _step(name: str) -> str:
    """A step's name at the beginning of a sentence."""
    return f"S{name[1:]}" if name.startswith("step ") else f"Step {name}"


def uneven_steps(seen: Seen) -> Finding | None:
    """Steps of which one takes far longer than the others."""
    spread = next((each for each in seen.spread if each.figure == "duration_ns"), None)
    if spread is None or spread.steps < UNEVEN_STEPS or not spread.p50 or spread.max < UNEVEN_RATIO * spread.p50:
        return None
    ratio = spread.max / spread.p50
    over = [step for step in seen.steps if step.duration_ns >= UNEVEN_RATIO * spread.p50]
    return Finding(
        "uneven_steps",
        f"{_step(spread.most)} takes {digits(ratio)} times as long as the median one: {duration(spread.max)} against "
        f"{duration(spread.p50)}",
        ratio,
        "ratio",
        sum(step.duration_ns - spread.p50 for step in over),
        [ns(*pair) for pair in most((step.name, step.duration_ns) for step in over)],
        "Compare that step with another one (--step): input, allocations, evaluation or checkpoints, recompilation, "
        "a late rank.",
    )


def _holder(holder: Holder) -> str:
    return holder.operator or holder.module or "no operator"


def memory_full(seen: Seen) -> Finding | None:
    """The device's memory is nearly all taken."""
    sizes = {device.id: device.memory_bytes for device in seen.trace.devices if device.memory_bytes}
    for memory in seen.memory:
        whole = sizes.get(memory.device, 0)
        peak = max(memory.peak_reserved_bytes or 0, memory.peak_bytes)
        if memory.device_type != HOST and whole and peak / whole >= FULL_SHARE:
            return Finding(
                "memory_full",
                f"Device {memory.device} has {size(peak)} of its {size(whole)} in use at the peak",
                peak / whole,
                "ratio",
                0,
                [
                    Evidence("allocated at the peak", float(memory.peak_bytes), "B"),
                    *(Evidence(_holder(each), float(each.bytes), "B") for each in memory.holders[:EVIDENCE]),
                ],
                "Activation checkpointing, smaller batches, sharded parameters or optimizer state, offloading.",
            )
    return None

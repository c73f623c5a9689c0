"""Generated traces of any length as Kineto writes them: steps of linear layers with an all-reduce behind the last.

About 265 bytes an event. Each layer is an operator with its child, their launches, kernels and the arrows between;
every step has a `ProfilerStep`. What analysis must find of it is known when it is written (`Known`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

EVENTS_A_LAYER: Final = 10
PID: Final = 2_910_249
LAYER_NS: Final = 40_000
BASE_NS: Final = 1_711_964_646_000_000_000
START_NS: Final = 4_458_676_416_431_397
"""First time after the base: as large as times are in traces of this year."""
KERNELS: Final = tuple(
    f"void at::native::elementwise_kernel<{number}, at::native::gpu_kernel_impl<at::native::BinaryFunctor<float, "
    f"float, float, at::native::MulFunctor<float>>>>(int, at::native::Functor_{number})"
    for number in range(40)
)
GEMM: Final = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
NCCL: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TOLD: Final = (
    '"Collective name": "allreduce", "In msg nelems": 4194304, "Out msg nelems": 4194304, "Group size": 8, '
    '"dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"'
)


@dataclass
class Known:
    """What was written: events, and for each kernel name its number and its nanoseconds."""

    events: int = 0
    kernels: dict[str, list[int]] = field(default_factory=dict)

    def kernel(self, name: str, duration: int) -> None:
        """One more."""
        known = self.kernels.setdefault(name, [0, 0])
        known[0] += 1
        known[1] += duration


def write(path: Path, events: int, steps: int, rank: int = 0, world: int = 1) -> Known:
    """A trace of about so many events, and what it holds."""
    known, layers = Known(), max(1, events // steps // EVENTS_A_LAYER)
    with path.open("w", buffering=1 << 20) as file:
        file.write(_head(rank, world))
        for text in _steps(known, steps, layers, Random(rank)):
            file.write(text)
        file.write(_tail())
    known.events += 2
    return known


def _steps(known: Known, steps: int, layers: int, rng: Random) -> Iterator[str]:
    at, id_ = START_NS, 1
    for step in range(steps):
        length = layers * LAYER_NS + 100_000
        yield _complete("user_annotation", f"ProfilerStep#{step}", (PID, PID), at, length, f'"External id": {id_}')
        known.events += 1
        for layer in range(layers):
            yield _layer(known, at + 1_000 + layer * LAYER_NS, id_ + 1, layer == layers - 1, rng)
            id_ += 4
        at += length + 50_000


def _layer(known: Known, at: int, id_: int, last: bool, rng: Random) -> str:
    """Two operators, a copy or an elementwise kernel, a product, and behind the last layer an all-reduce."""
    width = 64 * rng.randrange(1, 40)
    host, small = (PID, PID), KERNELS[rng.randrange(40)]
    shapes = f'"Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[{width}, 1024], [1024, 4096]]'
    first, second = rng.randrange(1_000, 9_000), rng.randrange(8_000, 24_000)
    args = f'{shapes}, "Ev Idx": {id_}'
    texts = [
        _complete("cpu_op", "aten::linear", host, at, 30_013, f'"External id": {id_}, {args}'),
        _complete("cpu_op", "aten::addmm", host, at + 1_002, 27_001, f'"External id": {id_ + 1}, {args}'),
        *_launched(id_, at + 2_003, Run(small, at + 8_017, first)),
        *_launched(id_ + 1, at + 6_005, Run(GEMM, at + 17_500, second)),
    ]
    known.kernel(small, first)
    known.kernel(GEMM, second)
    if last:
        texts += _launched(id_ + 2, at + 12_001, Run(NCCL, at + 20_000, 50_021, 20, TOLD))
        known.kernel(NCCL, 50_021)
    known.events += len(texts)
    return "".join(texts)


@dataclass(frozen=True)
class Run:
    """A kernel that ran, and the further arguments of its event."""

    name: str
    start: int
    duration: int
    stream: int = 7
    told: str = '"est. achieved occupancy %": 75'


def _launched(id_: int, call: int, run: Run) -> Iterator[str]:
    """The call, the kernel and the arrow between."""
    ids = f'"External id": {id_}'
    told = f'{ids}, "cbid": 211, "correlation": {id_}'
    yield _complete("cuda_runtime", "cudaLaunchKernel", (PID, PID), call, 3_001, told)
    yield _arrow("s", id_, (PID, PID), call)
    grid = '"registers per thread": 40, "shared memory": 0, "blocks per SM": 4.740741, "warps per SM": 75.851852, '
    grid += '"grid": [512, 1, 1], "block": [512, 1, 1]'
    place = f'"device": 0, "context": 1, "stream": {run.stream}, "correlation": {id_}'
    args = f'{ids}, "queued": 0, {place}, {grid}, {run.told}'
    yield _complete("kernel", run.name, (0, run.stream), run.start, run.duration, args)
    yield _arrow("f", id_, (0, run.stream), run.start)


def _complete(cat: str, name: str, place: tuple[int, int], at: int, duration: int, args: str) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{name}", "pid": {place[0]}, "tid": {place[1]},\n'
        f'    "ts": {_us(at)}, "dur": {_us(duration)},\n    "args": {{\n      {args}\n    }}\n  }},\n'
    )


def _arrow(phase: str, id_: int, place: tuple[int, int], at: int) -> str:
    return (
        f'  {{\n    "ph": "{phase}", "id": {id_}, "pid": {place[0]}, "tid": {place[1]}, "ts": {_us(at)},\n'
        f'    "cat": "ac2g", "name": "ac2g"\n  }},\n'
    )


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _head(rank: int, world: int) -> str:
    ranks = list(range(world))
    return (
        '{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", '
        '"totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],\n'
        f'  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}, "pg_config": '
        f'[{{"pg_name": "0", "pg_desc": "default_pg", "pg_size": {world}, "ranks": {ranks}}}]}},\n  "traceEvents": [\n'
    )


def _tail() -> str:
    return (
        f'  {{\n    "name": "process_name", "ph": "M", "ts": {_us(START_NS)}, "pid": {PID}, "tid": 0,\n'
        '    "args": {"name": "python"}\n  },\n'
        f'  {{\n    "name": "thread_name", "ph": "M", "ts": {_us(START_NS)}, "pid": {PID}, "tid": {PID},\n'
        f'    "args": {{"name": "thread {PID} (python)"}}\n  }}\n  ],\n'
        f'  "traceName": "/tmp/trace.json",\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {BASE_NS}\n}}\n'
    )

"""A job of several ranks whose course is known: what every rank did in true time, written by clocks that differ.

Each rank has a moment up to which it is known what it did. What is added comes after it; a collective begins on each
member when it is there, and ends on all when the last has come and the transfer is done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.job.extract import RankExtract, extract
from warpmeter.analysis.links import links

BEGIN: Final = 1_750_000_000_000_000_000
"""True time at which jobs begin, nanoseconds since the epoch."""

KERNELS: Final = {
    "all_reduce": ("allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "all_gather": ("_allgather_base", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "reduce_scatter": ("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgs)"),
    "all_to_all": ("all_to_allv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "broadcast": ("broadcast", "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    "send": ("send", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
    "recv": ("recv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"),
}


@dataclass(frozen=True)
class FalseClock:
    """A clock that is `offset` ns ahead when the job begins and gains `drift` of the time that passes."""

    offset: int = 0
    drift: float = 0.0

    def read(self, at: int) -> int:
        """What it shows at a true moment (both from the job's begin)."""
        return at + self.offset + round(self.drift * at)


@dataclass
class Worker:
    """One rank: its clock, its trace, and how far it is in true time."""

    rank: int
    clock: FalseClock
    trace: TraceBuilder
    now: int = 0
    streams: dict[str, int] = field(default_factory=dict)

    def shown(self, begin: int, end: int) -> tuple[int, int]:
        """Start and duration as its clock shows them."""
        start = self.clock.read(begin)
        return start, self.clock.read(end) - start


class Job:
    """Ranks 0 to `size` - 1; `clocks` by rank, right where not given. `told`: kernels say what they are."""

    def __init__(
        self, size: int, clocks: Mapping[int, FalseClock] | None = None, *, told: bool = True, backend: str = "nccl"
    ) -> None:
        self.told = told
        self.size = size
        self.backend = backend
        self.groups: dict[str, tuple[int, ...]] = {"0": tuple(range(size))}
        self.workers = [
            Worker(rank, (clocks or {}).get(rank, FalseClock()), TraceBuilder(base_ns=BEGIN)) for rank in range(size)
        ]

    def group(self, name: str, ranks: Sequence[int]) -> str:
        """A process group; its name."""
        self.groups[name] = tuple(ranks)
        return name

    def compute(self, rank: int, took: int, *, name: str = "gemm", kernels: int = 1) -> None:
        """The rank computes, in so many kernels of equal length."""
        worker = self.workers[rank]
        for _ in range(kernels):
            begin, worker.now = worker.now, worker.now + took // kernels
            start, duration = worker.shown(begin, worker.now)
            worker.trace.launch(name, (start - 5_000, 2_000), (start, duration))

    def copy(self, rank: int, took: int) -> None:
        """The rank copies to its GPU."""
        worker = self.workers[rank]
        begin, worker.now = worker.now, worker.now + took
        worker.trace.copy(*worker.shown(begin, worker.now), bytes=took)

    def host(self, rank: int, took: int, *, loader: bool = False) -> None:
        """Nothing on the GPU, in `loader` because the next batch is not there."""
        worker = self.workers[rank]
        begin, worker.now = worker.now, worker.now + took
        if loader:
            name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
            worker.trace.annotation(name, *worker.shown(begin, worker.now))

    def meet(
        self,
        kind: str = "all_reduce",
        *,
        group: str = "0",
        elements: int = 1 << 20,
        transfer: int = 50_000,
        late_ends: Mapping[int, int] | None = None,
        absent: Sequence[int] = (),
    ) -> None:
        """A collective of a group. `late_ends`: how much later than the others a rank ends; `absent`: not traced."""
        members = self.groups[group]
        end = max(self.workers[rank].now for rank in members) + transfer
        for rank in members:
            worker = self.workers[rank]
            begin, worker.now = worker.now, end + (late_ends or {}).get(rank, 0)
            if rank not in absent:
                self._write(worker, kind, (begin, worker.now), self._said(kind, group, elements), group)

    def send(
        self, source: int, target: int, *, elements: int = 1 << 20, transfer: int = 50_000, rid: int | None = None
    ) -> None:
        """A transfer between two ranks: it begins when both are there. After `rid` the sender is done with it."""
        if rid is not None:
            self._buffered(source, target, self._said("send", "0", elements), transfer, rid)
            return
        end = max(self.workers[source].now, self.workers[target].now) + transfer
        for rank, kind, peer in ((source, "send", {"target": target}), (target, "recv", {"source": source})):
            worker = self.workers[rank]
            begin, worker.now = worker.now, end
            self._write(worker, kind, (begin, end), self._said(kind, "0", elements) | peer, "0")

    def _buffered(self, source: int, target: int, said: dict[str, Any], transfer: int, rid: int) -> None:
        sender, receiver = self.workers[source], self.workers[target]
        sent, sender.now = sender.now, sender.now + rid
        asked, receiver.now = receiver.now, max(receiver.now, sent) + transfer
        self._write(sender, "send", (sent, sender.now), said | {"target": target}, "0")
        said = said | {"collective": "recv", "source": source}
        self._write(receiver, "recv", (asked, receiver.now), said, "0")

    def write_one(self, rank: int, kind: str, span: tuple[int, int], *, elements: int = 1 << 20) -> None:
        """One rank's part of a collective of all, in true time."""
        self._write(self.workers[rank], kind, span, self._said(kind, "0", elements), "0")

    def step(self, number: int) -> None:
        """The profiler's step begins on all ranks, each where it is; it is 1 µs long."""
        for worker in self.workers:
            start, _ = worker.shown(worker.now, worker.now)
            worker.trace.step(number, start, 1_000)

    def extracts(self, ranks: Sequence[int] | None = None) -> list[RankExtract]:
        """What the analysis gets of each rank."""
        chosen = range(self.size) if ranks is None else ranks
        traces = [self._finished(self.workers[rank]).build() for rank in chosen]
        return [extract(trace, links(trace)) for trace in traces]

    def write(self, folder: Path) -> list[Path]:
        """A file a rank."""
        return [self._finished(each).write(folder / f"rank{each.rank}.json") for each in self.workers]

    def _finished(self, worker: Worker) -> TraceBuilder:
        groups = [
            {"pg_name": name, "pg_desc": f"group {name}", "pg_size": len(ranks), "ranks": list(ranks)}
            for name, ranks in self.groups.items()
            if worker.rank in ranks
        ]
        worker.trace.distributed(worker.rank, self.size, groups, backend=self.backend)
        return worker.trace

    def _said(self, kind: str, group: str, elements: int) -> dict[str, Any]:
        members = self.groups[group]
        size = len(members)
        return {
            "collective": KERNELS[kind][0],
            "dtype": "Float",
            "in_elements": elements * size if kind == "reduce_scatter" else elements,
            "out_elements": elements * size if kind == "all_gather" else elements,
            "group": group,
            "group_description": f"group {group}",
            "group_ranks": str(list(members)),
            "group_size": size,
        }

    def _write(self, worker: Worker, kind: str, span: tuple[int, int], said: dict[str, Any], group: str) -> None:
        start, duration = worker.shown(*span)
        if self.backend == "gloo":
            dims = [[said["in_elements"]]]
            worker.trace.annotation(f"gloo:{kind}", start, duration, thread=3, dims=dims, types=["float"])
            return
        stream = worker.streams.setdefault(group, 20 + len(worker.streams))
        more = said if self.told else {}
        worker.trace.launch(KERNELS[kind][1], (start - 4_000, 2_000), (start, duration), stream=stream, **more)

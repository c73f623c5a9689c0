"""Memory of the devices over time: what the allocator held, when it held most, and for whom.

From the profiler's memory events (`profile_memory=True`), which PyTorch's allocator sends for each block that tensors
take and give back. They are not `cudaMalloc`: what the allocator keeps for later is `reserved`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from warpmeter.analysis.links import Links
from warpmeter.analysis.nesting import nest
from warpmeter.analysis.stacks import modules
from warpmeter.analysis.trace import NONE, Allocations, Int64s, Places, Trace
from warpmeter.analysis.trees import roots, total
from warpmeter.analysis.windows import Windows, place

POINTS: Final = 1000
"""Points that a timeline keeps at most."""

BLOCKS: Final = 20
"""Blocks of the peak that are named one by one."""

HOLDERS: Final = 200
"""Holders of the peak that are given; the smaller ones are counted together."""

HOST: Final = 0
"""Kineto's device type of the host's own memory."""


@dataclass(frozen=True)
class Holder:
    """What held memory at the peak: the outermost operator within which a block was taken, and the innermost module.

    Empty texts where there was none (no operator open, no Python frames recorded). `step` is the step in whose window
    it was taken, None outside of all.
    """

    operator: str
    module: str
    step: str | None
    blocks: int
    bytes: int


@dataclass(frozen=True)
class Block:
    """One block live at the peak. `freed_ns` None: still held at the end of the trace."""

    bytes: int
    taken_ns: int
    freed_ns: int | None
    operator: str
    module: str


@dataclass(frozen=True)
class Timeline:
    """Bytes after the events kept: of each stretch of time the one with most allocated, so that peaks stay.

    `reserved_bytes` is empty where the trace does not tell it.
    """

    at_ns: list[int]
    allocated_bytes: list[int]
    reserved_bytes: list[int]


@dataclass(frozen=True)
class StepMemory:
    """Most memory within one step's window (its beginning counts), and what is held at its end."""

    step: str
    peak_bytes: int
    end_bytes: int


@dataclass(frozen=True)
class DeviceMemory:
    """One device's memory. Bytes are totals of the allocator where `absolute`, else against the trace's beginning.

    `peak_bytes` at `peak_ns`. Of it `held_before_bytes` were taken before the trace began (whose, nobody can tell),
    the rest is split among `holders`, `others_bytes` are those past the list. `reserved_bytes` is what the allocator
    had from the device at the peak, `peak_reserved_bytes` the most it had. `taken_bytes`: sum of all blocks taken.
    `not_freed_bytes`: blocks taken in the trace and not given back in it.
    """

    device_type: int
    device: int
    absolute: bool
    taken: int
    freed: int
    taken_bytes: int
    first_bytes: int
    last_bytes: int
    peak_bytes: int
    peak_ns: int
    reserved_bytes: int | None
    peak_reserved_bytes: int | None
    held_before_bytes: int | None
    not_freed_bytes: int
    holders: list[Holder]
    others_bytes: int
    blocks: list[Block]
    timeline: Timeline
    steps: list[StepMemory]


@dataclass(frozen=True)
class MemoryReport:
    """Each device that has memory events, GPUs first; without any the list is empty."""

    devices: list[DeviceMemory]


def memory(trace: Trace, links: Links, steps: Windows) -> MemoryReport:
    """Memory of every device of the trace, n log n."""
    if not len(trace.allocations):
        return MemoryReport([])
    names = _Names.of(trace, links, steps)
    keys = trace.allocations.device_type.astype(np.int64) * (1 << 32) + trace.allocations.device
    devices = [_device(trace, np.flatnonzero(keys == key), names, steps) for key in np.unique(keys)]
    return MemoryReport(sorted(devices, key=lambda one: (one.device_type == HOST, one.device_type, one.device)))


@dataclass(frozen=True, eq=False)
class _Names:
    """Where each memory event happened: outermost operator and innermost module as names, step; -1 for none."""

    texts: Sequence[str]
    steps: Sequence[str]
    operator: Int64s
    module: Int64s
    step: Int64s

    @classmethod
    def of(cls, trace: Trace, links: Links, steps: Windows) -> Self:
        at, thread = trace.allocations.start, trace.allocations.thread
        operator = roots(links.operators.parent, links.operators.innermost(thread, at))
        frames = trace.frames.take(modules(trace))
        module = nest(frames.thread, frames.start, frames.end).innermost(thread, at)
        return cls(
            trace.names,
            steps.names,
            np.append(trace.operators.name, NONE)[operator].astype(np.int64),
            np.append(frames.name, NONE)[module].astype(np.int64),
            place(at, steps.start, steps.end).astype(np.int64),
        )

    def take(self, where: Places) -> Self:
        """The same of some events."""
        return type(self)(self.texts, self.steps, self.operator[where], self.module[where], self.step[where])

    def text(self, name: int) -> str:
        """A name; empty for none."""
        return self.texts[name] if name >= 0 else ""


@dataclass(frozen=True, eq=False)
class _Levels:
    """A device's events, and what was allocated before the first (`first`) and after each (`after`)."""

    events: Allocations
    first: int
    after: Int64s
    absolute: bool

    @classmethod
    def of(cls, events: Allocations) -> Self:
        told = events.allocated
        if (told >= 0).all() and (told > 0).any():
            return cls(events, int(told[0] - events.bytes[0]), told, True)
        return cls(events, 0, np.cumsum(events.bytes), False)

    @property
    def peak(self) -> int:
        """The event after which most was allocated, the first such; -1 when nothing reached the beginning."""
        highest = int(np.argmax(self.after))
        return highest if self.after[highest] >= self.first else NONE

    def step(self, name: str, start: int, end: int) -> StepMemory:
        """Most within a window: the level at its beginning counts."""
        low, high = np.searchsorted(self.events.start, [start, end + 1])
        before = int(self.after[low - 1]) if low else self.first
        inside = self.after[low:high]
        return StepMemory(
            name, max(before, int(inside.max(initial=before))), int(inside[-1]) if len(inside) else before
        )


def _device(trace: Trace, where: Places, names: _Names, steps: Windows) -> DeviceMemory:
    events = trace.allocations.take(where)
    levels, names, freed = _Levels.of(events), names.take(where), _freed(events)
    peak, taken = levels.peak, events.bytes > 0
    live = np.flatnonzero(taken & (np.arange(len(events)) <= peak) & (freed > peak))
    holders = _holders(events, names, live)
    held = int(events.bytes[live].sum())
    peak_bytes = int(levels.after[peak]) if peak >= 0 else levels.first
    told = bool((events.reserved > 0).any())
    return DeviceMemory(
        device_type=int(events.device_type[0]),
        device=int(events.device[0]),
        absolute=levels.absolute,
        taken=int(taken.sum()),
        freed=int((events.bytes < 0).sum()),
        taken_bytes=int(events.bytes[taken].sum()),
        first_bytes=levels.first,
        last_bytes=int(levels.after[-1]),
        peak_bytes=peak_bytes,
        peak_ns=int(events.start[max(peak, 0)]),
        reserved_bytes=int(events.reserved[max(peak, 0)]) if told else None,
        peak_reserved_bytes=int(events.reserved.max()) if told else None,
        held_before_bytes=max(0, peak_bytes - held) if levels.absolute else None,
        not_freed_bytes=int(events.bytes[taken & (freed == len(events))].sum()),
        holders=holders[:HOLDERS],
        others_bytes=sum(holder.bytes for holder in holders[HOLDERS:]),
        blocks=_blocks(events, names, live, freed),
        timeline=_timeline(levels, told),
        steps=[levels.step(*step) for step in zip(steps.names, steps.start.tolist(), steps.end.tolist(), strict=True)],
    )


def _freed(events: Allocations) -> Places:
    """For each event the next one of the same address, which gives a block back; the number of events for none."""
    order = np.argsort(events.address, kind="stable")
    same = np.diff(events.address[order]) == 0
    following = np.full(len(order), len(order), np.intp)
    following[order[:-1][same]] = order[1:][same]
    return following


def _holders(events: Allocations, names: _Names, live: Places) -> list[Holder]:
    where = np.stack([names.operator[live], names.module[live], names.step[live]], axis=1)
    groups, index, blocks = np.unique(where, axis=0, return_inverse=True, return_counts=True)
    held = total(index.reshape(-1), events.bytes[live], len(groups))
    return [
        Holder(
            operator=names.text(int(groups[i, 0])),
            module=names.text(int(groups[i, 1])),
            step=names.steps[int(groups[i, 2])] if groups[i, 2] >= 0 else None,
            blocks=int(blocks[i]),
            bytes=int(held[i]),
        )
        for i in np.argsort(-held, kind="stable").tolist()
    ]


def _blocks(events: Allocations, names: _Names, live: Places, freed: Places) -> list[Block]:
    largest = live[np.argsort(-events.bytes[live], kind="stable")[:BLOCKS]]
    return [
        Block(
            bytes=int(events.bytes[i]),
            taken_ns=int(events.start[i]),
            freed_ns=int(events.start[freed[i]]) if freed[i] < len(events) else None,
            operator=names.text(int(names.operator[i])),
            module=names.text(int(names.module[i])),
        )
        for i in largest.tolist()
    ]


def _timeline(levels: _Levels, told: bool) -> Timeline:
    at = levels.events.start
    if len(at) <= POINTS:
        keep = np.arange(len(at))
    else:
        stretch = (at - at[0]) // max(1, -(-int(at[-1] - at[0] + 1) // (POINTS - 2)))
        order = np.lexsort((levels.after, stretch))
        highest = order[np.flatnonzero(np.diff(stretch[order], append=-1))]
        keep = np.unique(np.concatenate([highest, [0, len(at) - 1]]))
    reserved = levels.events.reserved[keep].tolist() if told else []
    return Timeline(at[keep].tolist(), levels.after[keep].tolist(), reserved)

"""Memory: totals, the peak and who held it, timelines and steps, against an allocator that is played back."""

import random
from itertools import pairwise

import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import FOLDER, needs_traces
from warpmeter.analysis.links import links
from warpmeter.analysis.memory import POINTS, DeviceMemory, memory
from warpmeter.analysis.read import read
from warpmeter.analysis.trace import Trace
from warpmeter.analysis.windows import windows


def devices(trace: Trace) -> list[DeviceMemory]:
    joined = links(trace)
    return memory(trace, joined, windows(trace, joined)).devices


def training() -> TraceBuilder:
    """1,000 bytes were held before; a step takes 300 in a module and 500 outside, gives 500 and 100 of before back."""
    builder = TraceBuilder()
    builder.step(1, 0, 400)
    builder.step(2, 400, 200)
    builder.frame("nn.Module: MLP_0", 0, 100, id=1)
    builder.frame("nn.Module: Linear_0", 5, 90, id=2, parent=1)
    builder.frame("torch/nn/modules/linear.py(1): forward", 6, 80, id=3, parent=2)
    builder.operator("aten::linear", 10, 50)
    builder.operator("aten::empty", 20, 10)
    builder.memory(25, 300, address=1, allocated=1300, reserved=2000)
    builder.operator("aten::add", 200, 50)
    builder.memory(210, 500, address=2, allocated=1800, reserved=2500)
    builder.memory(300, -500, address=2, allocated=1300, reserved=2500)
    builder.memory(350, -100, address=9, allocated=1200, reserved=2500)
    builder.memory(450, 50, address=2, allocated=1250, reserved=2500)
    return builder


def test_the_peak_and_who_held_it() -> None:
    (device,) = devices(training().build())
    assert (device.absolute, device.first_bytes, device.last_bytes) == (True, 1000, 1250)
    assert (device.peak_bytes, device.peak_ns, device.held_before_bytes) == (1800, 210, 1000)
    assert (device.reserved_bytes, device.peak_reserved_bytes) == (2500, 2500)
    assert [(h.operator, h.module, h.step, h.blocks, h.bytes) for h in device.holders] == [
        ("aten::add", "", "ProfilerStep#1", 1, 500),
        ("aten::linear", "nn.Module: Linear_0", "ProfilerStep#1", 1, 300),
    ]
    assert [(b.bytes, b.taken_ns, b.freed_ns) for b in device.blocks] == [(500, 210, 300), (300, 25, None)]
    assert (device.taken, device.freed, device.taken_bytes, device.not_freed_bytes) == (3, 2, 850, 350)


def test_steps_have_their_peaks_and_begin_with_what_is_held() -> None:
    (device,) = devices(training().build())
    assert [(s.step, s.peak_bytes, s.end_bytes) for s in device.steps] == [
        ("ProfilerStep#1", 1800, 1200),
        ("ProfilerStep#2", 1250, 1250),
    ]


def test_without_totals_the_trace_begins_at_nought() -> None:
    builder = TraceBuilder()
    builder.memory(10, -400, address=1)
    builder.memory(20, 100, address=2)
    (device,) = devices(builder.build())
    assert (device.absolute, device.first_bytes, device.last_bytes) == (False, 0, -300)
    assert (device.peak_bytes, device.held_before_bytes, device.reserved_bytes) == (0, None, None)
    assert device.timeline.reserved_bytes == []


def test_a_peak_before_the_first_event() -> None:
    builder = TraceBuilder()
    builder.memory(10, -400, address=1, allocated=600)
    builder.memory(20, 100, address=2, allocated=700)
    (device,) = devices(builder.build())
    assert (device.peak_bytes, device.peak_ns, device.held_before_bytes, device.holders) == (1000, 10, 1000, [])


def test_devices_are_apart_and_the_host_last() -> None:
    builder = TraceBuilder()
    builder.memory(10, 8, address=1, device_type=0, device=-1)
    builder.memory(20, 100, address=1, device=1)
    builder.memory(30, 200, address=1, device=0)
    assert [(d.device_type, d.device, d.peak_bytes) for d in devices(builder.build())] == [
        (1, 0, 200),
        (1, 1, 100),
        (0, -1, 8),
    ]
    assert devices(TraceBuilder().build()) == []


def played(seed: int, count: int) -> tuple[TraceBuilder, list[int], dict[int, int]]:
    """A random allocator: the trace, its totals after each event, and the live blocks at the first peak by address."""
    chance, builder = random.Random(seed), TraceBuilder()
    live: dict[int, int] = {}
    total, totals, at_peak, peak = 5000, [], {}, 5000
    for i in range(count):
        if live and chance.random() < 0.45:
            address = chance.choice(sorted(live))
            change = -live.pop(address)
        else:
            address = chance.choice([a for a in range(40) if a not in live] or [99])
            change = live[address] = chance.randint(1, 500)
        total += change
        builder.memory(10 * i, change, address=address, allocated=total)
        totals.append(total)
        if total > peak:
            peak, at_peak = total, dict(live)
    return builder, totals, at_peak


@pytest.mark.parametrize("seed", range(30))
def test_against_an_allocator(seed: int) -> None:
    builder, totals, at_peak = played(seed, 60)
    (device,) = devices(builder.build())
    assert device.peak_bytes == max([5000, *totals])
    assert device.timeline.allocated_bytes == totals
    assert device.held_before_bytes == device.peak_bytes - sum(at_peak.values())
    assert sorted(block.bytes for block in device.blocks) == sorted(sorted(at_peak.values())[-20:])
    assert sum(holder.bytes for holder in device.holders) == sum(at_peak.values())


def test_long_timelines_keep_their_ends_and_their_peak() -> None:
    builder, totals, _ = played(1, 3000)
    (device,) = devices(builder.build())
    at, allocated = device.timeline.at_ns, device.timeline.allocated_bytes
    assert len(at) <= POINTS
    assert all(before < after for before, after in pairwise(at))
    assert (at[0], at[-1], allocated[0], allocated[-1]) == (0, 29990, totals[0], totals[-1])
    assert max(allocated) == max(totals) == device.peak_bytes


@needs_traces
def test_a_real_trace_accounts_for_every_byte_of_its_peak() -> None:
    device, host = devices(read(str(FOLDER / "tl_h100_qwen.json.gz")))
    assert (device.device_type, device.device, host.device_type) == (1, 0, 0)
    assert (device.first_bytes, device.last_bytes, device.not_freed_bytes) == (984742400, 984742400, 0)
    assert device.held_before_bytes == device.first_bytes
    assert device.peak_bytes == 2088508416 == device.first_bytes + sum(holder.bytes for holder in device.holders)
    assert device.holders[0].module.startswith("nn.Module: ")

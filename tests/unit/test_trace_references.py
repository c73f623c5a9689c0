"""Every figure of the GPU's time equals the reference of a real trace, to the nanosecond.

The references were reckoned by another program, from the decimal text, event by event.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.traces import needs_traces, references
from warpmeter.analysis.breakdown import Breakdown, breakdown, devices, sorts
from warpmeter.analysis.copies import copies
from warpmeter.analysis.kernels import kernels
from warpmeter.analysis.launches import Delay, launches
from warpmeter.analysis.links import Links, links
from warpmeter.analysis.read import read
from warpmeter.analysis.streams import streams
from warpmeter.analysis.trace import Int8s, Trace

pytestmark = needs_traces


@dataclass(frozen=True)
class Case:
    """A trace, what all parts take of it, and its reference."""

    trace: Trace
    links: Links
    sort: Int8s
    expected: dict[str, Any]


def _case(path: Path, expected: dict[str, Any]) -> Case:
    trace = read(str(path))
    return Case(trace, links(trace), sorts(trace.gpu, trace.names), expected)


ALL = {name: (path, expected) for name, path, expected in references()}
WITH_GPU = [name for name, (_, expected) in ALL.items() if expected["n_gpu"]]


@pytest.fixture(scope="module", params=WITH_GPU)
def gpu(request: pytest.FixtureRequest) -> Case:
    """A trace with GPU events."""
    return _case(*ALL[request.param])


@pytest.fixture(scope="module", params=sorted(ALL.keys() - set(WITH_GPU)))
def host(request: pytest.FixtureRequest) -> Case:
    """A trace without."""
    return _case(*ALL[request.param])


def _same_trace(case: Case) -> None:
    assert (case.trace.events, len(case.trace.gpu)) == (case.expected["n_events"], case.expected["n_gpu"])
    assert case.trace.rank == case.expected["rank"]
    assert case.trace.notes == ()


def test_events_and_rank(gpu: Case) -> None:
    _same_trace(gpu)


def test_a_trace_without_gpu_events_has_no_figures(host: Case) -> None:
    _same_trace(host)
    assert breakdown(host.trace.gpu, host.sort) == Breakdown(0, 0, 0, 0, 0)
    assert (devices(host.trace.gpu, host.sort), kernels(host.trace, host.links, host.sort)) == ([], [])
    assert (streams(host.trace, host.links, host.sort).streams, copies(host.trace)) == ((), [])
    assert launches(host.trace, host.links).from_end is None


def test_breakdown(gpu: Case) -> None:
    expected = gpu.expected
    found = breakdown(gpu.trace.gpu, gpu.sort)

    assert found == Breakdown(
        gpu_events=expected["n_gpu"],
        compute_events=expected["counts"]["compute"],
        comm_events=expected["counts"]["comm"],
        memcpy_events=expected["counts"]["memcpy"],
        memset_events=expected["counts"]["memset"],
        start_ns=found.start_ns,
        span_ns=expected["span"],
        busy_ns=expected["busy"],
        idle_ns=expected["idle"],
        compute_ns=expected["compute_kernels"],
        comm_ns=expected["comm"],
        mem_ns=expected["mem"],
        memcpy_ns=expected["memcpy"],
        memset_ns=expected["memset"],
        comm_compute_overlap_ns=expected["comm_and_compute_overlap"],
        mem_compute_overlap_ns=found.mem_compute_overlap_ns,
        mem_comm_overlap_ns=found.mem_comm_overlap_ns,
        exposed_comm_ns=expected["comm_exposed_vs_compute"],
        exposed_mem_ns=expected["mem_exposed_vs_compute_comm"],
        total_ns=expected["gpu_sum_all_durations"],
    )
    assert found.start_ns == expected["first_gpu_ts_ns"]


def test_devices(gpu: Case) -> None:
    found = {str(one.device): one.totals for one in devices(gpu.trace.gpu, gpu.sort)}

    assert {device: {"busy": one.busy_ns, "count": one.gpu_events} for device, one in found.items()} == (
        gpu.expected["devices"]
    )


def test_streams(gpu: Case) -> None:
    found = streams(gpu.trace, gpu.links, gpu.sort).streams

    assert {
        f"{one.device}/{one.stream}": {
            "count": one.gpu_events,
            "busy": one.busy_ns,
            "sum": one.total_ns,
            "idle_between": one.idle.idle_ns,
            "overlapping_successors_same_stream": one.overlapping_events,
        }
        for one in found
    } == gpu.expected["streams"]


def test_kernels(gpu: Case) -> None:
    found = kernels(gpu.trace, gpu.links, gpu.sort)

    assert len(found) == gpu.expected["n_distinct_gpu_names"]
    assert sum(one.count for one in found) == gpu.expected["n_gpu"]
    assert sum(one.total_ns for one in found) == gpu.expected["gpu_sum_all_durations"]
    assert [
        {"name": one.name, "count": one.count, "sum": one.total_ns, "min": one.min_ns, "max": one.max_ns}
        for one in found[: len(gpu.expected["by_name"])]
    ] == gpu.expected["by_name"]


def test_short_events(gpu: Case) -> None:
    assert int((gpu.trace.gpu.duration < 1000).sum()) == gpu.expected["sub_us_gpu_events"]
    assert int((gpu.trace.gpu.duration == 0).sum()) == gpu.expected["zero_dur_gpu_events"]


def test_launches(gpu: Case) -> None:
    found, expected = launches(gpu.trace, gpu.links), gpu.expected["launch"]

    assert (found.matched, found.unmatched) == (expected["gpu_matched_to_runtime"], expected["gpu_unmatched"])
    assert (found.calls, found.duplicate_correlations) == (
        expected["runtime_events"],
        expected["runtime_duplicate_correlations"],
    )
    assert {one.name: one.gpu_events for one in found.by_call} == expected["by_api"]
    assert _delays(found.from_end) == list(expected["delay_from_api_end"].values())
    assert _delays(found.from_start) == list(expected["delay_from_api_start"].values())


def _delays(of: Delay | None) -> list[int]:
    assert of is not None
    return [of.negative, of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns, of.min_ns]


def test_memory_operations(gpu: Case) -> None:
    assert {
        one.name: {"count": one.count, "bytes": one.bytes, "dur": one.total_ns, "aggregate_GBps": one.gb_per_s}
        for one in copies(gpu.trace)
    } == gpu.expected["memory_ops"]


def test_every_figure_is_plain(gpu: Case) -> None:
    """Numbers of Python alone leave a part: the encoder refuses those of numpy."""
    trace, joined, sort = gpu.trace, gpu.links, gpu.sort
    parts = [
        breakdown(trace.gpu, sort),
        devices(trace.gpu, sort),
        streams(trace, joined, sort),
        kernels(trace, joined, sort),
        launches(trace, joined),
        copies(trace),
    ]

    assert msgspec.json.decode(msgspec.json.encode(parts))[0]["busy_ns"] == gpu.expected["busy"]

"""Rows of a report: when a trace began and what it is of, and what a column cannot hold."""

from dataclasses import replace

import numpy as np
import pytest

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis import rows
from warpmeter.analysis.report import Material, RankReport, material, report
from warpmeter.analysis.timeline import Texts
from warpmeter.analysis.trace import Trace

NOON = 1_790_000_000_000_000_000


def analysed(trace: Trace) -> tuple[Material, RankReport]:
    on = material(trace)
    return on, report(on)


def small(base_ns: int | None = NOON) -> TraceBuilder:
    built = TraceBuilder(base_ns=base_ns)
    built.kernel("gemm", 2_000, 500, correlation=7)
    built.copy(3_000, 100, bytes=64)
    built.call("cudaLaunchKernel", 1_000, 50, correlation=7)
    return built


def test_times_count_from_the_first_event_of_any_kind() -> None:
    on, about = analysed(small().build())
    assert (rows.began_ns(on.trace), rows.captured_at_ns(on.trace)) == (1_000, NOON + 1_000)
    found = rows.rows(on, about)
    events = [start for group in found["trace_timeline"] for start in group["start_ns"]]
    assert sorted(map(int, events)) == [0, 1_000, 2_000]
    assert found["trace_streams"][0]["start_ns"] == [1_000]


def test_a_trace_that_counts_from_its_machines_start_was_captured_nobody_knows_when() -> None:
    assert rows.captured_at_ns(small(base_ns=None).build()) is None
    assert rows.captured_at_ns(TraceBuilder().build()) is None


@pytest.mark.parametrize("name", rows.WORKLOADS)
def test_what_it_is_of_is_in_its_metadata(name: str) -> None:
    built = small()
    built.head[name] = "gpt-7b"
    assert rows.workload(built.build()) == "gpt-7b"
    built.head = {"metadata": built.head}
    assert rows.workload(built.build()) == "gpt-7b"
    assert rows.workload(small().build()) == ""


def test_a_table_without_rows_has_no_group() -> None:
    found = rows.rows(*analysed(TraceBuilder().build()))
    assert {name for name, groups in found.items() if groups} == {"trace_ranks"}
    (rank,) = found["trace_ranks"]
    assert (rank["busy_ns"], rank["steps"], rank["mfu"], rank["gpu_model"]) == ([None], [0], [None], [""])


def test_every_group_has_columns_of_one_length() -> None:
    for groups in rows.rows(*analysed(small().build())).values():
        for group in groups:
            assert len({len(column) for column in group.values()}) == 1


def test_texts_are_read_as_a_list() -> None:
    found = Texts(["a", "b"], np.array([1, 0, 1], np.int32))
    assert (len(found), found[0], found[1:], list(found)) == (3, "b", ["a", "b"], ["b", "a", "b"])


def test_names_that_are_no_text_and_counts_that_no_machine_reaches() -> None:
    on, about = analysed(small().build())
    assert about.roofline is not None
    huge = replace(about, file="a\udcff.json", roofline=replace(about.roofline, flops=1 << 70))
    (rank,) = rows.rows(on, huge)["trace_ranks"]
    assert (rank["file"], rank["flops"]) == (["a?.json"], [None])

"""Events as a viewer draws them: lanes in order, depths that nest, arguments written once."""

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from tests.timelines import linked, random
from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.timeline import timeline
from warpmeter.analysis.trace import Trace

Event = dict[str, Any]


def events(trace: Trace) -> list[Event]:
    """All rows, column names as keys; what a group does not name is missing."""
    found: list[Event] = []
    for group in timeline(trace, 0):
        columns = {name: list(map(_plain, column)) for name, column in group.items()}
        found += [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return found


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


@pytest.mark.parametrize("seed", range(3))
def test_what_shares_a_depth_does_not_overlap_and_lies_in_what_is_above(seed: int) -> None:
    rows: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for each in events(random(seed, operators=60).build()):
        if each["kind"] not in ("kernel", "memcpy"):
            start = each["start_ns"]
            rows[each["lane"], each["depth"]].append((start, start + each["duration_ns"]))
    assert max(depth for _, depth in rows) > 3
    for (lane, depth), spans in rows.items():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))
        if depth:
            above = rows[lane, depth - 1]
            assert all(any(a <= start and end <= b for a, b in above) for start, end in spans)


def test_lanes_are_streams_then_waits_then_threads_then_python() -> None:
    lanes: dict[int, str] = {}
    for each in events(linked().build()):
        lanes.setdefault(each["lane"], each["kind"])
    assert [lanes[lane] for lane in sorted(lanes)] == ["memcpy", "wait", "call", "operator", "frame"]


def test_arguments_are_json_of_what_is_known() -> None:
    told = {each["name"]: each["arguments"] for each in events(linked().build()) if each.get("arguments")}
    assert {name: json.loads(text) for name, text in told.items()} == {
        "aten::linear": {"dims": [[8, 16], [16, 4]], "types": ["float", "float"]},
        "Memcpy HtoD (Pinned -> Device)": {"bytes": 512},
        "void gemm<float>(int)": {"occupancy": 0.25},
    }


def test_threads_have_their_names() -> None:
    names = {each["thread"]: each["thread_name"] for each in events(linked().build()) if "thread" in each}
    assert names["100/100"] == "thread 100 (trainer)"


def test_a_trace_without_events_has_no_timeline() -> None:
    assert timeline(TraceBuilder().build(), 0) == []

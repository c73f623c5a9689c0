"""Whatever traces are taken for ranks of one job: a report that can be written, never an exception."""

import random
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.jobs import KERNELS
from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.job import JobReport, RankExtract, extract, job
from warpmeter.analysis.links import links

WORDS = [*KERNELS, "barrier", "wait", "coalesced", ""]


def anything(chance: random.Random) -> RankExtract:
    """A trace of collectives that say whatever they like, of other events, or of nothing."""
    made = TraceBuilder(base_ns=chance.choice([None, 0, 1_750_000_000_000_000_000, -5]))
    far = chance.choice([10**3, 10**7, 10**12, 10**17])
    for _ in range(chance.choice([0, 1, 2, 30])):
        start, duration = chance.randint(-far, far), chance.choice([0, 1, chance.randint(0, 10**6), far])
        kind = chance.choice(["collective", "collective", "kernel", "copy", "gloo", "operator", "loader", "step"])
        if kind == "collective":
            name = chance.choice(list(KERNELS.values()))[1]
            made.launch(name, (start - 10, 5), (start, duration), stream=chance.randint(0, 3), **said(chance))
        elif kind == "kernel":
            made.kernel("gemm", start, duration)
        elif kind == "copy":
            made.copy(start, duration)
        elif kind == "operator":
            made.operator(chance.choice(["aten::mm", "record_param_comms", "c10d::alltoall_base_"]), start, duration)
        elif kind == "step":
            made.step(chance.randint(0, 3), start, duration)
        else:
            made.annotation("gloo:barrier" if kind == "gloo" else "enumerate(DataLoader)#x", start, duration)
    if chance.random() < 0.8:
        made.distributed(chance.randint(0, 3), chance.randint(0, 5), [{"pg_name": "0", "ranks": [0, 1], "pg_size": 2}])
    trace = made.build()
    return extract(trace, links(trace))


def said(chance: random.Random) -> dict[str, Any]:
    """What a collective says of itself: nothing, something, or what cannot be."""
    whole = {
        "collective": chance.choice(WORDS),
        "dtype": chance.choice(["Float", "BFloat16", "", "None", "QUInt8"]),
        "in_elements": chance.choice([0, 1, -1, 10**15]),
        "out_elements": chance.choice([0, 1, 10**6]),
        "group": chance.choice(["0", "1", "", "tp"]),
        "group_ranks": chance.choice(["[0, 1]", "[]", "[0, ..., 3]", "[1, 1]", "nonsense"]),
        "group_size": chance.choice([0, 1, 2, 4]),
        "source": chance.choice([None, 0, 1, 2, 77]),
        "target": chance.choice([None, 0, 1, 2, 77]),
    }
    return {key: value for key, value in whole.items() if chance.random() < 0.8}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), files=st.integers(1, 4))
def test_any_traces_give_a_report(seed: int, files: int) -> None:
    chance = random.Random(seed)
    report = job([anything(chance) for _ in range(files)])
    again = msgspec.json.decode(msgspec.json.encode(report), type=JobReport)
    assert again == report
    assert all(each.late_ns == sum(each.causes.values()) for each in report.stragglers)
    assert all(each.wait_ns >= 0 and each.total_ns >= each.wait_ns for each in report.collectives)
    assert all(load.waited_ns >= 0 for load in report.loads)

"""Weeks of captures in which one kernel got slower on one GPU model; a capture with a straggler; what SQL says of both.

On the engine in this process, and on one behind HTTP.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

import pytest

from tests.captures import QUERIES, columns, kernel, tables
from tests.engine import TOKEN, WRITER
from tests.engine.template import SHARED, with_tables
from tests.tables import ask
from warpmeter import landing, queries
from warpmeter.landing import Process, Tables
from warpmeter.settings import Store
from warpmeter.store import Client, connect

SUNDAY: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
WEEKS: Final = [SUNDAY - timedelta(weeks=back) for back in (5, 4, 3, 2, 1, 0)]
MODELS: Final = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
SLOW: Final = 1.3
"""How much longer one kernel takes on the second model from the last week but one on."""

KERNELS: Final = {"ampere_gemm": 800_000, "softmax": 90_000, "layer_norm": 40_000}


def duration(name: str, model: str, week: int, capture: int) -> int:
    """Mean of a kernel in a capture: a per cent of noise, and the regression."""
    noise = 1 + 0.01 * ((7 * week + 3 * capture + len(name)) % 5 - 2) / 2
    slower = SLOW if (name, model) == ("softmax", MODELS[1]) and week >= 4 else 1
    return int(KERNELS[name] * noise * slower * (1 if model == MODELS[0] else 0.5))


def capture_of(model: str, week: int, capture: int) -> tuple[str, datetime, list[dict[str, Any]]]:
    """One capture of the training: its name, when, and its kernels."""
    rows = [
        kernel(name, 100 * duration(name, model, week, capture), 100, gpu_model=model, workload="train.py")
        for name in KERNELS
    ]
    return f"{model.split()[1]}/{week}/{capture}", WEEKS[week] + timedelta(hours=capture), rows


def land(client: Client, store: Store, capture: str, at: datetime, ranks: Sequence[Tables]) -> None:
    load = landing.begin(client, capture, "job-1")
    ns = int(at.timestamp()) * 10**9
    puts = [
        landing.put(client, store, load, Process(rank, f"host{rank}", True, ns), each)
        for rank, each in enumerate(ranks)
    ]
    landing.publish(client, store, load, puts, lambda _: None)


def fill(client: Client, store: Store) -> None:
    """All captures; those of one week are loaded twice, the first time with other figures."""
    for model in MODELS:
        for week in range(len(WEEKS)):
            for number in (0, 1):
                capture, at, rows = capture_of(model, week, number)
                if week == 3:
                    wrong = [{**row, "total_ns": 9 * row["total_ns"]} for row in rows]
                    land(client, store, capture, at, [tables(wrong, events=0, gpu_model=model)])
                land(client, store, capture, at, [tables(rows, events=0, gpu_model=model, total_ns=1000)])
    land(client, store, "straggling", SUNDAY, [straggling(rank) for rank in (0, 1, 2)])
    land(client, store, "host alone", SUNDAY, [host_alone()])


def collective(rank: int, seq: int) -> dict[str, Any]:
    """Rank 1 comes last to all of four, by computing 300 ns longer; rank 2 waits least of the others."""
    last, wait = rank == 1, {0: 300, 1: 0, 2: 250}[rank]
    return {
        "seq": seq, "group": "world", "group_ranks": [0, 1, 2], "group_size": 4, "kind": "all_reduce", "dtype": "Float",
        "bytes": 4_000, "start_ns": 1000 * seq, "duration_ns": 100 + wait, "meeting": seq, "met": 3, "wait_ns": wait,
        "transfer_ns": 100, "skew_ns": 300, "last": last, "late_ns": 275 if last else None,
        "cost_ns": 250 if last else None, "late_by": {"slow_kernels": 280, "input": -5} if last else {},
    }  # fmt: skip


def straggling(rank: int) -> Tables:
    finding = ("straggler", f"rank {rank} waits", 0.1 * rank, "share", 10 * rank)
    idle = ("idle", "the GPU does nothing", 0.2, "share", 5)
    steps = [
        {"step": number, "number": number, "name": f"ProfilerStep#{number}", "start_ns": 2000 * number,
         "duration_ns": 2000 + 10 * rank, "gpu_events": 3, "compute_ns": 900, "exposed_comm_ns": 100 * rank,
         "during_busy_ns": 1000, "operators": 1, "launches": 1, "input_ns": None, "mfu": 0.5}
        for number in (3, 4)
    ]  # fmt: skip
    ops = [
        {"by_shape": True, "name": "aten::mm", "dims": "[[8,8]]", "types": '["float"]', "count": 2, "cpu_total_ns": 9,
         "cpu_self_ns": 5, "gpu_total_ns": 70, "gpu_self_ns": 70, "gpu_events": 2, "flops": 1000, "flops_per_s": 2e9,
         "bound": "memory", "roof_share": 0.25}
    ]  # fmt: skip
    about = {
        "world_size": 4, "steps": 2, "step_p50_ns": 2000 + 10 * rank, "mfu": 0.5, "compute_ns": 60 + 20 * (rank == 1),
        "exposed_comm_ns": 10, "memory_peak_bytes": 1 << 30, "total_ns": 120, "findings": [finding, idle],
    }  # fmt: skip
    kernels = [kernel("gemm", 90 + rank, 2, workload="other.py"), kernel("tiny", 10, workload="other.py")]
    return {
        **tables(kernels, events=4, workload="other.py", **about),
        "trace_collectives": [columns([collective(rank, seq) for seq in range(4)])],
        "trace_steps": [columns(steps)],
        "trace_ops": [columns(ops)],
    }


def host_alone() -> Tables:
    """Operators of a trace without a GPU."""
    ops = [
        {"by_shape": True, "name": name, "count": 1, "cpu_total_ns": ns, "cpu_self_ns": ns, "gpu_self_ns": 0}
        for name, ns in (("aten::add", 10), ("aten::mm", 30), ("aten::relu", 20))
    ]
    return {**tables([], events=0), "trace_ops": [columns(ops)]}


@pytest.fixture(scope="module", params=["embedded", pytest.param("http", marks=pytest.mark.long)])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a filled store."""
    if request.param == "embedded":
        found: Store = request.getfixturevalue("embedded")
        yield from _filled(replace(found, database=SHARED))
        return
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        yield from _filled(Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{server.port}"))


def _filled(store: Store) -> Iterator[Client]:
    with closing(connect(store)) as client:
        fill(client, store)
        yield client


def run(client: Client, query: str, **given: str) -> list[dict[str, Any]]:
    """The rows of a named query."""
    known = queries.get(query)
    given = {"since": "2026-10-01", "until": "2026-12-01", **given}
    wanted = {each.name for each in known.parameters}
    asked = known.statement({name: value for name, value in given.items() if name in wanted})
    return list(client.query(asked.sql, parameters=dict(asked.values)).named_results())


# --- regressions -------------------------------------------------------------------------------------------------


def expected() -> Mapping[tuple[str, str, int], tuple[float, float | None, int, float | None]]:
    """Per model, kernel and week: mean, baseline, weeks of it, and the slowest of them."""
    means: dict[tuple[str, str], list[float]] = defaultdict(list)
    found = {}
    for model in MODELS:
        for name in KERNELS:
            for week in range(len(WEEKS)):
                before = means[model, name][-4:]
                mean = median(duration(name, model, week, number) for number in (0, 1))
                baseline = median(before) if before else None
                found[model, name, week] = (mean, baseline, len(before), max(before, default=None))
                means[model, name].append(mean)
    return found


def test_every_week_of_every_kernel_is_held_against_the_weeks_before(client: Client) -> None:
    rows = ask(
        client,
        "SELECT gpu_model, name, week, mean_ns, baseline_ns, baseline_weeks, baseline_max_ns, captures, count "
        "FROM kernel_regressions WHERE workload = 'train.py'",
    )
    mondays = [(week - timedelta(days=week.weekday())).date() for week in WEEKS]
    found = {(model, name, mondays.index(week)): rest for model, name, week, *rest in rows}
    assert {key: tuple(rest[:4]) for key, rest in found.items()} == {
        key: tuple(map(pytest.approx, each)) if each[1] else (pytest.approx(each[0]), None, 0, None)
        for key, each in expected().items()
    }
    assert {tuple(rest[4:]) for rest in found.values()} == {(2, 200)}


def test_one_kernel_regressed_on_one_model_and_nothing_else_did(client: Client) -> None:
    """In the week after, the slow one is among those that it is held against: it is told once."""
    sql = "SELECT name, gpu_model, week, regressed_on, gpu_models FROM kernel_regressions WHERE regressed"
    monday = (WEEKS[4] - timedelta(days=6)).date()
    assert ask(client, sql) == [("softmax", MODELS[1], monday, [MODELS[1]], list(MODELS))]


def test_what_a_regression_costs(client: Client) -> None:
    (found,) = run(client, "kernel_regressions", since="2026-11-16")
    mean, baseline, weeks, _ = expected()[MODELS[1], "softmax", 4]
    assert baseline is not None
    assert (found["kernel"], found["baseline_weeks"], found["captures"]) == ("softmax", weeks, 2)
    assert found["slowdown"] == pytest.approx(mean / baseline)
    assert 1.25 < found["slowdown"] < 1.35
    assert found["cost_seconds"] == pytest.approx((mean - baseline) * 200 / 1e9)
    assert run(client, "kernel_regressions", until="2026-11-01") == []


def test_a_kernel_over_the_weeks(client: Client) -> None:
    rows = run(client, "kernel_weeks", kernel="softmax")
    assert [row["regressed"] for row in rows] == [False] * 6 + [False] * 4 + [True, False]
    assert [row["gpu_model"] for row in rows] == [MODELS[0]] * 6 + [MODELS[1]] * 6


# --- a capture ---------------------------------------------------------------------------------------------------


def test_the_straggler_and_its_cause(client: Client) -> None:
    (found,) = ask(
        client,
        "SELECT capture_id, job_id, rank, host, last, of, late_ns, cost_ns, worst_ns, waited_ns, cause, causes, "
        "compute_over_median FROM stragglers",
    )
    assert found[:6] == ("straggling", "job-1", 1, "host1", 4, 4)
    assert found[6:] == (1100, 1000, 275, 0, "slow_kernels", {"slow_kernels": 1120, "input": -20}, 80 / 60)
    (row,) = run(client, "capture_stragglers")
    assert (row["rank"], row["cost_seconds"], row["cause"]) == (1, 1e-6, "slow_kernels")


def test_a_capture_in_one_row(client: Client) -> None:
    (found,) = client.query("SELECT * FROM capture_summary WHERE capture_id = 'straggling'").named_results()
    assert (found["ranks"], found["world_size"], found["ranks_missing"]) == (3, 4, [3])
    assert (found["hosts"], found["workload"], found["job_id"]) == (["host0", "host1", "host2"], "other.py", "job-1")
    assert (found["busy_share"], found["compute_share"]) == (0.8, pytest.approx(200 / 300))
    assert (found["steps"], found["step_p50_ns"], found["slowest_rank"]) == (2, 2010, 2)
    assert found["slowest_over_fastest"] == 2020 / 2000
    assert (found["top_kernel"], found["top_kernel_share"]) == ("gemm", pytest.approx((90 + 91 + 92) / 360))
    assert (found["straggler"], found["straggler_cost_ns"], found["straggler_cause"]) == (1, 1000, "slow_kernels")
    assert [tuple(each.values()) for each in found["findings"]] == [
        ("straggler", "rank 2 waits", 0.2, "share", 3, 20),
        ("idle", "the GPU does nothing", 0.2, "share", 3, 5),
    ]
    assert (found["mfu"], found["memory_peak_bytes"]) == (0.5, 1 << 30)


def test_captures_without_collectives_findings_or_steps_have_their_row(client: Client) -> None:
    rows = run(client, "captures_analysed")
    assert len(rows) == 2 + 2 * 2 * len(WEEKS)
    assert rows[0]["capture_id"] != "straggling" or rows[0]["straggler"] == 1
    other = next(row for row in rows if row["capture_id"] == "H100/3/1")
    assert (other["ranks"], other["ranks_missing"], other["straggler"], other["finding"]) == (1, [], None, "")
    assert (other["top_kernel"], other["busy_share"], other["mfu"]) == ("ampere_gemm", 0.8, None)


def test_kernels_steps_collectives_and_operators_of_a_capture(client: Client) -> None:
    kernels = run(client, "capture_kernels", capture_id="straggling")
    assert [(row["kernel"], row["ranks"], row["count"]) for row in kernels] == [("gemm", 3, 6), ("tiny", 3, 3)]
    assert (kernels[0]["slowest_rank"], kernels[0]["share"]) == (2, pytest.approx(273 / 360))
    steps = run(client, "capture_steps", capture_id="straggling")
    assert [(row["step"], row["ranks"], row["slowest_rank"]) for row in steps] == [
        ("ProfilerStep#3", 3, 2),
        ("ProfilerStep#4", 3, 2),
    ]
    assert (steps[0]["exposed_comm_seconds"], steps[0]["input_seconds"]) == (pytest.approx(1e-7), None)
    (met,) = run(client, "capture_collectives", capture_id="straggling")
    assert (met["collectives"], met["ranks"], met["wait_share"]) == (4, 3, pytest.approx(550 / 850))
    assert (met["transfer_p50_seconds"], met["bus_bytes_per_s"]) == (1e-7, pytest.approx(4_000 / 1e-7 * 1.5))
    (operator,) = run(client, "capture_operators", capture_id="straggling")
    assert (operator["operator"], operator["calls"], operator["flops"]) == ("aten::mm", 6, 3000)
    events = run(client, "capture_timeline", capture_id="straggling", rank="1", start_ns="10", end_ns="25")
    assert [row["start_ns"] for row in events] == [0, 10, 20]


def test_operators_that_launched_nothing_are_listed_by_their_own_time(client: Client) -> None:
    told = [row["operator"] for row in run(client, "capture_operators", capture_id="host alone")]
    assert told == ["aten::mm", "aten::relu", "aten::add"]


def test_units_beside_nanoseconds(client: Client) -> None:
    sql = "SELECT total_ns, total_seconds, mean_ns, mean_seconds FROM trace_kernels WHERE name = 'gemm' AND rank = 0"
    assert ask(client, sql) == [(90, 90e-9, 45.0, 45e-9)]


def test_loads_that_were_replaced_are_gone(client: Client) -> None:
    loads = ask(client, "SELECT DISTINCT capture_id, load FROM trace_kernels_loads")
    assert len(loads) == len({capture for capture, _ in loads}) == 25


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_of_captures_answers(client: Client, name: str) -> None:
    given = {"capture_id": "straggling", "kernel": "softmax"}
    takes = {each.name for each in queries.get(name).parameters}
    assert run(client, name, **{key: value for key, value in given.items() if key in takes})

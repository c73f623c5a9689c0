"""Every query that the cookbook brought, on a store without rows and on planted facts, its answer worked out in Python.

What the cookbook took over from elsewhere has its answer there (`test_queries.py` holds that none is without); those of
its recipes that this world has facts for are answered here as well.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from statistics import median
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from tests import cookbook_world
from tests.cookbook_world import A100, H100, HOSTS, JOBS, PERIOD_S, Row, World, idle, iso, planted
from warpmeter import cookbook, queries
from warpmeter.settings import Store
from warpmeter.store import Client

pytestmark = pytest.mark.long

Answer = tuple[dict[str, str], list[str], list[tuple[Any, ...]]]
HOUR: Final = 3600
OF_JOB: Final = {job.job_id: job for job in JOBS}


def near(found: Any, expected: Any) -> bool:
    """Equal; floats within a part in a million."""
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(near, found, expected))
    if isinstance(expected, float) and found is not None:
        return math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9)
    return bool(found == expected)


def mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def hours(samples: Iterable[Row]) -> float:
    return sum(PERIOD_S for _ in samples) / HOUR


def kwh(sample: Row, seconds: float = PERIOD_S) -> float:
    return float(sample["power_deciwatts"]) / 10 * seconds / 3.6e6


def by_gpu(samples: Iterable[Row]) -> dict[tuple[str, int, str], list[Row]]:
    found = defaultdict(list)
    for sample in samples:
        found[sample["host"], sample["gpu"], sample["uuid"]].append(sample)
    return dict(sorted(found.items()))


def when(ts: float) -> datetime:
    return datetime.fromtimestamp(ts, UTC).replace(tzinfo=None)


# --- GPU hours and cost ------------------------------------------------------------------------------------------


def team(job_id: str) -> str:
    labels = OF_JOB[job_id].labels
    return labels.get("account", labels.get("team", "unknown"))


Share = tuple[str, Row, float]


def grouped(world: World, key: Callable[[str, Row], Any]) -> dict[Any, list[Share]]:
    found: dict[Any, list[Share]] = defaultdict(list)
    for job, sample, seconds in world.shares():
        found[key(job, sample)].append((job, sample, seconds))
    return found


def held(shares: list[Share]) -> float:
    return sum(seconds for _, _, seconds in shares) / HOUR


def wasted(shares: list[Share]) -> float:
    return sum(seconds for _, sample, seconds in shares if idle(sample)) / HOUR


def weighted(shares: list[Share], column: str, factor: float = 0.001) -> float:
    return float(sum(sample[column] * factor * seconds for _, sample, seconds in shares)) / (held(shares) * HOUR)


def gpu_hours_by_team(world: World) -> Answer:
    rows = []
    for name, shares in grouped(world, lambda job, _: team(job)).items():
        jobs = {job for job, _, _ in shares}
        users = {OF_JOB[job].user for job in jobs}
        energy = sum(kwh(sample, seconds) for _, sample, seconds in shares)
        told = (wasted(shares), wasted(shares) / held(shares), weighted(shares, "gpu_util_permille"), energy)
        rows.append((name, len(jobs), len(users), held(shares), *told))
    columns = ["team", "jobs", "users", "gpu_hours", "wasted_gpu_hours", "wasted", "gpu_util", "energy_kwh"]
    return {}, columns, sorted(rows, key=lambda row: (-row[4], row[0]))


def gpu_hours_by_model(world: World) -> Answer:
    def key(job: str, sample: Row) -> tuple[str, str]:
        return sample["model"], OF_JOB[job].labels.get("partition", "none")

    rows = [
        (
            *of,
            len({job for job, _, _ in shares}),
            held(shares),
            wasted(shares),
            weighted(shares, "gpu_util_permille"),
            weighted(shares, "sm_active_permille"),
        )
        for of, shares in grouped(world, key).items()
    ]
    columns = ["model", "partition", "jobs", "gpu_hours", "wasted_gpu_hours", "gpu_util", "sm_active"]
    return {}, columns, sorted(rows, key=lambda row: -row[3])


def gpu_hours_by_hour_of_day(world: World) -> Answer:
    zone, found = ZoneInfo("America/New_York"), defaultdict(list)
    for sample in world.week():
        found[datetime.fromtimestamp(sample["ts"], zone).hour].append(sample)
    rows = [
        (hour, hours(of), hours(filter(idle, of)), mean(s["gpu_util_permille"] / 1000 for s in of),
         mean(s["power_deciwatts"] / 10 for s in of))
        for hour, of in sorted(found.items())
    ]  # fmt: skip
    columns = ["hour", "gpu_hours", "idle_gpu_hours", "gpu_util", "power_watts_per_gpu"]
    return {"timezone": "America/New_York"}, columns, rows


def free_gpu_hours(world: World) -> Answer:
    rows = []
    for model in (A100, H100):
        there = hours(sample for sample in world.week() if sample["model"] == model)
        shares = [share for share in world.shares() if share[1]["model"] == model]
        free = there - held(shares)
        rows.append((model, there, held(shares), free, free / there, wasted(shares)))
    columns = ["model", "gpu_hours", "held_gpu_hours", "free_gpu_hours", "free", "wasted_gpu_hours"]
    return {}, columns, sorted(rows, key=lambda row: -row[3])


def gpu_hours_by_job_size(world: World) -> Answer:
    of = grouped(world, lambda job, _: len(OF_JOB[job].gpus))
    total = sum(map(held, of.values()))
    rows = [
        (size, len({job for job, _, _ in shares}), held(shares), held(shares) / total, wasted(shares) / held(shares))
        for size, shares in sorted(of.items())
    ]
    return {}, ["up_to_gpus", "jobs", "gpu_hours", "share", "wasted"], rows


def cost_by_team(world: World) -> Answer:
    rows = []
    for name, shares in grouped(world, lambda job, _: team(job)).items():
        energy = sum(kwh(sample, seconds) for _, sample, seconds in shares)
        rows.append((name, held(shares), energy, held(shares) * 3, energy * 0.5, wasted(shares) * 3))
    columns = ["team", "gpu_hours", "energy_kwh", "gpu_cost", "energy_cost", "wasted_cost"]
    return {"gpu_hour_price": "3", "kwh_price": "0.5"}, columns, sorted(rows, key=lambda row: -row[3])


def cost_of_nights(world: World) -> Answer:
    zone = ZoneInfo("Europe/Berlin")
    found: dict[date, list[Row]] = defaultdict(list)
    for sample in world.week():
        at = datetime.fromtimestamp(sample["ts"], zone)
        if at.hour >= 22 or at.hour < 6:
            found[(at - timedelta(days=at.hour < 6)).date()].append(sample)
    rows = [
        (night, hours(of), hours(filter(idle, of)), sum(map(kwh, of)), sum(map(kwh, of)) * 0.3)
        for night, of in sorted(found.items())
    ]
    columns = ["night", "gpu_hours", "idle_gpu_hours", "energy_kwh", "energy_cost"]
    return {"timezone": "Europe/Berlin"}, columns, rows


def wholly(samples: list[Row], condition: Callable[[Row], bool]) -> list[Row]:
    """Samples of hours in which it holds for all of the GPU's."""
    kept: list[Row] = []
    for _, of_hour in groupby(samples, lambda sample: sample["ts"] // HOUR):
        one = list(of_hour)
        kept += one if all(map(condition, one)) else []
    return kept


def idle_gpu_energy(world: World) -> Answer:
    rows = []
    for host in HOSTS:
        of = {key: wholly(samples, idle) for key, samples in by_gpu(world.week()).items() if key[0] == host}
        kept = [sample for samples in of.values() for sample in samples]
        power = mean(sample["power_deciwatts"] / 10 for sample in kept)
        rows.append((host, sum(map(bool, of.values())), hours(kept), sum(map(kwh, kept)), power))
    columns = ["host", "gpus", "idle_gpu_hours", "energy_kwh", "power_watts"]
    return {}, columns, sorted(rows, key=lambda row: (-row[3], row[0]))


def gpu_hours_by_user(world: World) -> Answer:
    of = grouped(world, lambda job, _: OF_JOB[job].user)
    rows = [(user, held(shares), wasted(shares)) for user, shares in of.items()]
    return {}, ["user", "gpu_hours", "idle_gpu_hours"], sorted(rows, key=lambda row: -row[1])


def idle_gpu_hours_by_job(world: World) -> Answer:
    of = grouped(world, lambda job, _: job)
    rows = [(job, OF_JOB[job].user, wasted(shares), held(shares)) for job, shares in of.items() if wasted(shares)]
    columns = ["job_id", "user", "idle_gpu_hours", "gpu_hours"]
    return {}, columns, sorted(rows, key=lambda row: -row[2])


# --- jobs --------------------------------------------------------------------------------------------------------


def lives(world: World) -> dict[str, list[Share]]:
    """The shares of each job over its whole life."""
    found: dict[str, list[Share]] = defaultdict(list)
    for share in world.shares(world.gpus):
        found[share[0]].append(share)
    return found


def wasting_jobs(world: World) -> Answer:
    running = {job: shares for job, shares in lives(world).items() if OF_JOB[job].end is None and wasted(shares)}
    rows = [(job, OF_JOB[job].user, held(of), wasted(of), wasted(of) / held(of)) for job, of in running.items()]
    columns = ["job_id", "user", "gpu_hours", "wasted_gpu_hours", "wasted"]
    return {}, columns, sorted(rows, key=lambda row: -row[3])


def runs_of_job(world: World) -> Answer:
    of = {job: lives(world)[job] for job in ("llm-1", "llm-2")}
    active = {job: weighted(shares, "sm_active_permille") for job, shares in of.items()}
    rows = [
        ("llm-2", "running", 4, held(of["llm-2"]), active["llm-2"], active["llm-2"] / active["llm-1"]),
        ("llm-1", "ended", 4, held(of["llm-1"]), active["llm-1"], None),
    ]
    columns = ["job_id", "state", "gpus", "gpu_hours", "sm_active", "sm_active_over_run_before"]
    return {"name": "pretrain.py"}, columns, rows


def uneven_gpus(world: World) -> Answer:
    window = [sample for sample in world.week() if sample["ts"] >= world.hour - HOUR and "llm-2" in sample["job_ids"]]
    means = {key: mean(s["sm_active_permille"] / 1000 for s in of) for key, of in by_gpu(window).items()}
    middle = median(means.values())
    rows = [(*key, value, middle, value - middle, value / middle) for key, value in means.items()]
    given = {"job_id": "llm-2", "since": cookbook_world.iso(world.hour - HOUR)}
    columns = ["host", "gpu", "uuid", "mean", "job_median", "difference", "over_median"]
    return given, columns, sorted(rows, key=lambda row: (-round(abs(row[5]), 9), row[:2]))


def jobs_with_memory_to_spare(world: World) -> Answer:
    of = grouped(world, lambda job, _: job)
    rows = [
        (job, OF_JOB[job].name, held(shares), OF_JOB[job].memory_mebibytes << 20, OF_JOB[job].memory_mebibytes / 81_920)
        for job, shares in of.items()
        if OF_JOB[job].memory_mebibytes < 81_920 / 2
    ]
    columns = ["job_id", "name", "gpu_hours", "fb_used_bytes_max", "fb_used_max"]
    return {}, columns, sorted(rows, key=lambda row: -row[2])


def jobs_without_tensor_cores(world: World) -> Answer:
    of = grouped(world, lambda job, _: job)
    rows = [
        (
            job,
            held(of[job]),
            *(weighted(of[job], f"{name}_permille") for name in ("gpu_util", "sm_active", "tensor_active")),
        )
        for job in ("tune-1", "tune-2")
        if weighted(of[job], "gpu_util_permille") >= 0.4
    ]
    columns = ["job_id", "gpu_hours", "gpu_util", "sm_active", "tensor_active"]
    return {"busy": "0.4"}, columns, rows


def short_jobs(world: World) -> Answer:
    began = [world.at(at) for _, at in cookbook_world.PROBES]
    columns = ["name", "user", "runs", "shortest_s", "longest_s", "first_started_at", "last_ended_at", "last_job_id"]
    rows = [("probe.py", "dan", 3, 60.0, 60.0, when(min(began)), when(max(began) + 60), "probe-3")]
    return {}, columns, rows


def lost_jobs(_: World) -> Answer:
    return {}, ["job_id", "user", "hosts_lost"], [("gone-1", "cid", ["dog"])]


def sampled_time_by_job(_: World) -> Answer:
    seconds = 4 * 100 * 50_000 * 6 / 1e6  # four turns of 10 s a minute, 100 samples of 50 ms each
    columns = ["job_id", "process", "hosts", "thread_seconds", "cores", "samples"]
    return {}, columns, [("llm-2", "python3", 1, seconds, seconds / cookbook_world.WEEK_S, 400)]


def stack_top(_: World) -> Answer:
    columns = ["function", "self_share", "total_share"]
    rows = [(cookbook_world.LOAD, 0.7, 0.7), (cookbook_world.STEP, 0.3, 0.3), (cookbook_world.MAIN, 0.0, 1.0)]
    return {"job_id": "llm-2"}, columns, rows


# --- GPUs and hosts ----------------------------------------------------------------------------------------------


def xids_with_jobs(world: World) -> Answer:
    columns = ["raised_at", "host", "gpu", "code", "count", "cleared_at", "job_ids", "job_names", "users", "pids"]
    tuning = (["tune-1", "tune-2"], ["tune.py", "tune.py"], ["bob", "cid"], [100])
    rows = [
        (when(world.at(150)), "bee", 1, 79, 1, None, ["llm-2"], ["pretrain.py"], ["ann"], [101]),
        (when(world.at(140)), "cow", 0, 31, 1, when(world.at(141)), [], [], [], []),
        (when(world.at(130)), "cow", 0, 31, 2, when(world.at(131)), *tuning),
    ]
    return {}, columns, rows


def xids_by_code(world: World) -> Answer:
    columns = ["code", "reports", "times", "gpus", "hosts", "standing", "last_at"]
    rows = [(79, 1, 1, 1, 1, 1, when(world.at(150))), (31, 3, 2, 1, 1, 0, when(world.at(140)))]
    return {}, columns, rows


def gpus_to_repair(_: World) -> Answer:
    rows = [
        ("bee", 1, "failing", ["XID 79"], ["llm-2"]),
        ("cow", 1, "failing", ["3 uncorrectable memory errors"], []),
        ("dog", 0, "gone", [], ["gone-1"]),
    ]
    return {}, ["host", "gpu", "status", "problems", "job_ids"], rows


def slow_pcie_links(_: World) -> Answer:
    columns = ["host", "gpu", "generation", "width", "generation_best", "width_best", "of_best"]
    return {}, columns, [("cow", 1, None, 8, 4, 16, 0.5)]


def gpus_behind_their_model(world: World) -> Answer:
    busy = {key: wholly(of, lambda sample: not idle(sample)) for key, of in by_gpu(world.week()).items()}
    clocks = {key: mean(s["sm_clock_megahertz"] * 1e6 for s in of) for key, of in busy.items() if of}
    middle = median(clock for key, clock in clocks.items() if HOSTS[key[0]][0] == H100)
    slow = ("ant", 1, "GPU-1")
    heat = mean(sample["temperature_celsius"] for sample in busy[slow])
    watts = mean(sample["power_deciwatts"] / 10 for sample in busy[slow])
    row = (*slow, hours(busy[slow]), clocks[slow], middle, 1 - clocks[slow] / middle, heat, watts)
    columns = ["host", "gpu", "uuid", "busy_hours", "sm_clock_hertz", "model_median_hertz", "behind"]
    return {}, [*columns, "temperature_celsius", "power_watts"], [row]


def shared_gpus(_: World) -> Answer:
    free = (81_920 - 20_000) << 20
    return {}, ["host", "gpu", "jobs", "job_ids", "fb_free_bytes"], [("cow", 0, 2, ["tune-1", "tune-2"], free)]


def throttled_gpus(_: World) -> Answer:
    columns = ["host", "gpu", "throttled_s", "power_s", "heat_s", "observed_s"]
    return {}, columns, [("ant", 1, 3600.0, 0.0, 3600.0, float(cookbook_world.WEEK_S))]


def ecc_growth(_: World) -> Answer:
    return {}, ["host", "gpu", "corrected_errors", "uncorrected_errors"], [("cow", 1, 0, 3)]


def hottest_gpus(world: World) -> Answer:
    rows = [
        (*key, max(s["temperature_celsius"] for s in of), mean(s["temperature_celsius"] for s in of))
        for key, of in by_gpu(world.week()).items()
    ]
    columns = ["host", "gpu", "uuid", "temperature_celsius_max", "temperature_celsius"]
    return {"limit": "3"}, columns, sorted(rows, key=lambda row: (-row[3], row[:2]))[:3]


def silent_hosts(world: World) -> Answer:
    last = max(sample["ts"] for sample in world.gpus if sample["host"] == "dog")
    return {}, ["host", "last_seen_at", "gpus", "jobs_lost"], [("dog", when(last), 1, ["gone-1"])]


def agent_versions(_: World) -> Answer:
    rows = [("0.1.0", "6.8.0", 2, 2, 3, ["cow", "dog"]), ("0.2.0", "6.8.0", 2, 1, 4, ["ant", "bee"])]
    return {}, ["agent_version", "kernel", "hosts", "hosts_not_ok", "gpus", "examples"], rows


def host_pressure(_: World) -> Answer:
    rows = [("cow", 0.25, 0.4), ("ant", 0.01, 0.4), ("dog", 0.005, 0.4), ("bee", 0.0, 0.4)]
    return {}, ["host", "psi_io_full", "cpu_util"], rows


def top_network(_: World) -> Answer:
    columns = ["host", "device", "rx_bytes_per_s", "errors", "drops"]
    return {}, columns, [("bee", "eth0", 2e6, 0.1 * 3600, 0.0), ("ant", "eth0", 1e6, 0.0, 0.0)]


def top_disks(_: World) -> Answer:
    columns = ["host", "device", "busy", "read_latency_seconds"]
    return {}, columns, [("bee", "nvme0n1", 0.7, 0.0004), ("ant", "nvme0n1", 0.3, 0.0002)]


def source_states(_: World) -> Answer:
    return {}, ["host", "source", "subject", "state"], [("cow", "gpu", "GPU-5/fan", "denied")]


# --- captures ----------------------------------------------------------------------------------------------------


def kernels_of_fleet(_: World) -> Answer:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for kernels in cookbook_world.KERNELS.values():
        for name, (total, count) in kernels.items():
            sums[name] = [sums[name][0] + 2 * total, sums[name][1] + 2 * count, sums[name][2] + 1]
    whole = sum(total for total, *_ in sums.values())
    rows = [
        (name, total / 1e9, total / whole, count, total / count / 1e9, captures, ["pretrain.py"])
        for name, (total, count, captures) in sums.items()
    ]
    columns = ["kernel", "total_seconds", "share", "count", "mean_seconds", "captures", "workloads"]
    return {}, columns, sorted(rows, key=lambda row: -row[1])


def capture_kernels(_: World) -> Answer:
    rows = [(name, 2 * of[0] / 1e9, 2 * of[1], 2) for name, of in cookbook_world.KERNELS["after"].items()]
    return {"capture_id": "after"}, ["kernel", "total_seconds", "count", "ranks"], rows


def capture_diff(_: World) -> Answer:
    columns = [
        "kernel",
        "status",
        "before_seconds",
        "after_seconds",
        "change_seconds",
    ]  # of a step and rank: two of each
    rows = [("softmax", "slower", 50e-6, 125e-6, 75e-6), ("copy_kernel", "came", 0.0, 10e-6, 10e-6),
            ("gemm", "same", 450e-6, 450e-6, 0.0)]  # fmt: skip
    return {"capture_id": "after", "base": "before"}, columns, rows


def capture_stragglers(_: World) -> Answer:
    columns = ["capture_id", "job_id", "rank", "host", "last", "of", "cost_seconds", "cause"]
    return {}, columns, [("after", "llm-2", 1, "bee", 4, 4, 1.2e-6, "slow_kernels")]


def captures_analysed(_: World) -> Answer:
    columns = ["capture_id", "job_id", "ranks", "busy_share", "straggler", "top_kernel"]
    rows = [("after", "llm-2", 2, 1_170_000 / 2e6, 1, "gemm"), ("before", "llm-2", 2, 0.5, None, "gemm")]
    return {}, columns, rows


def captures_failed(_: World) -> Answer:
    columns = ["reason", "processes", "captures", "hosts", "why"]
    return {}, columns, [("busy", 2, 1, ["bee"], "busy of 8"), ("no_file", 1, 1, ["cow"], "no_file of 9")]


# --- ingest and alerts -------------------------------------------------------------------------------------------


def ingest_by_table(world: World) -> Answer:
    landed = {"gpu_samples": len(world.gpus), "job_events": len(world.events)}
    columns = ["table", "rows", "inserts"]
    return until_now(world), columns, [(table, rows, 1) for table, rows in landed.items()]


def until_now(world: World) -> dict[str, str]:
    return {"since": cookbook_world.iso(world.now - 60), "until": cookbook_world.iso(time.time() + 60)}


def dead_letters_by_reason(_: World) -> Answer:
    topic = "warpmeter.gpu-samples"
    return {}, ["topic", "reason", "messages"], [(topic, "host_given", 2), (topic, "unreadable", 1)]


def ingest_gaps(world: World) -> Answer:
    columns = ["table", "rows", "missing", "doubled"]
    return {"since": until_now(world)["since"]}, columns, [("gpu_samples", len(world.gpus), 0, 0)]


def ingest_freshness(world: World) -> Answer:
    latest = max(sample["ts"] for sample in world.gpus)
    columns = ["table", "newest", "rows"]
    return {"since": until_now(world)["since"]}, columns, [("gpu_samples", when(latest), len(world.gpus))]


def alerts_by_rule(world: World) -> Answer:
    columns = ["rule", "severity", "fired", "firing_now", "dropped", "unheeded", "last_at"]
    rows = [
        ("gpu_xid", "critical", 2, 1, 0, 1, when(world.at(150))),
        ("host_silent", "critical", 1, 1, 0, 1, when(world.at(144))),
        ("job_idle", "warning", 1, 0, 1, 1, when(world.at(140))),
    ]
    return {}, columns, rows


def alerts_by_host(world: World) -> Answer:
    rows = [
        ("cow", 2, 1, 0, ["gpu_xid", "job_idle"], when(world.at(130))),
        ("bee", 1, 1, 1, ["gpu_xid"], when(world.at(150))),
        ("dog", 1, 1, 1, ["host_silent"], when(world.at(144))),
    ]
    return {}, ["host", "alerts", "critical", "firing_now", "rules", "last_at"], rows


ANSWERS: Mapping[str, Callable[[World], Answer]] = {
    answer.__name__: answer
    for answer in (
        gpu_hours_by_team, gpu_hours_by_model, gpu_hours_by_hour_of_day, free_gpu_hours, gpu_hours_by_job_size,
        cost_by_team, cost_of_nights, idle_gpu_energy, gpu_hours_by_user, idle_gpu_hours_by_job, wasting_jobs,
        runs_of_job, uneven_gpus, jobs_with_memory_to_spare, jobs_without_tensor_cores, short_jobs, lost_jobs,
        sampled_time_by_job, stack_top, xids_with_jobs, xids_by_code, gpus_to_repair, slow_pcie_links,
        gpus_behind_their_model, shared_gpus, throttled_gpus, ecc_growth, hottest_gpus, silent_hosts, agent_versions,
        host_pressure, top_network, top_disks, source_states, kernels_of_fleet, capture_kernels, capture_diff,
        capture_stragglers, captures_analysed, captures_failed, ingest_by_table, dead_letters_by_reason, ingest_gaps,
        ingest_freshness, alerts_by_rule, alerts_by_host,
    )
}  # fmt: skip
OF_SOME_TABLES: Final = ("ingest_by_table", "ingest_gaps", "ingest_freshness")
"""Of their rows those are compared that the answer names."""


@pytest.fixture(scope="module")
def before(shared_tables: Client) -> dict[str, Any]:
    """How many rows each recipe has on a store without rows."""
    found = {}
    for name in cookbook.NAMES:
        given = {p.name: "x" for p in queries.get(name).parameters if p.default is None}
        asked = queries.get(name).statement(given)
        found[name] = shared_tables.query(asked.sql, parameters=dict(asked.values)).row_count
    return found


@pytest.fixture(scope="module")
def world(shared_tables: Client, embedded: Store, before: dict[str, Any]) -> World:
    """The planted facts, landed when the empty store has been asked."""
    assert before
    return planted(shared_tables, replace(embedded, database="shared"))


def test_every_recipe_has_its_answer_here() -> None:
    assert sorted(ANSWERS) == sorted(cookbook.NAMES)
    assert set(cookbook_world.QUERIES) < set(ANSWERS)


def test_a_store_without_rows_answers_with_none(before: dict[str, Any]) -> None:
    assert before == dict.fromkeys(cookbook.NAMES, 0)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_recipe_answers_right(shared_tables: Client, world: World, name: str) -> None:
    given, columns, expected = ANSWERS[name](world)
    query = queries.get(name)
    takes = {parameter.name for parameter in query.parameters}
    asked = query.statement({**{key: value for key, value in world.window.items() if key in takes}, **given})
    result = shared_tables.query(asked.sql, parameters=dict(asked.values))
    found = [tuple(line[result.column_names.index(column)] for column in columns) for line in result.result_rows]
    if name in OF_SOME_TABLES:
        found = [row for row in found if row[0] in {line[0] for line in expected}]
    assert near(found, expected), f"\n{found}\n{expected}"


EDGES: Mapping[str, tuple[float, float, list[str], list[tuple[Any, ...]]]] = {
    # from when and until when, in hours after the begin: a fact of the first instant is in, one of the last is not
    "alerts_by_host": (130, 150, ["host", "alerts"], [("cow", 1), ("dog", 1)]),
    "alerts_by_rule": (130, 150, ["rule", "fired"], [("gpu_xid", 1), ("host_silent", 1), ("job_idle", 0)]),
    "xids_by_code": (130, 150, ["code", "reports"], [(31, 3)]),
    "xids_with_jobs": (130, 150, ["host", "job_names"], [("cow", []), ("cow", ["tune.py", "tune.py"])]),
    "captures_failed": (102, 102 + 2 / HOUR, ["reason", "processes"], [("busy", 2)]),
    "kernels_of_fleet": (80, 140, ["kernel", "captures"], [("gemm", 1), ("softmax", 1)]),
    "gpu_hours_by_model": (72, 84, ["partition", "gpu_hours"], [("small", 12.0)]),
    "cost_by_team": (84, 85, ["team", "gpu_hours"], [("vision", 4.0), ("speech", 1.0)]),
    "jobs_with_memory_to_spare": (119, 120, ["job_id", "gpu_hours"], [("gone-1", 1.0), ("tune-1", 1.0)]),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_window_has_its_first_instant_and_not_its_last(shared_tables: Client, world: World, name: str) -> None:
    since, until, columns, expected = EDGES[name]
    asked = queries.get(name).statement({"since": iso(world.at(since)), "until": iso(round(world.at(until)))})
    result = shared_tables.query(asked.sql, parameters=dict(asked.values))
    found = [tuple(line[result.column_names.index(column)] for column in columns) for line in result.result_rows]
    assert near(found, expected), f"\n{found}\n{expected}"

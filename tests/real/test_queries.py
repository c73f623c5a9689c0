"""Every named query on a small fleet, its answer worked out from the same rows in Python."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests import captures, cookbook_world, timelines, topworld, webworld
from tests.tables import UUID, land, row, token
from warpmeter import queries
from warpmeter.store import Client

Row = dict[str, Any]
PERIOD_S = 10


@dataclass(frozen=True)
class Fleet:
    """What was landed: 3 hosts of 2 GPUs over 20 minutes up to `until`, and what goes with them."""

    since: float
    until: float
    gpus: list[Row]
    hosts: list[Row]
    devices: list[Row]
    events: list[Row]

    def of_gpu(self) -> dict[tuple[str, int, str], list[Row]]:
        """Samples by host, GPU and uuid, in time."""
        found = defaultdict(list)
        for sample in self.gpus:
            found[sample["host"], sample["gpu"], sample["uuid"]].append(sample)
        return dict(sorted(found.items()))


HOSTS = ("ant", "bee", "cow")
JOBS = {"big": ("ann", ("ant", "bee")), "small": ("bob", ("bee",)), "lost": ("ann", ("cow",))}


def _gpu_samples(since: float, ticks: int) -> Iterator[Row]:
    for tick in range(ticks):
        for index, host in enumerate(HOSTS):
            for gpu in (0, 1):
                yield _gpu_sample(since + tick * PERIOD_S, tick, 2 * index + gpu, host, gpu)


def _gpu_sample(ts: float, tick: int, number: int, host: str, gpu: int) -> Row:
    sample: Row = {"host": host, "ts": ts, "period_ms": PERIOD_S * 1000, "gpu": gpu, "uuid": f"GPU-{number}"}
    idle = number == 3 or (number == 4 and tick < 60)
    util = 10 if idle else 300 + (tick * 37 + number * 101) % 700
    sample |= {"gpu_util_permille": util, "sm_active_permille": util // 2, "power_deciwatts": 700 + 5 * util}
    sample |= {"temperature_celsius": 40 + (tick * 7 + number * 13) % 40, "sm_clock_megahertz": 1980 - util // 10}
    sample |= {"fb_used_mebibytes": 1000 + tick, "fb_total_mebibytes": 81920, "throttle_reasons": 0x1 if idle else 0}
    if number == 1 and 30 <= tick < 40:
        sample["throttle_reasons"] = 0x4 if tick < 36 else 0x40 | 0x8
    if number == 5:  # the driver is loaded again at tick 70: its counters start over
        sample["ecc_corrected_errors"] = tick // 10 if tick < 70 else tick // 30
        sample["remapped_rows_corrected"], sample["remapped_rows_uncorrected"] = 0, int(tick >= 50)
    if number != 2 or tick % 3:  # one GPU's tensor activity fails now and then
        sample["tensor_active_permille"] = util // 4
    held = [job for job, (_, hosts) in JOBS.items() if host in hosts and not (job == "small" and gpu == 0)]
    return sample | {"job_ids": held}


def _host_samples(since: float, ticks: int) -> Iterator[Row]:
    for tick in range(ticks):
        for index, host in enumerate(HOSTS):
            yield {
                "host": host,
                "ts": since + tick * PERIOD_S,
                "period_ms": PERIOD_S * 1000,
                "cpu_util_permille": (tick * 31 + index * 211) % 1000,
                "psi_cpu_some_permille": (tick + index * 100) % 400,
                "psi_io_full_permille": index * 150,
                "mem_available_mebibytes": 5000 - tick - index,
                "load1_centi": 100 * index + tick,
            }


def _device_samples(since: float, ticks: int) -> Iterator[Row]:
    for tick in range(ticks):
        for index, host in enumerate(HOSTS):
            stamp = {"host": host, "ts": since + tick * PERIOD_S, "period_ms": PERIOD_S * 1000}
            yield stamp | {
                "kind": "nic",
                "device": "eth0",
                "rx_kilobytes_per_s": 1000 * index + tick,
                "tx_kilobytes_per_s": 500,
                "link_megabits_per_s": 10_000,
                "rx_errors_milli_per_s": 100 if index == 1 else 0,
                "tx_errors_milli_per_s": 0,
                "rx_drops_milli_per_s": 0,
                "tx_drops_milli_per_s": index * 200,
            }
            disk = {"kind": "disk", "device": "nvme0n1", "busy_permille": (tick * 17 + index * 300) % 1000}
            disk |= {"read_kilobytes_per_s": 10 * tick, "write_kilobytes_per_s": 7, "queue_centi": tick + index}
            disk |= {"reads_milli_per_s": 1000 * (tick % 3), "writes_milli_per_s": 2000}
            if tick % 3:  # no read, no latency
                disk["read_latency_microseconds"] = 100 * (1 + tick % 5)
            yield stamp | disk | {"write_latency_microseconds": 50}


def _events(since: float, until: float) -> Iterator[Row]:
    for job, (user, hosts) in JOBS.items():
        for host in hosts:
            last = until - 600 if job == "lost" else until
            later = () if job == "lost" else (until + 600,)  # so that it runs still when the last query is asked
            for ts in (*range(int(since), int(last), 10), *later):
                yield {
                    "host": host,
                    "ts": float(ts),
                    "period_ms": 10_000,
                    "job_id": job,
                    "event": "running",
                    "name": f"{job}.py",
                    "user": user,
                    "pid": 100,
                    "started_at": since,
                    "cpu_cores_milli": 2500,
                    "read_bytes": 1_000,
                    "written_bytes": 3_000,
                }


@pytest.fixture(scope="module")
def fleet(shared_tables: Client) -> Fleet:
    """Landed in spans whose offsets have a hole of 5 and an overlap of 2."""
    now = float(shared_tables.query("SELECT toUnixTimestamp(now())").result_rows[0][0])
    since = now // 60 * 60 - 1200
    ticks = int((now - since) // PERIOD_S)
    parts = _gpu_samples(since, ticks), _host_samples(since, ticks), _device_samples(since, ticks), _events(since, now)
    found = Fleet(since, now, *map(list, parts))
    half = len(found.gpus) // 2
    spans = [(found.gpus[:half], token(0, 99)), (found.gpus[half:], token(105, 199))]
    for rows, insert_token in spans:
        land(shared_tables, "gpu-samples", [row("gpu-samples", **fields) for fields in rows], insert_token)
    land(shared_tables, "host-samples", [row("host-samples", **fields) for fields in found.hosts], token(0, 9))
    land(shared_tables, "host-samples", [row("host-samples", host="ant", ts=since)], token(8, 12, partition=0))
    land(shared_tables, "device-samples", [row("device-samples", **fields) for fields in found.devices], token(0, 9))
    land(shared_tables, "job-events", [row("job-events", **fields) for fields in found.events], token(0, 9))
    _land_rest(shared_tables, now)
    return found


def _land_rest(client: Client, now: float) -> None:
    said = (("gpu", "", "ok"), ("gpu", "GPU-0/fan_permille", "unsupported"), ("gpu", "GPU-1/fan_permille", "failed"))
    states = [*said, ("gpu", "GPU-9", "gone"), ("perf", "", "denied"), ("ethtool", "", "timeout")]
    rows = [
        {"host": "ant", "ts": now, "period_ms": 10_000, "source": source, "subject": subject, "state": state}
        for source, subject, state in states
    ]
    land(client, "source-health", [row("source-health", **fields) for fields in rows], token(0, 0))
    letters = [("host_given", 1), ("host_given", 2), ("host_given", 2), ("unreadable", 3)]
    for index, (reason, offset) in enumerate(letters):
        fields = {"topic": "warpmeter.gpu-samples", "topic_uuid": UUID, "offset": offset, "reason": reason, "ts": now}
        land(client, "dead-letters", [row("dead-letters", **fields)], token(index, index))


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def of(samples: list[Row], column: str, factor: float = 1.0) -> list[float]:
    """What is known of a column, in SI."""
    return [sample[column] * factor for sample in samples if column in sample]


def idle_s(samples: list[Row]) -> float:
    return sum(PERIOD_S for sample in samples if sample["gpu_util_permille"] < 50)


class Rounded(float):
    """A value that is told to three decimals: of one that lies half way either will do."""


def near(found: Any, expected: Any) -> bool:
    """Equal, floats within a part in a million."""
    if isinstance(expected, Rounded) and found is not None:
        return bool(abs(found - expected) < 0.00051 and round(found, 3) == found)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(near, found, expected))
    if isinstance(expected, float) and found is not None:
        return math.isclose(found, expected, rel_tol=1e-6, abs_tol=1.1e-5)
    return bool(found == expected)


# --- the answers, worked out -------------------------------------------------------------------------------------

Answer = tuple[dict[str, str], list[str], list[tuple[Any, ...]]]


def median_and_p95(values: list[float]) -> list[float]:
    """As ClickHouse's quantilesTiming takes them: the value at the place `level * n`, rounded to the nearest."""
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(level * len(ordered) + 0.5))] for level in (0.5, 0.95)]


def overview(fleet: Fleet) -> tuple[list[str], tuple[Any, ...]]:
    columns = ["gpu_util", "sm_active", "tensor_active"]
    return columns, tuple(mean(of(fleet.gpus, f"{column}_permille", 0.001)) for column in columns)


def fleet_overview(fleet: Fleet) -> Answer:
    columns, means = overview(fleet)
    hours = len(fleet.gpus) * PERIOD_S / 3600
    rest = (mean(of(fleet.gpus, "power_deciwatts", 0.1)), hours, idle_s(fleet.gpus) / 3600)
    return {}, [*columns, "power_watts", "gpu_hours", "idle_gpu_hours"], [(*means, *rest)]


def fleet_overview_raw(fleet: Fleet) -> Answer:
    columns, means = overview(fleet)
    return {}, columns, [means]


def fleet_series(fleet: Fleet) -> Answer:
    rows = []
    for start in range(int(fleet.since), int(fleet.until), 60):
        samples = [sample for sample in fleet.gpus if start <= sample["ts"] < start + 60]
        if samples:
            idle = idle_s(samples) / (len(samples) * PERIOD_S)
            rows.append(
                (mean(of(samples, "gpu_util_permille", 0.001)), mean(of(samples, "power_deciwatts", 0.1)), idle)
            )
    return {"step_s": "60"}, ["gpu_util", "power_watts", "idle"], rows


def _heatmap(fleet: Fleet, step: int) -> list[tuple[Any, ...]]:
    rows = []
    steps = math.ceil(fleet.until / step) - int(fleet.since // step)
    for (host, gpu, _), samples in fleet.of_gpu().items():
        starts = [fleet.since // step * step + step * number for number in range(steps)]
        within = ([s for s in samples if start <= s["ts"] < start + step] for start in starts)
        means = [mean(of(some, "tensor_active_permille", 0.001)) for some in within]
        rows.append((host, gpu, [None if value is None else Rounded(value) for value in means]))
    return rows


def heatmap(fleet: Fleet) -> Answer:
    return {"metric": "tensor_active", "step_s": "120"}, ["host", "gpu", "values"], _heatmap(fleet, 120)


def heatmap_raw(fleet: Fleet) -> Answer:
    return {"metric": "tensor_active", "step_s": "30"}, ["host", "gpu", "values"], _heatmap(fleet, 30)


def shares(fleet: Fleet) -> dict[str, list[tuple[Row, float]]]:
    """Samples of each job, with the seconds of the GPU that are its own."""
    found = defaultdict(list)
    for sample in fleet.gpus:
        for job in sample["job_ids"]:
            found[job].append((sample, PERIOD_S / len(sample["job_ids"])))
    return found


def gpu_hours_by_user(fleet: Fleet) -> Answer:
    rows = []
    for user in {user for user, _ in JOBS.values()}:
        held = [share for job, found in shares(fleet).items() if JOBS[job][0] == user for share in found]
        hours = sum(seconds for _, seconds in held) / 3600
        idle = sum(seconds for sample, seconds in held if sample["gpu_util_permille"] < 50) / 3600
        busy = sum(sample["gpu_util_permille"] / 1000 * seconds for sample, seconds in held) / 3600 / hours
        energy = sum(sample["power_deciwatts"] / 10 * seconds for sample, seconds in held) / 3.6e6
        jobs = sum(owner == user for owner, _ in JOBS.values())
        rows.append((user, jobs, hours, idle, busy, energy))
    columns = ["user", "jobs", "gpu_hours", "idle_gpu_hours", "gpu_util", "energy_kwh"]
    return {}, columns, sorted(rows, key=lambda found: -found[2])


def idle_gpu_hours_by_job(fleet: Fleet) -> Answer:
    rows = []
    for job, held in shares(fleet).items():
        hours = sum(seconds for _, seconds in held) / 3600
        idle = sum(seconds for sample, seconds in held if sample["gpu_util_permille"] < 50) / 3600
        if idle:
            rows.append((job, f"{job}.py", JOBS[job][0], idle, hours, idle / hours))
    columns = ["job_id", "name", "user", "idle_gpu_hours", "gpu_hours", "idle"]
    return {"limit": "2"}, columns, sorted(rows, key=lambda found: (-found[3], found[0]))[:2]


def top_idle_gpus(fleet: Fleet) -> Answer:
    rows = [(*key, idle_s(found) / (len(found) * PERIOD_S), idle_s(found)) for key, found in fleet.of_gpu().items()]
    columns = ["host", "gpu", "uuid", "idle", "idle_s"]
    return {"limit": "4"}, columns, sorted(rows, key=lambda found: (-found[3], *found[:3]))[:4]


def top_idle_gpus_raw(fleet: Fleet) -> Answer:
    given, columns, rows = top_idle_gpus(fleet)
    return given, columns[:4], [row[:4] for row in rows]


def host_raw(fleet: Fleet) -> Answer:
    rows = [
        (
            sample["gpu"],
            sample["gpu_util_permille"] / 1000,
            sample["power_deciwatts"] / 10,
            sample["fb_used_mebibytes"] << 20,
        )
        for (host, _, _), samples in fleet.of_gpu().items()
        for sample in samples
        if host == "bee"
    ]
    return {"host": "bee"}, ["gpu", "gpu_util", "power_watts", "fb_used_bytes"], rows


def host_stored(fleet: Fleet) -> Answer:
    names = ["gpu", "gpu_util_permille", "power_deciwatts", "fb_used_mebibytes", "sm_clock_megahertz"]
    of_host = (samples for (host, _, _), samples in fleet.of_gpu().items() if host == "bee")
    return {"host": "bee"}, names, [tuple(sample[name] for name in names) for samples in of_host for sample in samples]


def hottest_gpus(fleet: Fleet) -> Answer:
    rows = [
        (*key[:2], max(of(found, "temperature_celsius")), mean(of(found, "temperature_celsius")), None)
        for key, found in fleet.of_gpu().items()
    ]
    columns = ["host", "gpu", "temperature_celsius_max", "temperature_celsius", "mem_temperature_celsius_max"]
    return {}, columns, sorted(rows, key=lambda found: (-found[2], *found[:2]))


def throttled_gpus(fleet: Fleet) -> Answer:
    observed = len(fleet.of_gpu()["ant", 1, "GPU-1"]) * PERIOD_S
    columns = ["host", "gpu", "throttled_s", "power_s", "heat_s", "hardware_s", "observed_s"]
    return {}, columns, [("ant", 1, 100.0, 60.0, 40.0, 40.0, float(observed))]


def ecc_growth(fleet: Fleet) -> Answer:
    samples = fleet.of_gpu()["cow", 1, "GPU-5"]
    values = [sample["ecc_corrected_errors"] for sample in samples]
    minutes = [max(values[start : start + 6]) for start in range(0, len(values), 6)]
    pairs = pairwise(minutes)
    grown = sum(later - earlier if later >= earlier else later for earlier, later in pairs)
    return {}, ["host", "gpu", "corrected_errors", "uncorrected_errors", "remapped_rows"], [("cow", 1, grown, 0, 1)]


def host_pressure(fleet: Fleet) -> Answer:
    rows = []
    for host in HOSTS:
        found = [sample for sample in fleet.hosts if sample["host"] == host]
        rows.append(
            (
                host,
                mean(of(found, "psi_cpu_some_permille", 0.001)),
                None,
                mean(of(found, "psi_io_full_permille", 0.001)),
                mean(of(found, "cpu_util_permille", 0.001)),
                min(of(found, "mem_available_mebibytes", 1 << 20)),
                max(of(found, "load1_centi", 0.01)),
            )
        )
    columns = [
        "host",
        "psi_cpu_some",
        "psi_memory_full",
        "psi_io_full",
        "cpu_util",
        "mem_available_bytes_min",
        "load1_max",
    ]
    return {}, columns, sorted(rows, key=lambda found: -max(found[1] or 0, found[3] or 0))


def _devices(fleet: Fleet, kind: str) -> dict[str, list[Row]]:
    return {host: [s for s in fleet.devices if s["host"] == host and s["kind"] == kind] for host in HOSTS}


def top_network(fleet: Fleet) -> Answer:
    rows = []
    for host, found in _devices(fleet, "nic").items():
        most = max(of(found, "rx_kilobytes_per_s", 1000))
        errors = sum(of(found, "rx_errors_milli_per_s", 0.001)) * PERIOD_S
        drops = sum(of(found, "tx_drops_milli_per_s", 0.001)) * PERIOD_S
        use = 8 * max(most, 500_000) / 10e9
        rows.append((host, mean(of(found, "rx_kilobytes_per_s", 1000)), 500_000.0, most + 500_000, use, errors, drops))
    columns = ["host", "rx_bytes_per_s", "tx_bytes_per_s", "bytes_per_s_max", "link_use_max", "errors", "drops"]
    return {}, columns, sorted(rows, key=lambda found: -(found[1] or 0))


def top_disks(fleet: Fleet) -> Answer:
    rows = []
    for host, found in _devices(fleet, "disk").items():
        reads = [s for s in found if "read_latency_microseconds" in s]
        weighted = sum(s["read_latency_microseconds"] * 1e-6 * s["reads_milli_per_s"] for s in reads)
        latency = weighted / sum(s["reads_milli_per_s"] for s in reads)
        rows.append(
            (host, mean(of(found, "busy_permille", 0.001)), latency, 50e-6, max(of(found, "queue_centi", 0.01)))
        )
    columns = ["host", "busy", "read_latency_seconds", "write_latency_seconds", "queue_max"]
    return {}, columns, sorted(rows, key=lambda found: -(found[1] or 0))


def job_timeline(fleet: Fleet) -> Answer:
    rows = []
    for start in range(int(fleet.since), int(fleet.until), 60):
        held = [(s, share) for s, share in shares(fleet)["small"] if start <= s["ts"] < start + 60]
        events = [e for e in fleet.events if e["job_id"] == "small" and start <= e["ts"] < start + 60]
        gpus = sum(share for _, share in held) / 60
        power = sum(s["power_deciwatts"] / 10 * share for s, share in held) / 60
        rows.append((gpus, power, sum(2.5 * 10 for _ in events) / 60, 1000 * len(events) / 60))
    return {"job_id": "small"}, ["gpus", "power_watts", "cpu_cores", "read_bytes_per_s"], rows


def ingest_freshness(fleet: Fleet) -> Answer:
    counts = {"gpu_samples": len(fleet.gpus), "host_samples": len(fleet.hosts) + 1, "job_events": len(fleet.events)}
    counts |= {"device_samples": len(fleet.devices), "dead_letters": 4, "source_health": 6}
    spans = {"gpu_samples": 2, "host_samples": 2, "dead_letters": 4}
    rows = [(table, rows, spans.get(table, 1), rows / spans.get(table, 1)) for table, rows in sorted(counts.items())]
    return {}, ["table", "rows", "spans", "rows_per_span"], rows


def ingest_gaps(_: Fleet) -> Answer:
    columns = ["table", "partition", "spans", "first", "last", "missing", "doubled", "holes", "overlaps"]
    rows = [
        ("dead_letters", 0, 4, 0, 3, 0, 0, [], []),
        ("device_samples", 0, 1, 0, 9, 0, 0, [], []),
        ("gpu_samples", 0, 2, 0, 199, 5, 0, [(100, 104)], []),
        ("host_samples", 0, 2, 0, 12, 0, 2, [], [(8, 9)]),
        ("job_events", 0, 1, 0, 9, 0, 0, [], []),
        ("source_health", 0, 1, 0, 0, 0, 0, [], []),
    ]
    return {}, columns, rows


def source_states(_: Fleet) -> Answer:
    rows = [
        ("ethtool", "", "timeout"),
        ("gpu", "GPU-0/fan_permille", "unsupported"),
        ("gpu", "GPU-1/fan_permille", "failed"),
        ("gpu", "GPU-9", "gone"),
        ("perf", "", "denied"),
    ]
    return {}, ["source", "subject", "state"], rows


def lost_jobs(_: Fleet) -> Answer:
    return {}, ["job_id", "name", "user", "hosts", "hosts_lost"], [("lost", "lost.py", "ann", ["cow"], ["cow"])]


def dead_letters_by_reason(_: Fleet) -> Answer:
    topic = "warpmeter.gpu-samples"
    return {}, ["topic", "reason", "messages"], [(topic, "host_given", 2), (topic, "unreadable", 1)]


ANSWERS: Mapping[str, Callable[[Fleet], Answer]] = {
    "dead_letters_by_reason": dead_letters_by_reason,
    "ecc_growth": ecc_growth,
    "fleet_overview": fleet_overview,
    "fleet_overview_raw": fleet_overview_raw,
    "fleet_series": fleet_series,
    "gpu_hours_by_user": gpu_hours_by_user,
    "heatmap": heatmap,
    "heatmap_raw": heatmap_raw,
    "host_pressure": host_pressure,
    "host_raw": host_raw,
    "host_stored": host_stored,
    "hottest_gpus": hottest_gpus,
    "idle_gpu_hours_by_job": idle_gpu_hours_by_job,
    "ingest_freshness": ingest_freshness,
    "ingest_gaps": ingest_gaps,
    "job_timeline": job_timeline,
    "lost_jobs": lost_jobs,
    "source_states": source_states,
    "throttled_gpus": throttled_gpus,
    "top_disks": top_disks,
    "top_idle_gpus": top_idle_gpus,
    "top_idle_gpus_raw": top_idle_gpus_raw,
    "top_network": top_network,
}


ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "test_cookbook": cookbook_world.QUERIES,
    "test_web_timeline": timelines.QUERIES,
    "test_trace_views": captures.QUERIES,
    "test_web_analysis": captures.OF_THE_PAGE,
    "test_web_fleet": webworld.QUERIES,
    "test_web_captures": ("capture_states", "captures_listed", "job_trees_of"),
    "test_web_alerts": (
        "alert_history",
        "alert_rules_firing",
        "alerts_counts",
        "alerts_listed",
        "silences_listed",
    ),
    "test_web_schedules": ("schedules_listed",),
    "test_stack_queries": ("stack_diff", "stack_flame", "stack_share", "stack_top"),
    "test_web_stacks": ("stack_seen",),
    "test_top": topworld.QUERIES,
    "test_regressions": (
        "regression_about",
        "regression_figures",
        "regression_kernels",
        "regression_runs",
        "regression_series",
    ),
    "test_trigger_desk": ("captures_triggered",),
    "test_web_reports": ("reports_listed",),
    "test_publishing": ("reports_sent",),
}
"""Queries that a test beside this one answers."""


def test_every_query_has_its_answer() -> None:
    elsewhere = (name for names in ELSEWHERE.values() for name in names)
    assert sorted((*ANSWERS, *elsewhere)) == queries.names()


@pytest.mark.parametrize("name", ANSWERS)
def test_a_query_answers_right(shared_tables: Client, fleet: Fleet, name: str) -> None:
    given, columns, expected = ANSWERS[name](fleet)
    query = queries.get(name)
    window = {"since": f"{_iso(fleet.since)}", "until": f"{_iso(fleet.until)}"}
    takes = {parameter.name for parameter in query.parameters}
    asked = query.statement({**{key: value for key, value in window.items() if key in takes}, **given})
    result = shared_tables.query(asked.sql, parameters=dict(asked.values))
    found = [tuple(line[result.column_names.index(column)] for column in columns) for line in result.result_rows]
    assert near(found, expected), f"\n{found}\n{expected}"


def test_quantiles_of_the_fleet_are_those_of_its_samples(shared_tables: Client, fleet: Fleet) -> None:
    window = {"since": _iso(fleet.since), "until": _iso(fleet.until)}
    expected = median_and_p95(of(fleet.gpus, "gpu_util_permille", 0.001))
    for name in ("fleet_overview", "fleet_overview_raw"):
        asked = queries.get(name).statement(window)
        result = shared_tables.query(asked.sql, parameters=dict(asked.values))
        found = result.result_rows[0][result.column_names.index("gpu_util_quantiles")]
        assert found == [pytest.approx(value, abs=0.005) for value in expected]


def _iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat()

"""A fleet with planted facts, for the cookbook: a week of four hosts, with jobs, failures, captures and alerts.

Everything is a plain row, so that an answer can be worked out from the same rows in Python. Times are seconds since the
epoch; `hour` is a whole hour, and windows end there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from tests.captures import columns, kernel, tables
from tests.tables import land, row, token
from warpmeter import landing
from warpmeter.landing import Process, Tables
from warpmeter.settings import Store
from warpmeter.stacks import identity
from warpmeter.store import Client

QUERIES: Final = (
    "agent_versions",
    "alerts_by_host",
    "alerts_by_rule",
    "captures_failed",
    "cost_by_team",
    "cost_of_nights",
    "free_gpu_hours",
    "gpu_hours_by_hour_of_day",
    "gpu_hours_by_job_size",
    "gpu_hours_by_model",
    "gpu_hours_by_team",
    "gpus_behind_their_model",
    "gpus_to_repair",
    "idle_gpu_energy",
    "ingest_by_table",
    "jobs_with_memory_to_spare",
    "jobs_without_tensor_cores",
    "kernels_of_fleet",
    "runs_of_job",
    "sampled_time_by_job",
    "shared_gpus",
    "short_jobs",
    "silent_hosts",
    "slow_pcie_links",
    "uneven_gpus",
    "wasting_jobs",
    "xids_by_code",
    "xids_with_jobs",
)
"""Named queries that the cookbook brought; `tests/real/test_cookbook.py` answers them."""

Row = dict[str, Any]
PERIOD_S: Final = 1200
WEEK_S: Final = 7 * 86400
DAY_S: Final = 86400
H100: Final = "NVIDIA H100 80GB HBM3"
A100: Final = "NVIDIA A100-SXM4-80GB"
HOSTS: Final = {"ant": (H100, 2), "bee": (H100, 2), "cow": (A100, 2), "dog": (A100, 1)}
SILENT_FOR_S: Final = DAY_S
"""The last host has been silent for a day."""


@dataclass(frozen=True)
class Job:
    """A job of the plan: from `begin` to `end` hours after the begin of the week (None: it runs still)."""

    job_id: str
    name: str
    user: str
    labels: dict[str, str]
    gpus: tuple[tuple[str, int], ...]
    begin: float
    end: float | None
    memory_mebibytes: int = 60_000

    def on(self, host: str, gpu: int, hours: float) -> bool:
        """Whether it holds the GPU so many hours after the begin."""
        return (host, gpu) in self.gpus and self.begin <= hours and (self.end is None or hours < self.end)


ALL_H100: Final = (("ant", 0), ("ant", 1), ("bee", 0), ("bee", 1))
VISION: Final = {"account": "vision", "partition": "big"}
JOBS: Final = (
    Job("llm-1", "pretrain.py", "ann", VISION, ALL_H100, 0, 72),
    Job("llm-2", "pretrain.py", "ann", VISION, ALL_H100, 84, None, 70_000),
    Job("tune-1", "tune.py", "bob", {"team": "speech", "partition": "small"}, (("cow", 0),), 0, None, 20_000),
    Job("tune-2", "tune.py", "cid", {}, (("cow", 0),), 120, None, 20_000),
    Job("gone-1", "serve.py", "cid", {}, (("dog", 0),), 100, 144, 30_000),
)
PROBES: Final = (("probe-1", 20.0), ("probe-2", 21.0), ("probe-3", 22.0))
"""Jobs of one name that end after a minute, and when they began in hours."""


@dataclass
class World:
    """What was landed. `since` to `hour` is a whole week; samples go on to `now`."""

    now: float
    hour: float
    gpus: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)

    @property
    def since(self) -> float:
        """Begin of the week."""
        return self.hour - WEEK_S

    @property
    def window(self) -> dict[str, str]:
        """The week, as queries take it."""
        return {"since": iso(self.since), "until": iso(self.hour)}

    def at(self, hours: float) -> float:
        """So many hours after the begin."""
        return self.since + hours * 3600

    def week(self) -> list[Row]:
        """GPU samples of the week."""
        return [sample for sample in self.gpus if self.since <= sample["ts"] < self.hour]

    def shares(self, samples: Sequence[Row] | None = None) -> list[tuple[str, Row, float]]:
        """Job, sample, and the seconds of the GPU that are the job's own."""
        found = self.week() if samples is None else samples
        return [(job, each, PERIOD_S / len(each["job_ids"])) for each in found for job in each["job_ids"]]


def iso(ts: float) -> str:
    """A time as queries take it."""
    return datetime.fromtimestamp(ts, UTC).isoformat()


def idle(sample: Row) -> bool:
    """Below 5 %."""
    return bool(sample["gpu_util_permille"] < 50)


def _gpu_samples(world: World) -> Iterator[Row]:
    for tick in range(int((world.now - world.since) // PERIOD_S) + 1):
        number = 0
        for host, (model, gpus) in HOSTS.items():
            for gpu in range(gpus):
                ts = world.since + tick * PERIOD_S
                if host != "dog" or ts < world.hour - SILENT_FOR_S:
                    yield _gpu_sample(ts, tick, number, (host, gpu, model))
                number += 1


def _gpu_sample(ts: float, tick: int, number: int, which: tuple[str, int, str]) -> Row:
    host, gpu, model = which
    hours = tick * PERIOD_S / 3600
    jobs = [job for job in JOBS if job.on(host, gpu, hours)]
    util = 0 if not jobs else _util(tick, number, host, hours)
    sample: Row = {"host": host, "ts": ts, "period_ms": PERIOD_S * 1000, "gpu": gpu, "uuid": f"GPU-{number}"}
    sample |= {"model": model, "job_ids": [job.job_id for job in jobs], "gpu_util_permille": util}
    late = (host, gpu) == ("bee", 1) and hours >= 84
    sample |= {"sm_active_permille": util // (4 if late else 2), "power_deciwatts": 800 + 5 * util}
    sample["tensor_active_permille"] = 10 if host == "cow" else util // 3
    sample["temperature_celsius"] = 35 + util // 20 + number
    clock = 1980 if model == H100 else 1410
    sample["sm_clock_megahertz"] = clock - tick % 3 - (300 if (host, gpu) == ("ant", 1) else 0)
    sample["fb_used_mebibytes"] = max((job.memory_mebibytes for job in jobs), default=0)
    sample["fb_total_mebibytes"] = 81_920
    sample["pcie_link_generation"] = (5 if model == H100 else 4) if util else 1
    sample["pcie_link_width"] = 8 if (host, gpu) == ("cow", 1) else 16
    sample["throttle_reasons"] = 0x40 if (host, gpu) == ("ant", 1) and 100 <= hours < 101 else 0
    sample["ecc_uncorrected_errors"] = 3 if (host, gpu) == ("cow", 1) and hours >= 90 else 0
    sample["ecc_corrected_errors"] = 0
    sample["remapped_rows_corrected"] = sample["remapped_rows_uncorrected"] = 0
    return sample


def _util(tick: int, number: int, host: str, hours: float) -> int:
    if host in ("cow", "dog") and hours % 24 < 8:  # what is tuned and served rests at night
        return 20
    return 600 + (tick * 37 + number * 11) % 300


def _host_samples(world: World) -> Iterator[Row]:
    for tick in range(int((world.now - world.since) // PERIOD_S) + 1):
        ts = world.since + tick * PERIOD_S
        for host in HOSTS:
            if host == "dog" and ts >= world.hour - SILENT_FOR_S:
                continue
            about = {"host": host, "ts": ts, "period_ms": PERIOD_S * 1000, "cores": 64, "kernel": "6.8.0"}
            stall = {"ant": 10, "bee": 0, "cow": 250, "dog": 5}[host]
            about |= {"agent_version": "0.2.0" if host in ("ant", "bee") else "0.1.0", "psi_io_full_permille": stall}
            yield about | {"cpu_util_permille": 400, "mem_available_mebibytes": 100_000 - tick}


def _job_events(world: World) -> Iterator[Row]:
    for job in JOBS:
        for rank, host in enumerate(sorted({host for host, _ in job.gpus})):
            yield from _tree(world, job, rank, host)
    for job_id, hours in PROBES:
        about = {
            "host": "ant",
            "job_id": job_id,
            "name": "probe.py",
            "user": "dan",
            "pid": 9,
            "started_at": world.at(hours),
        }
        yield {**about, "ts": world.at(hours), "event": "started", "period_ms": 0}
        yield {**about, "ts": world.at(hours) + 60, "event": "ended", "period_ms": 10_000}
    begun: Row = {"host": "ant", "job_id": "probe-4", "name": "probe.py", "user": "dan", "pid": 9}
    yield {
        **begun,
        "started_at": world.now - 100,
        "ts": world.now - 1,
        "event": "running",
        "period_ms": PERIOD_S * 1000,
    }


def _tree(world: World, job: Job, rank: int, host: str) -> Iterator[Row]:
    uuids = [f"GPU-{number}" for number, key in enumerate(_all_gpus()) if key in job.gpus and key[0] == host]
    about: Row = {"host": host, "job_id": job.job_id, "name": job.name, "user": job.user, "pid": 100 + rank}
    about |= {"started_at": world.at(job.begin), "rank": rank, "labels": job.labels, "gpu_uuids": uuids}
    about |= {"period_ms": PERIOD_S * 1000}
    end = world.now if job.end is None else world.at(job.end)
    for ts in range(int(world.at(job.begin)), int(end), PERIOD_S):
        yield {**about, "ts": float(ts), "event": "running", "cpu_cores_milli": 4000}
    if job.end is not None and job.job_id != "gone-1":
        yield {**about, "ts": end, "event": "ended", "period_ms": 10_000}


def _all_gpus() -> list[tuple[str, int]]:
    return [(host, gpu) for host, (_, gpus) in HOSTS.items() for gpu in range(gpus)]


def _gpu_events(world: World) -> Iterator[Row]:
    bee: Row = {
        "host": "bee",
        "gpu": 1,
        "uuid": "GPU-3",
        "kind": "xid",
        "code": 79,
        "what": "GPU has fallen off the bus",
    }
    yield {**bee, "ts": world.at(150), "state": "raised", "job_ids": ["llm-2"], "pid": 101}
    cow: Row = {"host": "cow", "gpu": 0, "uuid": "GPU-4", "kind": "xid", "code": 31, "what": "GPU memory page fault"}
    yield {**cow, "ts": world.at(130), "state": "raised", "job_ids": ["tune-1", "tune-2"], "pid": 100}
    yield {**cow, "ts": world.at(130.5), "state": "raised", "job_ids": ["tune-1", "tune-2"], "pid": 100}
    yield {**cow, "ts": world.at(131), "state": "cleared", "why": "a reset"}
    yield {**cow, "ts": world.at(140), "state": "raised", "job_ids": []}
    yield {**cow, "ts": world.at(141), "state": "cleared", "why": "a reset"}


def _devices(world: World) -> Iterator[Row]:
    for tick in range(6):
        for index, host in enumerate(("ant", "bee")):
            about: Row = {"host": host, "ts": world.hour - 3600 + tick * PERIOD_S, "period_ms": PERIOD_S * 1000}
            nic = {"kind": "nic", "device": "eth0", "rx_kilobytes_per_s": 1000 * (1 + index), "tx_kilobytes_per_s": 500}
            nic |= {"rx_errors_milli_per_s": 100 * index, "tx_errors_milli_per_s": 0, "link_megabits_per_s": 10_000}
            yield about | nic | {"rx_drops_milli_per_s": 0, "tx_drops_milli_per_s": 0}
            disk = {"kind": "disk", "device": "nvme0n1", "busy_permille": 300 + 400 * index, "queue_centi": 150}
            disk |= {"read_kilobytes_per_s": 10 + index, "write_kilobytes_per_s": 7, "reads_milli_per_s": 1000}
            yield about | disk | {"writes_milli_per_s": 0, "read_latency_microseconds": 200 * (1 + index)}


FAILED: Final = (("c-1", "bee", 7, "busy"), ("c-1", "bee", 8, "busy"), ("c-2", "cow", 9, "no_file"))


def _captures(world: World) -> Iterator[tuple[str, Row]]:
    for number, capture in enumerate(("c-1", "c-2")):
        at = world.at(100 + number)
        yield "capture-requests", {"capture_id": capture, "ts": at, "action": "start", "requested_by": "ann@ant"}
    for number, (capture, host, pid, reason) in enumerate(FAILED):
        about: Row = {"capture_id": capture, "host": host, "pid": pid, "sequence": 1, "by": "agent"}
        yield "capture-events", {**about, "ts": world.at(101), "state": "seen"}
        said = {"state": "failed", "reason": reason, "why": f"{reason} of {pid}", "ts": world.at(102) + number}
        yield "capture-events", {**about, **said}


MAIN: Final = "<module> (train.py:90)"
STEP: Final = "step (train.py:52)"
LOAD: Final = "decode (images.py:17)"


def _stacks(world: World) -> Iterator[Row]:
    for hour in range(4):
        about: Row = {"host": "ant", "ts": world.hour - (4 - hour) * 3600, "period_ms": 60_000, "sampled_ms": 10_000}
        about |= {"source": "py-spy", "job_id": "llm-2", "rank": 0, "pid": 100, "process": "python3", "tid": 1}
        about |= {"unit": "microseconds", "thread": "MainThread"}
        for frames, samples in (((MAIN, STEP), 30), ((MAIN, LOAD), 70)):
            weight = {"samples": samples, "weight": samples * 50_000}
            yield {**about, "stack": identity(frames), "frames": list(frames), **weight}


ALERTS: Final = (
    # id, rule, severity, host, begin and end in hours, how it stands, acknowledged by
    ("a-1", "gpu_xid", "critical", "bee", 150, None, "firing", ""),
    ("a-2", "gpu_xid", "critical", "cow", 130, 131, "resolved", "ann"),
    ("a-3", "job_idle", "warning", "cow", 120, 128, "resolved", ""),
    ("a-4", "job_idle", "warning", "cow", 140, None, "dropped", ""),
    ("a-5", "host_silent", "critical", "dog", 144, None, "firing", ""),
)


def _alerts(world: World) -> Iterator[Row]:
    for alert_id, rule, severity, host, begin, end, state, by in ALERTS:
        about: Row = {"alert_id": alert_id, "rule": rule, "severity": severity, "labels": {"host": host}, "unit": ""}
        about |= {"summary": f"{rule} on {host}", "started_at": world.at(begin), "fingerprint": f"f-{alert_id}"}
        yield {**about, "ts": world.at(begin), "state": "pending"}
        fired = {} if state == "dropped" else {"fired_at": world.at(begin)}
        yield {**about, "ts": world.at(begin) + 60, "state": "firing" if fired else "dropped", **fired}
        if end is not None:
            over = {"resolved_at": world.at(end), "acknowledged_by": by, "state": "resolved"}
            yield {**about, "ts": world.at(end), **fired, **over}


def _letters(world: World) -> Iterator[Row]:
    for offset, reason in enumerate(("host_given", "host_given", "unreadable")):
        yield {
            "topic": "warpmeter.gpu-samples", "topic_uuid": "5f1c7a1e-0000-4000-8000-000000000000",
            "offset": offset, "reason": reason, "ts": world.at(50),
        }  # fmt: skip


def planted(client: Client, store: Store) -> World:
    """Land it all."""
    now = float(client.query("SELECT toUnixTimestamp(now())").result_rows[0][0])
    world = World(now, now // 3600 * 3600)
    world.gpus = list(_gpu_samples(world))
    world.events = list(_job_events(world))
    health = {
        "host": "cow",
        "ts": now,
        "period_ms": 600_000,
        "source": "gpu",
        "subject": "GPU-5/fan",
        "state": "denied",
    }
    of: list[tuple[str, list[Row]]] = [
        ("gpu-samples", world.gpus), ("host-samples", list(_host_samples(world))), ("job-events", world.events),
        ("gpu-events", list(_gpu_events(world))), ("device-samples", list(_devices(world))),
        ("stack-samples", list(_stacks(world))), ("alerts", list(_alerts(world))), ("source-health", [health]),
        ("dead-letters", list(_letters(world))),
    ]  # fmt: skip
    for topic in ("capture-requests", "capture-events"):
        of.append((topic, [fields for its, fields in _captures(world) if its == topic]))
    for topic, rows in of:
        land(client, topic, [row(topic, **fields) for fields in rows], token(0, len(rows) - 1))
    _land_traces(client, store, world)
    return world


TRACES: Final = {"before": 80, "after": 140}
"""Captures that were analysed, and when in hours after the begin."""
KERNELS: Final = {  # nanoseconds in all and calls, of each rank
    "before": {"gemm": (900_000, 10), "softmax": (100_000, 10)},
    "after": {"gemm": (900_000, 10), "softmax": (250_000, 10), "copy_kernel": (20_000, 2)},
}


def _land_traces(client: Client, store: Store, world: World) -> None:
    for capture, hours in TRACES.items():
        load = landing.begin(client, capture, "llm-2")
        at = int(world.at(hours)) * 10**9
        puts = [
            landing.put(client, store, load, Process(rank, host, True, at), _rank(capture, rank))
            for rank, host in enumerate(("ant", "bee"))
        ]
        landing.publish(client, store, load, puts, lambda _: None)


def _rank(capture: str, rank: int) -> Tables:
    about: Row = {"world_size": 2, "workload": "pretrain.py", "steps": 2, "step_p50_ns": 600_000, "gpu_model": H100}
    kernels = [
        kernel(name, total, count, workload="pretrain.py", gpu_model=H100)
        for name, (total, count) in KERNELS[capture].items()
    ]
    total = sum(total for total, _ in KERNELS[capture].values())
    about |= {"span_ns": 2_000_000, "busy_ns": total, "compute_ns": total, "total_ns": total}
    met = [_collective(rank, seq) for seq in range(4)] if capture == "after" else []
    found: dict[str, Any] = {**tables(kernels, events=0, **about)}
    if met:
        found["trace_collectives"] = [columns(met)]
    return found


def _collective(rank: int, seq: int) -> Row:
    """Rank 1 comes last to all four, 300 ns late."""
    last = rank == 1
    return {
        "seq": seq, "group": "world", "group_ranks": [0, 1], "group_size": 2, "kind": "all_reduce", "dtype": "Float",
        "bytes": 4_000, "start_ns": 1000 * seq, "duration_ns": 100 if last else 400, "meeting": seq, "met": 2,
        "wait_ns": 0 if last else 300, "transfer_ns": 100, "skew_ns": 300, "last": last,
        "late_ns": 300 if last else None, "cost_ns": 300 if last else None,
        "late_by": {"slow_kernels": 300} if last else {},
    }  # fmt: skip

"""A small fleet for the tests of the API: odd names, a MIG GPU, holes, zeros, a lost GPU, an XID."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.tables import land, row, token
from warpmeter.store import Client

Row = dict[str, Any]
PERIOD_S: Final = 10
MINUTES: Final = 125
ODD_HOST: Final = 'räck 1/o\'dd "x"\\?# 5%'
HOSTS: Final = ("ant", ODD_HOST, "cow")
ODD_JOB: Final = "ns/tränen & co?#/" + "j" * 300
LONE, LOST = "lone", "lost"
JOBS: Final = {ODD_JOB: ("ann", ("ant", ODD_HOST)), LONE: ("bob", (ODD_HOST,)), LOST: ("o'neil", ("cow",))}
QUERIES: Final = (
    "fleet_counts", "fleet_states", "fleet_statistics", "fleet_statistics_raw", "gpu_states", "gpus_listed",
    "host_events", "host_jobs", "host_sources", "host_sparks", "hosts_listed", "job_efficiency_of", "job_hosts",
    "job_listed", "job_ranks", "job_sparks", "jobs_listed", "known_host", "known_job", "series_device",
    "series_device_raw", "series_fleet", "series_gpu", "series_gpu_raw", "series_host", "series_host_raw", "series_job",
    "series_job_raw",
)  # fmt: skip
"""Named queries that are asked through the API."""


@dataclass(frozen=True)
class World:
    """From `since` to `until`, whole minutes in seconds since the epoch."""

    since: int
    until: int


def _gpus(number: int) -> Iterator[tuple[int, str]]:
    """Index and uuid of a host's GPUs; the third host's second GPU is two MIG instances."""
    yield 0, f"GPU-{number}0"
    if number < 2:
        yield 1, f"GPU-{number}1"
    else:
        yield 1, "MIG-a"
        yield 1, "MIG-b"


def _sample(world: World, tick: int, number: int, gpu: int, uuid: str) -> Row:
    util = (tick * 37 + number * 101 + gpu * 53 + len(uuid)) % 1000
    sample: Row = {"host": HOSTS[number], "ts": float(world.since + tick * PERIOD_S), "period_ms": PERIOD_S * 1000}
    sample |= {"gpu": gpu, "uuid": uuid, "model": "H100", "gpu_util_permille": util, "sm_active_permille": util // 2}
    sample |= {"power_deciwatts": 700 + 5 * util, "temperature_celsius": 40 + util // 50, "throttle_reasons": 0}
    sample |= {"fb_used_mebibytes": 1000 + tick, "fb_total_mebibytes": 81920, "sm_clock_max_megahertz": 1980}
    if uuid == "GPU-00":  # really 0, not unknown
        sample["tensor_active_permille"] = 0
    elif uuid != "GPU-11" and tick % 3:  # GPU-11 has none at all
        sample["tensor_active_permille"] = util // 4
    if uuid == "GPU-01" and 60 <= tick < 90:
        sample["throttle_reasons"] = 0x40 | 0x1
    held = [job for job, (_, hosts) in JOBS.items() if HOSTS[number] in hosts and not (job == LONE and gpu == 0)]
    return sample | {"job_ids": held}


def samples(world: World) -> Iterator[Row]:
    """Of all GPUs; GPU-10 stops 10 minutes before the end."""
    ticks = (world.until - world.since) // PERIOD_S
    for tick in range(ticks):
        for number in range(len(HOSTS)):
            for gpu, uuid in _gpus(number):
                if uuid != "GPU-10" or tick < ticks - 60:
                    yield _sample(world, tick, number, gpu, uuid)


def _hosts(world: World) -> Iterator[Row]:
    for tick in range((world.until - world.since) // PERIOD_S):
        stamp: Row = {"ts": float(world.since + tick * PERIOD_S), "period_ms": PERIOD_S * 1000}
        for number, host in enumerate(HOSTS):
            cpu = {"cpu_util_permille": (tick * 31 + number * 211) % 1000} if number != 1 or tick % 2 else {}
            yield {"host": host, **stamp, "files_open": tick, "mem_total_mebibytes": 1000 * (number + 1), **cpu}


def _devices(world: World) -> Iterator[Row]:
    for tick in range((world.until - world.since) // PERIOD_S):
        stamp: Row = {"ts": float(world.since + tick * PERIOD_S), "period_ms": PERIOD_S * 1000}
        for number, host in enumerate(HOSTS):
            for device in ("eth0", "eth1"):
                rate = 1000 * number + tick + (500 if device == "eth1" else 0)
                yield {"host": host, **stamp, "kind": "nic", "device": device, "rx_kilobytes_per_s": rate}
            yield {"host": host, **stamp, "kind": "disk", "device": "nvme0n1", "busy_permille": tick % 1000}


def _events(world: World) -> Iterator[Row]:
    for job, (user, hosts) in JOBS.items():
        for rank, host in enumerate(hosts):
            number = HOSTS.index(host)
            uuids = [uuid for gpu, uuid in _gpus(number) if not (job == LONE and gpu == 0)]
            about: Row = {"host": host, "job_id": job, "name": f"{job[:4]}.py", "user": user, "pid": 100 + number}
            about |= {"started_at": float(world.since), "gpu_uuids": uuids, "scheduler": "slurm", "period_ms": 10_000}
            about |= {"rank": rank, "command": "python3 train.py", "labels": {"account": "physics"}}
            last = world.until - (300 if job == LOST else 0)
            for ts in range(world.since, last, 10):
                used: Row = {"cpu_cores_milli": 2500, "read_bytes": 1000, "written_bytes": 3000, "rss_mebibytes": 70}
                yield {**about, "ts": float(ts), "event": "running", **used}


def _health(world: World) -> Iterator[Row]:
    said = [
        (0, "gpu", "", "ok", ""),
        (600, "perf", "", "denied", "perf_event_paranoid is 4"),
        (1200, "perf", "", "ok", ""),
    ]
    said += [(world.until - world.since - 550, "gpu", "GPU-10", "gone", "NVML: GPU is lost")]
    for after, source, subject, state, why in said:
        host = ODD_HOST if subject else "ant"
        stamp: Row = {"host": host, "ts": float(world.since + after), "period_ms": 10_000}
        yield {**stamp, "source": source, "subject": subject, "state": state, "why": why}


def landed(client: Client) -> World:
    """Land all of it in empty tables; `until` is the whole minute that is now."""
    now = int(client.query("SELECT toUnixTimestamp(now())").result_rows[0][0])
    world = World(now // 60 * 60 - MINUTES * 60, now // 60 * 60)
    for topic, rows in {
        "gpu-samples": samples(world), "host-samples": _hosts(world), "device-samples": _devices(world),
        "job-events": _events(world), "source-health": _health(world),
    }.items():  # fmt: skip
        found = [row(topic, **fields) for fields in rows]
        half = len(found) // 2  # two blocks, so that windows lie in several rows
        land(client, topic, found[:half], token(0, half))
        land(client, topic, found[half:], token(half + 1, len(found)))
    xid: Row = {"host": "ant", "gpu": 1, "uuid": "GPU-01", "kind": "xid", "code": 79, "what": "fell off the bus"}
    raised = {**xid, "state": "raised", "ts": float(world.since + 900), "job_ids": [ODD_JOB]}
    land(client, "gpu-events", [row("gpu-events", **raised)], token(0, 0))
    return world

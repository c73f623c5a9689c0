"""A fleet for `warpmeter top`, planted by SQL in the raw tables, whose views make the latest of it as of ingest's rows.

Hosts of 8 GPUs, in jobs of 4 hosts; every fifth four have no job. Counting GPUs over all hosts: of every 11 one is
idle; of every 97 one (the fifth) has its clocks held down by heat; GPU 13 has an XID that stands; GPU 22 is gone. The
fourth host has been silent for two hours. Rows stand for ten minutes, so that nobody else is silent while a test looks.
"""

import time
from dataclasses import dataclass
from typing import Final

from warpmeter.store import Client

NAME: Final = "concat('gpu-', leftPad(toString({0}), 4, '0'))"
UUID: Final = "concat('GPU-', leftPad(toString({0}), 8, '0'))"
SILENT: Final = 3
XID: Final = 13
GONE: Final = 22
HISTORY_MIN: Final = 30
QUERIES: Final = ("live_alerts", "live_fleet", "live_gpus", "live_hosts", "live_jobs")


@dataclass(frozen=True)
class Truth:
    """What is there, worked out in Python from the same rules."""

    hosts: int

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.hosts * 8

    def status(self, gpu: int) -> str:
        """Of a GPU by its number over all hosts."""
        if gpu == GONE or gpu // 8 == SILENT:
            return "gone"
        if gpu == XID or gpu % 97 == 5:
            return "failing"
        return "idle" if gpu % 11 == 0 else "busy"

    def counts(self) -> dict[str, int]:
        """How many GPUs are in each state."""
        states = [self.status(gpu) for gpu in range(self.gpus)]
        return {state: states.count(state) for state in ("busy", "idle", "failing", "gone")}

    @staticmethod
    def util_permille(gpu: int) -> int:
        """Utilisation of a GPU in its last sample."""
        return 10 if gpu % 11 == 0 else 300 + gpu * 37 % 700

    @staticmethod
    def job(host: int) -> str:
        """The job on a host; '' for none."""
        return "" if host // 4 % 5 == 4 else f"job-{host // 4:04}"

    def jobs(self) -> list[str]:
        """Those that run: the fourth host's is one of four hosts, so it does."""
        return sorted({self.job(host) for host in range(self.hosts)} - {""})


def plant(client: Client, hosts: int, now: float | None = None, history_hosts: int = 4) -> Truth:
    """Fill empty tables with a fleet as of `now`, and the minutes before of some of its hosts."""
    at = int(now or time.time())
    _insert(client, "host_samples", _hosts(hosts, at))
    _insert(client, "gpu_samples", _gpus(hosts, at, 1))
    _insert(client, "gpu_samples", _gpus(min(hosts, history_hosts), at, HISTORY_MIN))
    _insert(client, "job_events", _jobs(hosts, at))
    _insert(client, "gpu_events", _xid(at))
    _insert(client, "source_health", _health(hosts, at))
    return Truth(hosts)


def _insert(client: Client, table: str, sql: str) -> None:
    columns, _, select = sql.partition(" SELECT ")
    client.command(
        f"INSERT INTO {table} ({columns}) SELECT {select}",
        settings={"insert_deduplication_token": f"top/{table}/{time.monotonic_ns()}", "max_insert_threads": 1},
    )


def _when(host: str, at: int) -> str:
    return f"toDateTime64(if({host} = {SILENT}, {at - 7200}, {at}), 3, 'UTC')"


def _hosts(hosts: int, at: int) -> str:
    return f"""host, ts, period_ms, agent_version, kernel, uptime_s, cores, cpu_util_permille, load1_centi,
            mem_total_mebibytes, mem_available_mebibytes SELECT {NAME.format("number")}, {_when("number", at)},
            if(number = {SILENT}, 1000, 600000), '0.1.0', '6.8.0', 86400, 192, 100 + number * 13 % 800,
            100 * (number % 192), 2000000, 2000000 - number * 1171 % 1800000
        FROM numbers({hosts})"""


def _gpus(hosts: int, at: int, minutes: int) -> str:
    """Of each GPU a sample a minute: the last one now, or those before it."""
    host, before = "intDiv(gpu_number, 8)", "0" if minutes == 1 else "60 * (1 + minute)"
    when, period = f"{_when(host, at)} - INTERVAL {before} SECOND", 600000 if minutes == 1 else 60000
    util = "if(gpu_number % 11 = 0, 10, 300 + gpu_number * 37 % 700)"
    job = f"if(intDiv({host}, 4) % 5 = 4, [], [concat('job-', leftPad(toString(intDiv({host}, 4)), 4, '0'))])"
    return f"""host, ts, period_ms, gpu, uuid, model, job_ids, gpu_util_permille, sm_active_permille,
            tensor_active_permille, dram_active_permille, fb_used_mebibytes, fb_total_mebibytes, power_deciwatts,
            temperature_celsius, throttle_reasons SELECT {NAME.format(host)}, {when},
            if({host} = {SILENT}, 1000, {period}), gpu_number % 8, {UUID.format("gpu_number")},
            'NVIDIA H100 80GB HBM3', {job}, {util}, intDiv({util}, 2), intDiv({util}, 4), intDiv({util}, 3),
            1000 + gpu_number * 97 % 70000, 81559, 700 + 5 * {util}, 35 + gpu_number * 7 % 45,
            if(gpu_number % 97 = 5, 0x40, 0)
        FROM (SELECT intDiv(number, {minutes}) AS gpu_number, number % {minutes} AS minute
              FROM numbers({hosts * 8 * minutes}))"""


def _jobs(hosts: int, at: int) -> str:
    group = "intDiv(number, 4)"
    uuids = f"arrayMap(i -> {UUID.format('(number * 8 + i)')}, range(8))"
    return f"""host, ts, period_ms, job_id, event, name, command, user, scheduler, pid, rank, world_size, started_at,
            gpu_uuids, processes, cpu_cores_milli, rss_mebibytes, gpu_memory_mebibytes SELECT {NAME.format("number")},
            {_when("number", at)}, if(number = {SILENT}, 1000, 600000),
            concat('job-', leftPad(toString({group}), 4, '0')), 'running',
            concat('train-', toString({group} % 7), '.py'), 'python train.py --config big.yaml',
            concat('user-', toString({group} % 40)), 'slurm', 1000 + number,
            number % 4, 4, toDateTime64({at} - 3600 - {group} * 60, 3, 'UTC'), {uuids}, 65, 40000, 200000, 480000
        FROM numbers({hosts}) WHERE {group} % 5 != 4"""


def _xid(at: int) -> str:
    return f"""host, ts, gpu, uuid, kind, code, what, state SELECT {NAME.format(XID // 8)},
            toDateTime64({at - 900}, 3, 'UTC'), {XID % 8}, {UUID.format(XID)}, 'xid', 79,
            'GPU has fallen off the bus', 'raised'"""


def _health(hosts: int, at: int) -> str:
    gone = f"host = {NAME.format(GONE // 8)}"
    return f"""host, ts, period_ms, source, subject, state, why SELECT host, toDateTime64({at + 1}, 3, 'UTC'), 600000,
            'gpu', if({gone}, {UUID.format(GONE)}, ''), if({gone}, 'gone', 'ok'), if({gone}, 'NVML: GPU is lost', '')
        FROM (SELECT {NAME.format("number")} AS host FROM numbers({hosts}) WHERE number != {SILENT})"""

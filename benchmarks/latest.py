"""The latest rows of a generated fleet (benchmarks/minutes.py), as of now: what is old would be silent."""

from collections.abc import Callable
from typing import Final

from warpmeter import migrate
from warpmeter.store import Client

NOW: Final = "now64(3, 'UTC')"
NAME: Final = "concat('gpu-', leftPad(toString({host}), 4, '0'))"
UUID: Final = (
    "concat('GPU-', toString(toUUID(concat(leftPad(lower(hex(cityHash64({gpu}))), 16, '0'), '8000000000000000'))))"
)
HOSTS_A_JOB: Final = 8
JOB_MINUTES: Final = 720
SOURCES: Final = 16


def renew(client: Client, hosts: int, since: int, days: int, now: str = NOW) -> None:
    """Write them anew, as of `now`, which is SQL; `since` is the fleet's first minute."""
    for table in ("gpu_last", "host_last", "source_last", "job_trees"):
        client.command(f"TRUNCATE TABLE {table}")

    def state(table: str, values: str, column: str = "latest", at: str = now) -> str:
        """The state of a column that keeps the latest tuple."""
        sql = """SELECT type FROM system.columns
            WHERE database = currentDatabase() AND table = {table:String} AND name = {column:String}"""
        kind = str(client.query(sql, {"table": table, "column": column}).result_rows[0][0])
        inside = kind.removeprefix("AggregateFunction(argMax, ").rsplit(", DateTime64", 1)[0]
        return f"argMaxState(CAST(tuple({values}), {migrate.literal(inside)}), {at})"

    first = f"toDateTime64({since}, 3, 'UTC')"
    for statement in (
        _gpus(hosts, days, first, state), _machines(hosts, first, state), _sources(hosts, first, state),
        _trees(hosts, days, since, state),
    ):  # fmt: skip
        client.command(statement.replace(NOW, now))


State = Callable[..., str]


def _gpus(hosts: int, days: int, first: str, state: State) -> str:
    last = days * 1440 // JOB_MINUTES - 1
    job = f"concat('job-', toString(intDiv(number, {8 * HOSTS_A_JOB})), '-{last}')"
    values = f"'NVIDIA H100 80GB HBM3', [{job}], 1000, NULL, 950, 700, 400, 500, 60000, 81559, 5500, 7000, 62, 0, 0, 1"
    return f"""INSERT INTO gpu_last
        SELECT {NAME.format(host="intDiv(number, 8)")}, toUInt8(number % 8), {UUID.format(gpu="number")}, {first},
            max({NOW}), max({NOW}), max(if(number % 7 = 0, {first}, {NOW})), {state("gpu_last", values)},
            argMaxState(CAST(0, 'Nullable(UInt64)'), {NOW})
        FROM numbers({hosts * 8}) GROUP BY number"""


def _machines(hosts: int, first: str, state: State) -> str:
    values = "'0.1.0', '6.8.0', 10000, 86400, 192, 400, 6000, 2000000, 1500000, 0, 10, 0, 5"
    return f"""INSERT INTO host_last
        SELECT {NAME.format(host="number")}, {first}, max({NOW}), {state("host_last", values)}
        FROM numbers({hosts}) GROUP BY number"""


def _sources(hosts: int, first: str, state: State) -> str:
    host = NAME.format(host=f"intDiv(number, {SOURCES})")
    return f"""INSERT INTO source_last
        SELECT {host}, concat('source-', toString(number % {SOURCES})), '', {first}, max({NOW}), max({NOW}),
            {state("source_last", "'ok', '', 0.001, NULL, 10000")}
        FROM numbers({hosts * SOURCES}) GROUP BY number"""


def _trees(hosts: int, days: int, since: int, state: State) -> str:
    """A tree a host and job: jobs of HOSTS_A_JOB hosts follow one another every JOB_MINUTES; the last ones run."""
    slots = days * 1440 // JOB_MINUTES
    group = f"intDiv(host_number, {HOSTS_A_JOB})"
    usage = state("job_trees", "10000, 65, 40000, 200000, 480000, range(8), []", "usage", "ending")
    uuids = f"arrayMap(i -> {UUID.format(gpu='(host_number * 8 + i)')}, range(8))"
    return f"""INSERT INTO job_trees (job_id, host, pid, name, command, user, scheduler, started_at, first_at, last_at,
            ended_at, period_ms_max, gpu_uuids_held, cpu_core_seconds, known_seconds, usage, ranks_held)
        SELECT concat('job-', toString({group}), '-', toString(slot)), {NAME.format(host="host_number")},
            1000 + host_number, concat('train-', toString(slot)), 'python train.py',
            concat('user-', toString({group} % 40)), 'slurm', begin, begin, ending,
            if(slot = {slots - 1}, NULL, ending), 10000, {uuids}, 1000, 1000, {usage},
            [toUInt32(host_number % {HOSTS_A_JOB})]
        FROM (
            SELECT intDiv(number, {slots}) AS host_number, number % {slots} AS slot,
                toDateTime64({since} + slot * {JOB_MINUTES * 60}, 3, 'UTC') AS begin,
                if(slot = {slots - 1}, {NOW}, begin + {JOB_MINUTES * 60}) AS ending
            FROM numbers({hosts * slots}))
        GROUP BY host_number, slot, begin, ending"""

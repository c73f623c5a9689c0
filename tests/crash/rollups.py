"""What every rollup must hold: the same sums, made in Python from the numbers, and the query that asks for them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.crash.samples import Fields

MINUTE_S: Final = 60
HOUR_S: Final = 3600
FLEET: Final = ("gpu_util_permille", "sm_active_permille", "power_deciwatts")
"""GPU metrics that the fleet's rollup has too."""

Key = tuple[Any, ...]
Sums = tuple[float, ...]
Shares = Iterable[tuple[Key, Sums]]


@dataclass(frozen=True)
class Rollup:
    """One rollup, in windows of a minute (`<name>_1m`) and of an hour (`<name>_1h`).

    `keys` and `sums` are SQL; `shares` says what one row of a topic (its name, its fields) adds to which keys, in the
    same order. All sums are whole numbers or halves, so they are equal exactly.
    """

    name: str
    keys: Sequence[str]
    sums: Sequence[str]
    shares: Callable[[str, Fields], Shares]

    def sql(self, step: str) -> str:
        """Asks for key columns, start of the window in seconds since the epoch, and the sums."""
        keys = ", ".join([*self.keys, "toUnixTimestamp(window)"])
        sums = ", ".join(f"sum({column})" for column in self.sums)
        return f"SELECT {keys}, {sums} FROM {self.name}_{step} GROUP BY {keys}"


def _gpu(topic: str, row: Fields) -> Shares:
    if topic == "gpu-samples":
        yield (row["host"], row["gpu"], row["uuid"]), (*_gpu_sums(row), 1, row["energy_joules"])


def _fleet(topic: str, row: Fields) -> Shares:
    if topic == "gpu-samples":
        yield (), _gpu_sums(row)


def _gpu_sums(row: Fields) -> Sums:
    idle_ms = row["period_ms"] if row["gpu_util_permille"] < 50 else 0
    return (1, row["period_ms"], idle_ms, *(part for name in FLEET for part in (1, row[name])))


def _host(topic: str, row: Fields) -> Shares:
    if topic == "host-samples":
        yield (row["host"],), (1, row["period_ms"], 1, row["uptime_s"], 1, row["cpu_util_permille"])


def _job(topic: str, row: Fields) -> Shares:
    if topic == "gpu-samples":
        share = row["period_ms"] / 1000 / len(row["job_ids"])
        idle = share if row["gpu_util_permille"] < 50 else 0
        for job in row["job_ids"]:
            yield (job, row["host"]), (share, idle, share, 0, 0, 0)
    elif topic == "job-events":
        cores = row["cpu_cores_milli"] / 1000 * row["period_ms"] / 1000
        yield (row["job_id"], row["host"]), (0, 0, 0, cores, row["read_bytes"], row["written_bytes"])


def _counted(*metrics: str) -> list[str]:
    return [f"{metric}_{part}" for metric in metrics for part in ("count", "sum")]


ROLLUPS: Final = (
    Rollup(
        "gpu_heatmap",
        ("host", "gpu", "uuid"),
        ("samples", "covered_ms", "idle_ms", *_counted(*FLEET, "energy_joules")),
        _gpu,
    ),
    Rollup(
        "fleet_windows",
        (),
        ("samples", "covered_ms", "idle_ms", *_counted(*FLEET)),
        _fleet,
    ),
    Rollup(
        "host_windows",
        ("host",),
        ("samples", "covered_ms", *_counted("uptime_s", "cpu_util_permille")),
        _host,
    ),
    Rollup(
        "job_windows",
        ("job_id", "host"),
        ("gpu_seconds", "idle_seconds", "power_known_seconds", "cpu_core_seconds", "read_bytes", "written_bytes"),
        _job,
    ),
)
STEPS: Final = (("1m", MINUTE_S), ("1h", HOUR_S))


def expected(rollup: Rollup, step_s: int, rows: Iterable[tuple[str, Fields]]) -> dict[Key, Sums]:
    """The sums by key and window of `rows` (topic name, fields)."""
    found: dict[Key, list[float]] = defaultdict(lambda: [0.0] * len(rollup.sums))
    for topic, row in rows:
        window = int(row["ts"]) // step_s * step_s
        for key, sums in rollup.shares(topic, row):
            total = found[(*key, window)]
            for place, value in enumerate(sums):
                total[place] += value
    return {key: tuple(total) for key, total in found.items()}

"""The numbered samples: what row `n` of a topic looks like. All of it follows from `n`, so the truth does too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.tables import row
from warpmeter import wire
from warpmeter.schemas.topics import TOPICS, Topic

ROWS: Final = 8
"""Rows a message: one tick of a host with 8 GPUs."""
HOSTS: Final = 12
JOBS: Final = 3
PERIOD_MS: Final = 1000
DAY_S: Final = 86_400

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """The numbered rows of one topic; `number` is the column that carries the number."""

    topic: Topic
    number: str
    fields: Callable[[int], Fields]


def host_of(n: int) -> str:
    """The host whose row it is: all rows of a message are of one."""
    return f"crash-{n // ROWS % HOSTS}"


def _common(base: int, n: int) -> dict[str, Any]:
    """Rows of one message lie in two days, so that an insert touches two partitions of its table; times are exact."""
    return {"host": host_of(n), "ts": base + n % 2 * DAY_S + n // ROWS * 0.25, "period_ms": PERIOD_MS}


def jobs_of(n: int) -> list[str]:
    """One job, and on every fourth GPU two, which share it."""
    first = n // ROWS % JOBS
    return [f"job-{first}"] if n % 4 else [f"job-{first}", f"job-{(first + 1) % JOBS}"]


def _gpu(base: int, n: int) -> Fields:
    return _common(base, n) | {
        "gpu": n % ROWS,
        "uuid": f"GPU-{n % ROWS}",
        "job_ids": jobs_of(n),
        "gpu_util_permille": n % 1000,
        "sm_active_permille": n * 7 % 1000,
        "power_deciwatts": n % 7000,
        "energy_joules": n,
    }


def _host(base: int, n: int) -> Fields:
    return _common(base, n) | {"cpu_util_permille": n % 1000, "load1_centi": n % 5000, "uptime_s": n}


def _job(base: int, n: int) -> Fields:
    return _common(base, n) | {
        "job_id": jobs_of(n)[0],
        "event": "running",
        "pid": n % ROWS + 1,
        "started_at": float(base),
        "cpu_cores_milli": n % 8 * 500,
        "read_bytes": n % 4096,
        "written_bytes": n,
    }


def all_series(base: int) -> tuple[Series, ...]:
    """What the script produces; `base`, the first row's time, is in whole seconds since the epoch."""
    return (
        Series(TOPICS["gpu-samples"], "energy_joules", lambda n: _gpu(base, n)),
        Series(TOPICS["host-samples"], "uptime_s", lambda n: _host(base, n)),
        Series(TOPICS["job-events"], "written_bytes", lambda n: _job(base, n)),
    )


def envelope(series: Series, message: int) -> wire.Envelope:
    """Message `message` of a series: rows `ROWS * message` and on."""
    numbers = range(message * ROWS, (message + 1) * ROWS)
    return wire.pack(
        series.topic, host_of(message * ROWS), [row(series.topic.name, **series.fields(n)) for n in numbers]
    )

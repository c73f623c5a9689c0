"""A quarter of a small fleet, planted hour by hour: every figure of a report can be worked out of the rows.

Three hosts of four GPUs over thirteen weeks, an hour a sample, through the tables that ingest fills. `ant` trains ann's
job each week, which slows in the last one; `bee` has bob's jobs, which mostly idle, and one of nobody's beside them;
`cow` is held by no job, and its last GPU fails in the last week: memory errors, an XID, and then it is gone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import Message

from tests.tables import land, row
from warpmeter.store import Client

Row = dict[str, Any]
WEEKS: Final = 13
HOUR: Final = 3600
WEEK_HOURS: Final = 168
HOSTS: Final = ("ant", "bee", "cow")
PER_KWH, PER_GPU_HOUR = 0.25, 2.0
OWNERS: Final = {
    "train": ("ann", {"account": "vision", "partition": "long"}),
    "eval": ("bob", {"team": "speech", "queue": "short"}),
    "stray": ("", {}),
}
"""Who starts which jobs, and what their labels tell."""


def last_monday(now: datetime) -> datetime:
    """The last midnight, in UTC, that a week began with."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=midnight.weekday())


@dataclass
class Quarter:
    """The rows that were planted, as plain values. `end`: a Monday; `start`: thirteen weeks before."""

    end: datetime
    gpus: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    hosts: list[Row] = field(default_factory=list)
    xids: list[Row] = field(default_factory=list)

    @property
    def start(self) -> datetime:
        """Its first hour."""
        return self.end - timedelta(weeks=WEEKS)


def made(end: datetime, weeks: Sequence[int] = range(WEEKS), of_hour: int = 1) -> Quarter:
    """The quarter that ends then, or some of its weeks; `of_hour` samples an hour, alike but for their times."""
    quarter = Quarter(end)
    for week in weeks:
        for hour in range(WEEK_HOURS):
            for part in range(of_hour):
                _hour(
                    quarter,
                    week,
                    hour,
                    quarter.start.timestamp() + (week * WEEK_HOURS + hour) * HOUR + part * HOUR / of_hour,
                    HOUR * 1000 // of_hour,
                )
    failed = end.timestamp() - 20 * HOUR
    stamp = {
        "host": "cow",
        "gpu": 3,
        "uuid": "GPU-23",
        "kind": "xid",
        "what": "GPU has fallen off the bus",
    }
    quarter.xids = [
        stamp | {"ts": failed + 10, "code": 79, "state": "raised"},
        stamp | {"ts": failed + 20, "code": 48, "state": "raised"},
    ]
    return quarter


def jobs_on(week: int, hour: int, host: int, gpu: int) -> list[str]:
    """Who holds a GPU in an hour of a week."""
    held = []
    if host == 0:
        held.append(f"train-{week}")
    if host == 1 and gpu < 2 and 24 <= hour < 96:
        held.append(f"eval-{week}")
    if host == 1 and gpu == 1 and 48 <= hour < 72 and week % 2 == 0:
        held.append(f"stray-{week}")
    return held


def _hour(quarter: Quarter, week: int, hour: int, ts: float, period_ms: int) -> None:
    for number, host in enumerate(HOSTS):
        stamp: Row = {"host": host, "ts": ts, "period_ms": period_ms}
        if not (host == "bee" and week == WEEKS - 1 and 100 <= hour < 110):  # silent: neither the host nor its GPUs
            if week >= WEEKS - 2:
                quarter.hosts.append(stamp | {"cpu_util_permille": 300})
            quarter.gpus += [sample for gpu in range(4) if (sample := _gpu(stamp, week, hour, number, gpu))]
    for kind, host in (("train", "ant"), ("eval", "bee"), ("stray", "bee")):
        _events(quarter, kind, week, hour, {"host": host, "ts": ts, "period_ms": period_ms})


def _gpu(stamp: Row, week: int, hour: int, host: int, gpu: int) -> Row | None:
    last = week == WEEKS - 1
    if last and (host, gpu) == (2, 3) and hour >= WEEK_HOURS - 18:
        return None
    held = jobs_on(week, hour, host, gpu)
    util = _util(week, hour, host, gpu, held)
    sample = stamp | {
        "gpu": gpu,
        "uuid": f"GPU-{host}{gpu}",
        "model": "H200",
        "job_ids": held,
        "temperature_celsius": 60,
    }
    sample |= {"gpu_util_permille": util, "sm_active_permille": util // (4 if last and host == 0 else 2)}
    if (host, gpu) != (1, 3):
        sample["power_deciwatts"] = 1000 + 6 * util
    if host == 0:
        sample["tensor_active_permille"] = util // 4
    if host == 2:
        sample["throttle_reasons"] = 0x40 if last and gpu == 1 and 50 <= hour < 53 else 0x1
        sample["ecc_uncorrected_errors"] = 3 + (2 if last and hour >= 100 else 0) if gpu == 3 else 0
        sample["ecc_corrected_errors"] = (5 * (hour // 40) if last else 0) if gpu == 2 else 0
    return sample


def _util(week: int, hour: int, host: int, gpu: int, held: list[str]) -> int:
    if host == 0:
        return 0 if hour % 10 == 0 else 700 + 20 * gpu + (hour % 7) * 10
    if held:
        return 900 - 100 * gpu if hour % 4 == 0 else 10
    return 0 if host == 1 or gpu != 0 else 500 + week


def _events(quarter: Quarter, kind: str, week: int, hour: int, stamp: Row) -> None:
    first, last = {"train": (0, WEEK_HOURS - 1), "eval": (24, 96), "stray": (48, 72)}[kind]
    if not first <= hour <= last or (kind == "stray" and week % 2):
        return
    user, labels = OWNERS[kind]
    begun = quarter.start.timestamp() + (week * WEEK_HOURS + first) * HOUR
    gpus = {"train": range(4), "eval": range(2), "stray": range(1, 2)}[kind]
    uuids = [f"GPU-{HOSTS.index(stamp['host'])}{gpu}" for gpu in gpus]
    quarter.events.append(
        stamp
        | {
            "job_id": f"{kind}-{week}",
            "event": "ended" if hour == last else "running",
            "name": f"{kind}.py",
            "user": user,
        }
        | {"labels": labels, "pid": 100 + week, "started_at": begun, "gpu_uuids": uuids, "command": f"python {kind}.py"}
    )


def plant(client: Client, quarter: Quarter) -> None:
    """Land all of it."""
    topics = {
        "gpu-samples": quarter.gpus,
        "job-events": quarter.events,
        "host-samples": quarter.hosts,
        "gpu-events": quarter.xids,
    }
    for topic, rows in topics.items():
        if rows:
            land(client, topic, list(_messages(topic, rows)))


def _messages(topic: str, rows: Sequence[Row]) -> Iterator[Message]:
    for fields in rows:
        yield row(topic, **fields)

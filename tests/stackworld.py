"""Sampled stacks for the tests: a training job of two ranks on two hosts, before and after its input got slow."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.tables import land, row, token
from warpmeter.stacks import identity
from warpmeter.store import Client

Row = dict[str, Any]
JOB: Final = "ns/tränen & co?#/4711"
OLD_JOB: Final = "earlier"
HOSTS: Final = ("ant", 'räck 1/o\'dd "x"')
TURN_S: Final = 60
INTERVAL_US: Final = 52_632  # of 19 Hz
MINUTES: Final = 150
SCALE: Final = 6  # 10 s of every 60 s were sampled

MAIN: Final = "<module> (train.py:90)"
EPOCH: Final = "epoch (train.py:40)"
STEP: Final = "step (train.py:52)"
LOAD: Final = "__next__ (torch/utils/data/dataloader.py:631)"
DECODE: Final = "decode (data/images.py:17)"
DECODE_TOO: Final = "decode (data/images.py:18)"
WAIT: Final = "wait (threading.py:355)"
ODD: Final = 'operator<"<b>&\'ü"> (a dir/k (1).cpp:7)'

SAMPLES: Final = {
    "before": {(MAIN, EPOCH, STEP): 70, (MAIN, EPOCH, LOAD, DECODE): 20, (MAIN, EPOCH, LOAD, DECODE_TOO): 10},
    "after": {
        (MAIN, EPOCH, STEP): 30, (MAIN, EPOCH, LOAD, DECODE): 50, (MAIN, EPOCH, LOAD, DECODE_TOO): 10,
        (MAIN, EPOCH, ODD): 10,
    },
}  # fmt: skip
"""Samples of a turn by the main thread of a rank; every rank has the same, and a second thread that waits."""
WAITING: Final = 100


@dataclass(frozen=True)
class Stacks:
    """From `since` to `until`; the input got slow at `middle`. Whole minutes, seconds since the epoch."""

    since: int
    middle: int
    until: int


def turns(world: Stacks) -> Iterator[tuple[int, str]]:
    """When each turn began, and whether it was `before` or `after`."""
    for at in range(world.since, world.until, TURN_S):
        yield at, "before" if at < world.middle else "after"


def _rows(world: Stacks) -> Iterator[Row]:
    told: set[tuple[str, ...]] = set()
    for at, when in turns(world):
        for rank, host in enumerate(HOSTS):
            about: Row = {"host": host, "ts": float(at), "period_ms": 60_000, "sampled_ms": 10_000, "source": "py-spy"}
            about |= {"job_id": JOB, "rank": rank, "pid": 100 + rank, "process": "python3", "unit": "microseconds"}
            seen = {frames: (1, "MainThread", count) for frames, count in SAMPLES[when].items()}
            seen |= {(MAIN, WAIT): (2, "QueueFeeder", WAITING)}
            for frames, (tid, thread, count) in seen.items():
                yield {
                    **about, "tid": tid, "thread": thread, "stack": identity(frames), "samples": count,
                    "weight": count * INTERVAL_US, "frames": [] if frames in told else list(frames),
                }  # fmt: skip
                told.add(frames)


def _jobs(world: Stacks) -> Iterator[Row]:
    for job, last in ((JOB, world.until), (OLD_JOB, world.middle)):
        for rank, host in enumerate(HOSTS):
            about: Row = {
                "host": host,
                "job_id": job,
                "name": "train.py",
                "user": "ann",
                "pid": 100 + rank,
                "rank": rank,
            }
            about |= {"started_at": float(world.since), "scheduler": "slurm", "period_ms": 10_000}
            for at in range(world.since, last, 30):
                yield {**about, "ts": float(at), "event": "running", "command": "python3 train.py"}


def _hosts(world: Stacks) -> Iterator[Row]:
    for at in range(world.since, world.until, 60):
        for host in HOSTS:
            yield {"host": host, "ts": float(at), "period_ms": 60_000, "cpu_util_permille": 500}


def _others(world: Stacks) -> Iterator[Row]:
    """The earlier job, of another profiler too; and a heap."""
    about: Row = {"host": HOSTS[0], "ts": float(world.since), "period_ms": 60_000, "sampled_ms": 60_000, "pid": 7}
    about |= {"process": "python3", "tid": 7, "job_id": OLD_JOB, "samples": 1}
    for source, unit, frames, weight in (
        ("py-spy", "microseconds", (MAIN, EPOCH, STEP), 900_000),
        ("perf", "microseconds", ("start_thread", "clone3"), 100_000),
        ("import", "bytes", (MAIN, "allocate (train.py:7)"), 4096),
    ):
        of = {"source": source, "unit": unit, "frames": list(frames), "stack": identity(frames), "weight": weight}
        yield {**about, **of}


def landed(client: Client) -> Stacks:
    """Land it; `until` is the whole minute that is now."""
    now = int(client.query("SELECT toUnixTimestamp(now())").result_rows[0][0]) // 60 * 60
    world = Stacks(now - MINUTES * 60, now - 60 * 60, now)
    of = (
        ("stack-samples", _rows(world)), ("stack-samples", _others(world)), ("job-events", _jobs(world)),
        ("host-samples", _hosts(world)),
    )  # fmt: skip
    for number, (topic, rows) in enumerate(of):
        found = [row(topic, **fields) for fields in rows]
        land(client, topic, found, token(number * 1_000_000, number * 1_000_000 + len(found)))
    return world


def sampled(world: Stacks, when: str, ranks: int = 2) -> dict[tuple[str, ...], int]:
    """Microseconds by path below all, worked out from what was landed of the job, `before` or `after` the middle."""
    turns_of = (world.until - world.middle if when == "after" else world.middle - world.since) // TURN_S
    found: dict[tuple[str, ...], int] = defaultdict(int)
    for frames, count in {**SAMPLES[when], (MAIN, WAIT): WAITING}.items():
        for depth in range(len(frames) + 1):
            found[frames[:depth]] += count * INTERVAL_US * SCALE * turns_of * ranks
    return dict(found)

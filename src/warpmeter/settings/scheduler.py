"""Captures: who carries them out, and those that begin by themselves."""

from dataclasses import dataclass, field
from pathlib import Path

from warpmeter.settings.common import SECRET


@dataclass(frozen=True)
class Schedule:
    """Captures by themselves. `cron` (five fields), `every_s`, or `at` (an ISO time, once): one of them.

    `job`, `hosts`, `where`: as in `warpmeter capture`. `jitter_s`: each run is later by up to so much. A run that was
    missed, because no scheduler was there, is made up for within `late_s`, once however many were missed. A run is
    skipped while a capture of the schedule before it goes on.
    """

    name: str
    cron: str = ""
    every_s: float = 0.0
    at: str = ""
    timezone: str = "UTC"
    jitter_s: float = 0.0
    late_s: float = 60.0
    job: str = ""
    hosts: tuple[str, ...] = ()
    where: str = ""
    process_limit: int = 0
    duration_ms: int = 0
    iterations: int = 0
    count: int = 1
    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    modules: bool = False


@dataclass(frozen=True)
class Scheduler:
    """Captures. Hosts answer within `look_s`; a trace is stored within `grace_s` of its end, and a step of an optimizer
    takes at most `iteration_s`, or it has failed. A request that nobody took within `request_age_s` is not begun.

    `analyse`: what is captured is analysed and loaded, within `analyse_s`, by a process of at most `analyse_bytes`.
    `jobs_url`: where the times of the schedules are kept, as SQLAlchemy names databases; by default a file in `data`.
    """

    group: str = ""
    session_timeout_s: float = 6.0
    look_s: float = 10.0
    resolve_s: float = 20.0
    cancel_s: float = 15.0
    grace_s: float = 120.0
    iteration_s: float = 10.0
    request_age_s: float = 300.0
    analyse: bool = True
    analyse_s: float = 900.0
    analyse_bytes: int = 4 << 30
    data: Path = Path("/var/lib/warpmeter/scheduler")
    jobs_url: str = field(default="", metadata=SECRET)
    schedules: tuple[Schedule, ...] = ()

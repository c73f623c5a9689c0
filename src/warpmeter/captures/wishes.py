"""What a request asks for: whether it can be carried out, and how long each part of it may take. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warpmeter.captures import conditions
from warpmeter.schemas.generated.capture_commands_pb2 import Envelope as Commands
from warpmeter.schemas.generated.capture_requests_pb2 import Envelope as Requests
from warpmeter.settings import Scheduler

Request = Requests.CaptureRequest
Command = Commands.CaptureCommand

POLL_S: Final = 5.0
"""A PyTorch process asks so often (libkineto, as of PyTorch 2.15)."""
WARMUP_S: Final = 5
"""Kineto's own, when none is given."""
MARGIN_S: Final = 3.0
"""For the way of a command to its agent, and for Kineto's run loop, which ticks each second."""
ROUNDUP: Final = 20
"""Optimizer steps, where the request leaves it open and nobody counts them: all ranks have the request within five
seconds, and the fewer multiples lie in these, the rarer is a rank that begins at another one."""
LONGEST_ROUNDUP: Final = 4
"""Times the steps that are made until all ranks have the request, and some: one up to there suits all ranks."""
STEP_S: Final = (0.0001, 120.0)
"""What a step may take; a process says what it likes."""
SLOWER: Final = 2.0
"""A traced step may take so many times what it takes else."""
LONGEST_S: Final = 14 * 86_400
"""A continuous capture without a ceiling of its own ends then; requests and events are kept for longer."""
MOST_TRACES: Final = 1000
LONGEST_TRACE_MS: Final = 600_000
_TRACING: Final = (
    "duration_ms", "iterations", "warmup_iterations", "shapes", "memory", "stacks", "flops", "modules",
)  # fmt: skip


@dataclass(frozen=True)
class Objection:
    """What is wrong with a request: the field to blame, and why."""

    field: str
    why: str


@dataclass(frozen=True)
class Pace:
    """How far the processes of a capture are by their own count, the slowest and the fastest, and what a step takes."""

    fewest: int
    most: int
    step_s: float


def objections(request: Request) -> Iterator[Objection]:
    """Why a request cannot be carried out as it stands; nothing when it can."""
    mode, continuous = request.mode, request.mode == "continuous"
    much = "iterations" if request.iterations else "duration_ms"
    condition = conditions.objection(request.where) if request.where else ""
    checks = (
        (
            request.mode not in ("", "trace", "continuous"),
            "mode",
            f"mode {mode!r} is none: trace or continuous",
        ),
        (not _has_target(request), "job_id", "it names no target: a job, hosts, or pids on one host"),
        (bool(condition), "where", condition),
        ("" in request.hosts, "hosts", "a host without a name is none"),
        (
            request.count > MOST_TRACES,
            "count",
            f"at most {MOST_TRACES} traces; a continuous capture goes on for longer",
        ),
        (bool(request.pids) and len(request.hosts) != 1, "pids", "pids are of one host: name it, and no other"),
        (bool(request.duration_ms) == bool(request.iterations), much, "give either a duration or iterations"),
        (
            request.duration_ms > LONGEST_TRACE_MS,
            "duration_ms",
            f"a trace may take {LONGEST_TRACE_MS // 1000} s at most",
        ),
        (
            request.memory and request.iterations > 0,
            "memory",
            "memory is traced over a duration, not over iterations",
        ),
        (continuous and not request.interval_s, "interval_s", "a continuous capture needs interval_s"),
        (
            request.max_slowdown_permille > 0 and not continuous,
            "max_slowdown_permille",
            "a limit on the slow-down ends a continuous capture, and this is none",
        ),
    )
    return (Objection(field, why) for wrong, field, why in checks if wrong)


def objection(request: Request) -> str:
    """The first of them in words, '' when there is none."""
    return next((each.why for each in objections(request)), "")


def _has_target(request: Request) -> bool:
    return bool(request.job_id or request.hosts or request.where)


def rounds(request: Request) -> int:
    """How often it traces; 0: until something ends it."""
    return request.max_count if request.mode == "continuous" else max(1, request.count)


def seconds(request: Request) -> float:
    """How long a continuous one may go on."""
    return min(request.max_seconds or LONGEST_S, LONGEST_S)


def warmup_s(request: Request) -> int:
    """Of a trace by duration."""
    return request.warmup_s or WARMUP_S


def lead_s(request: Request) -> float:
    """From a command to the start of the traces: the slowest poll and the warm-up must fit in between."""
    return POLL_S + MARGIN_S + (0 if request.iterations else warmup_s(request))


def step_s(step_us: float) -> float:
    """What a step takes, as a process counts it, within reason."""
    return min(max(step_us / 1e6, STEP_S[0]), STEP_S[1])


def _ahead(request: Request, step_s: float) -> int:
    """Steps that are made until the last process has the request."""
    return math.ceil(lead_s(request) / step_s) + 1


def _longest(ahead: int) -> int:
    return LONGEST_ROUNDUP * ahead + 8


def roundup(request: Request, pace: Pace | None = None) -> int:
    """Traces of iterations begin at a multiple of it: the next one that a process comes to when it has the request.

    Where steps are counted, the smallest of which no multiple lies between what the slowest process has made now and
    what the fastest will have made when all have the request: they all begin at the same step, and soon.
    """
    if request.iteration_roundup or pace is None:
        return request.iteration_roundup or ROUNDUP
    ahead, warmup = _ahead(request, pace.step_s), request.warmup_iterations
    first, last = pace.fewest + warmup, pace.most + ahead + warmup
    tried = range(ahead + 1, _longest(ahead) + 1)
    return next((each for each in tried if -(-first // each) == -(-last // each)), ahead + 1)


def deadline(request: Request, start_at: float, limits: Scheduler, step_s: float | None = None) -> float:
    """When each process that was told to start at `start_at` has its final state.

    The process writes its file and the agent stores it in `grace_s`, and longer where much is traced. `step_s`: what a
    step takes, where that is known; at most `iteration_s` else.
    """
    if request.iterations:
        longest = ROUNDUP if step_s is None else _longest(_ahead(request, step_s)) + _ahead(request, step_s)
        steps = (request.iteration_roundup or longest) + request.warmup_iterations + request.iterations
        each_s = limits.iteration_s if step_s is None else SLOWER * step_s
        return start_at + steps * each_s + limits.grace_s
    return start_at + 5 * request.duration_ms / 1000 + limits.grace_s


def command(request: Request, host: str, sequence: int, action: str, now: float) -> Command:
    """A command to a host, with what is traced; its times and its target are the caller's."""
    told = Command(
        host=host, ts=now, capture_id=request.capture_id, sequence=sequence, action=action,
        activities=list(request.activities), **{name: getattr(request, name) for name in _TRACING},
    )  # fmt: skip
    if request.iterations:
        told.iteration_roundup = roundup(request)
    else:
        told.warmup_s = warmup_s(request)
    return told

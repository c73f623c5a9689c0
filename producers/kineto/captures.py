"""One process in a capture, from the order to its final state: pure, over what is seen of it and the time.

Kineto takes what is wanted of it at a poll, each 5 s; from its warm-up on it asks for nothing (type 0) until it is done
with the trace; and gives the file its name when that is whole. It tells nobody that it dropped a request: that shows in
a poll which asks for something when it should be at work, and no file.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from warpmeter.producers.kineto.configuration import WARMUP_S, Tracing
from warpmeter.producers.kineto.upload import Stored
from warpmeter.schemas.generated.capture_commands_pb2 import Envelope

CaptureCommand = Envelope.CaptureCommand

FETCH_S: Final = 20.0
"""Within so long a process must ask, where the start is not a time: four polls."""
GRACE_S: Final = 4.0
"""A file that is whole is there before the process asks for the next thing; so long after, it never comes."""
GONE_S: Final = 2.0
"""What a process that ended had finished is found within so long."""
AT_WORK_S: Final = 2.0
"""So long after its warm-up was to begin a process is seen at work, or will never be: it looks each second."""
LITTLE_ROOM: Final = 1 << 20
"""Fewer bytes free where a process writes its trace is a full disk."""

NO_MEMORY: Final = "no allocation is in it: PyTorch records none in traces on demand (pytorch/kineto#889)"

Phase = Literal["offered", "fetched", "started"]
State = Literal["seen", "accepted", "started", "captured", "failed", "cancelled"]


@dataclass(frozen=True)
class Member:
    """Which process it is. `start`: clock ticks since boot, for pids come again; `own_pid`: what it calls itself."""

    pid: int
    start: int
    own_pid: int
    uid: int
    rank: int | None = None
    job_id: str = ""


@dataclass(frozen=True)
class Failure:
    """Why its trace did not get into the store: a reason of `warpmeter.captures`, and words."""

    reason: str
    why: str


@dataclass(frozen=True)
class Capture:
    """One process in a capture. `name`: of its file, in `folder` as the process sees it. Times: UTC seconds.

    `traced`: it was seen at work. `idle_at`: since when it asks for the next thing; `gone_at`: since when it is gone.
    """

    command: CaptureCommand
    member: Member
    folder: str
    name: str
    offered_at: float
    phase: Phase = "offered"
    traced: bool = False
    idle_at: float | None = None
    gone_at: float | None = None

    @property
    def start_at(self) -> float | None:
        """When its trace is to begin; None: at a step, or as soon as it can."""
        given = self.command.start_at if self.command.HasField("start_at") else 0.0
        return given if given > 0 and not self.command.iterations else None

    @property
    def done_by(self) -> float:
        """When a process that took the request has traced, as far as that can be told."""
        if self.start_at is None:
            return float(self.command.deadline_at)
        return self.start_at + self.command.duration_ms / 1000 + GRACE_S

    @property
    def fetch_by(self) -> float:
        """When it must have asked for what is wanted: Kineto drops what begins before its warm-up is over."""
        if self.start_at is not None:
            return max(self.start_at - warmup_s(self.command), self.offered_at)
        return self.offered_at + FETCH_S


@dataclass(frozen=True)
class Look:
    """What is seen of a process now. `fetched`: it took what is wanted; `tracing`: its last poll was one at work.

    `idle`: it asked for something after that, last at `asked_at`. `file`: what came of its file: nothing yet, under
    way, stored, or a failure. `free_bytes`: room where it writes.
    """

    now: float
    alive: bool = True
    fetched: bool = False
    tracing: bool = False
    idle: bool = False
    asked_at: float = 0.0
    file: Literal["absent", "under way"] | Stored | Failure = "absent"
    free_bytes: int = 1 << 40


@dataclass(frozen=True)
class Told:
    """A state that it reached."""

    state: State
    reason: str = ""
    why: str = ""
    stored: Stored | None = None


def tracing_of(command: CaptureCommand) -> Tracing:
    """What a command wants, as Kineto is told."""
    return Tracing(
        start_at=command.start_at if command.HasField("start_at") else 0.0,
        duration_ms=command.duration_ms or 500,
        iterations=command.iterations,
        iteration_roundup=command.iteration_roundup,
        warmup_s=warmup_s(command),
        warmup_iterations=command.warmup_iterations,
        shapes=command.shapes,
        memory=command.memory,
        stacks=command.stacks,
        flops=command.flops,
        modules=command.modules,
        activities=tuple(command.activities),
    )


def warmup_s(command: CaptureCommand) -> int:
    """Seconds for which Kineto warms up."""
    return int(command.warmup_s) or WARMUP_S


def advance(capture: Capture, look: Look) -> tuple[Capture, Told | None]:
    """What it is now, and a state that it reached by that; after `captured` and `failed` it is done with."""
    capture = _observed(capture, look)
    match look.file:
        case Stored() as stored:
            return capture, _captured(capture, stored)
        case Failure(reason, why):
            return capture, Told("failed", reason, why)
        case _ if look.now >= capture.command.deadline_at:
            return capture, _expired(capture, look)
        case "under way":
            return _begun(capture, look)
    if capture.gone_at is not None:
        over = look.now - capture.gone_at > GONE_S
        return capture, Told(
            "failed", "process_ended", "the process ended before its trace was whole"
        ) if over else None
    if capture.phase == "offered":
        return capture, _late(capture) if look.now >= capture.fetch_by else None
    if capture.idle_at is not None and look.now - capture.idle_at > GRACE_S:
        return capture, _nothing(capture, look)
    return _begun(capture, look)


def _observed(capture: Capture, look: Look) -> Capture:
    if capture.phase == "offered" and (look.fetched or look.file != "absent"):
        capture = replace(capture, phase="fetched")
    capture = replace(
        capture,
        traced=capture.traced or (capture.phase != "offered" and look.tracing),
        gone_at=None if look.alive else capture.gone_at or look.now,
    )
    return replace(capture, idle_at=(capture.idle_at or look.now) if _is_idle(capture, look) else None)


def _is_idle(capture: Capture, look: Look) -> bool:
    """It asks for something although it should be at work: it is done, or never begins.

    Of iterations nobody knows when they should begin.
    """
    if capture.phase == "offered" or not look.idle:
        return False
    due = math.inf if capture.start_at is None else capture.start_at - warmup_s(capture.command)
    return capture.traced or look.asked_at > due + AT_WORK_S


def _begun(capture: Capture, look: Look) -> tuple[Capture, Told | None]:
    """It has started once it was seen at work, or its file is there, and its time has come."""
    due = capture.start_at is None or look.now >= capture.start_at
    at_work = capture.traced or look.file != "absent"
    if capture.phase != "fetched" or not (due and at_work):
        return capture, None
    return replace(capture, phase="started"), Told("started")


def _captured(capture: Capture, stored: Stored) -> Told:
    if capture.command.iterations and not stored.stepped:
        why = "no step of an optimizer is in it: without steps PyTorch traces 500 ms instead; ask for a duration"
        return Told("captured", "no_step", why, stored)
    why = NO_MEMORY if capture.command.memory and not stored.memory else ""
    return Told("captured", why=why, stored=stored)


def _late(capture: Capture) -> Told:
    if capture.start_at is not None:
        why = "it did not ask before its warm-up had to begin; is the process stopped, or the start too soon?"
    else:
        why = f"it did not ask for {FETCH_S:g} s, and asks each 5 s as a rule; is the process stopped?"
    return Told("failed", "not_polling", why)


def _nothing(capture: Capture, look: Look) -> Told:
    """It asks for the next thing, and there is no file."""
    if capture.traced and look.free_bytes < LITTLE_ROOM:
        return Told("failed", "disk_full", f"there is no room in {capture.folder}, where the process writes its trace")
    if capture.traced:
        why = f"it traced, and wrote no {capture.folder}/{capture.name}; its own log (KINETO_LOG_LEVEL=1) says more"
        return Told("failed", "wrote_nothing", why)
    why = "PyTorch took the request and dropped it: the start was too soon, or a profiler in its own code runs"
    return Told("failed", "cancelled_by_kineto", why)


def _expired(capture: Capture, look: Look) -> Told:
    if look.file == "under way":
        return Told("failed", "upload_failed", "its trace was not in the store by the deadline")
    if capture.phase == "offered":
        return _late(capture)
    if capture.command.iterations and (look.tracing or look.idle):
        why = "it waits for steps of an optimizer, and they did not come by the deadline; ask for a duration"
        return Told("failed", "no_step", why)
    return Told("failed", "expired", "it had not written its trace by the deadline; trace less, or allow more time")

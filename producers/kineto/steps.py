"""How much a capture slowed a process down: optimizer steps a second before and while it was traced.

A process that counts its steps (`warpmeter.hook`) keeps them in memory that is one of its descriptors. It is the
process's word: anything may be in there, so it is looked at as anything, and what makes no sense is no count.
"""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from threading import Thread
from typing import Final

from warpmeter.hook import warpmeter_steps as memory
from warpmeter.producers.kineto.captures import Member
from warpmeter.producers.kineto.upload import Stored

BEFORE_S: Final = 30.0
"""Steps of so long before a capture are what it is held against."""
LEAST: Final = 10
"""Fewer steps than that, and longer ago is looked at as well."""
AT_LEAST: Final = 3
"""Fewer tell nothing."""
WITHIN: Final = 8
"""So many steps within a trace stand for it; where there are fewer, those that it touches do."""
TICK_S: Final = 1.0
"""Kineto's run loop: its warm-up may begin so much sooner."""
LINK: Final = f"/memfd:{memory.NAME}"
OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LONGEST_US: Final = (1 << 32) - 1
CANDIDATES: Final = 16
"""Of one name; a process has one, and those of its parents."""
SLOT: Final = Struct("=QQ")


@dataclass(frozen=True)
class Step:
    """The end of a step: the how many-th it was, and when, in monotonic seconds."""

    count: int
    at: float


@dataclass(frozen=True)
class Traced:
    """When a process was traced, and from when on it may be held against that: all in monotonic seconds.

    `quiet_since`: nothing else was captured of it since then; `warmup_s`: of the profiler.
    """

    since: float
    until: float
    quiet_since: float
    warmup_s: float


def counted(proc: str, pid: int, own_pid: int) -> list[Step]:
    """Steps of a process, the earliest first, a few a second of the last 18 minutes; empty when it counts none.

    `own_pid`: what the process calls itself. Raises OSError where its descriptors may not be seen.
    """
    found = [text for _, text in candidates(f"{proc}/{pid}/fd") if memory.HEAD.unpack_from(text)[1] == own_pid]
    return _steps(found[0]) if found else []


def candidates(folder: str) -> Iterator[tuple[str, bytes]]:
    """Descriptors of a process that hold counts, and what is in each: its own, and those of its parents.

    Raises OSError where they may not be seen.
    """
    left = CANDIDATES
    for name in os.listdir(folder):  # noqa: PTH208 - thousands, as a rule none of them ours
        with suppress(OSError):
            if not os.readlink(f"{folder}/{name}").startswith(LINK):  # noqa: PTH115
                continue
            left -= 1
            if (text := content(f"{folder}/{name}")).startswith(memory.MAGIC):
                yield f"{folder}/{name}", text
        if not left:
            return


def content(path: str) -> bytes:
    """What is in the memory; empty when it is none: a name is nothing to go by. Raises OSError."""
    descriptor = os.open(path, OPEN)
    try:
        seen = os.fstat(descriptor)
        right = stat.S_ISREG(seen.st_mode) and seen.st_size == memory.SIZE
        text = os.pread(descriptor, memory.SIZE, 0) if right else b""
    finally:
        os.close(descriptor)
    return text if len(text) == memory.SIZE else b""


def latest(text: bytes) -> Step | None:
    """The last step of all, by what `content` gave; None where there is none. Looks no further than it must."""
    if not text.startswith(memory.MAGIC):
        return None
    now = time.monotonic_ns()
    newest = _slot(now)
    for ago in range(memory.SLOTS):
        slot = (newest - ago) % memory.SLOTS
        count, at = SLOT.unpack_from(text, memory.HEAD.size + slot * SLOT.size)
        if count and _slot(at) == slot and 0 <= now - at < memory.SLOTS << memory.SLOT_BITS:
            return Step(count, at / 1e9)
    return None


def _steps(text: bytes) -> list[Step]:
    slots = enumerate(SLOT.iter_unpack(text[memory.HEAD.size :]))
    found = sorted((at, count) for slot, (count, at) in slots if count and _slot(at) == slot)
    steps = [Step(count, at / 1e9) for at, count in found]
    right = all(after.count > before.count for before, after in pairwise(steps))
    return steps if right else []


@dataclass(frozen=True)
class Pace:
    """How far a process is: its steps so far, and what one took it of late, in microseconds."""

    count: int
    step_us: int


def paces(proc: str, processes: Sequence[tuple[int, int]], within_s: float) -> dict[int, Pace]:
    """Of each process (its pid, and what it calls itself) that counts steps, by pid.

    In time: what a process has open is its own, and looking at it may take as long as it likes.
    """
    found: dict[int, Pace] = {}

    def look() -> None:
        for pid, own_pid in processes:
            with suppress(OSError):
                if (pace := pace_of(counted(proc, pid, own_pid))) is not None:
                    found[pid] = pace

    thread = Thread(target=look, name="kineto-steps", daemon=True)
    thread.start()
    thread.join(within_s)
    return dict(found)


def pace_of(steps: Sequence[Step]) -> Pace | None:
    """By its latest steps; None where there are too few."""
    recent = [step for step in steps if step.at >= steps[-1].at - BEFORE_S or step.count >= steps[-1].count - AT_LEAST]
    rate = _rate(recent) if recent and recent[-1].count - recent[0].count >= AT_LEAST else None
    return Pace(steps[-1].count, min(LONGEST_US, max(1, round(1e6 / rate)))) if rate else None


def _slot(at: int) -> int:
    return (at >> memory.SLOT_BITS) % memory.SLOTS


def measured(proc: str, member: Member, stored: Stored, warmup_s: float, quiet_since: float) -> int | None:
    """As `slowdown_permille`, of a process whose trace is stored; `quiet_since`: UTC seconds, as Kineto's are."""
    if stored.traced_from is None or stored.traced_until is None:
        return None
    ahead = time.time() - time.monotonic()
    traced = Traced(stored.traced_from - ahead, stored.traced_until - ahead, quiet_since - ahead, warmup_s)
    try:
        return slowdown_permille(counted(proc, member.pid, member.own_pid), traced)
    except OSError:  # it has ended, or may not be looked at
        return None


def slowdown_permille(steps: Sequence[Step], traced: Traced) -> int | None:
    """Steps a second that were lost while it was traced, 0 where none were; None where there are too few to tell."""
    before = _rate(_before(steps, traced))
    during = _rate(_during(steps, traced))
    if before is None or during is None:
        return None
    return min(1000, max(0, round(1000 * (1 - during / before))))


def _before(steps: Sequence[Step], traced: Traced) -> Sequence[Step]:
    until = traced.since - traced.warmup_s - TICK_S
    usable = [step for step in steps if traced.quiet_since <= step.at <= until]
    recent = [step for step in usable if step.at >= until - BEFORE_S]
    if not recent or recent[-1].count - recent[0].count < LEAST:
        recent = [step for step in usable if usable[-1].count - step.count <= LEAST]
    enough = bool(recent) and recent[-1].count - recent[0].count >= AT_LEAST
    return recent if enough else []


def _during(steps: Sequence[Step], traced: Traced) -> Sequence[Step]:
    """Those within the trace; where these are few, from the last before it to the first after it.

    Of long steps the trace is a part only; what it cost them is what it cost the job.
    """
    within = [step for step in steps if traced.since <= step.at <= traced.until]
    if within and within[-1].count - within[0].count >= WITHIN:
        return within
    first = [step for step in steps if step.at < traced.since][-1:]
    last = [step for step in steps if step.at > traced.until][:1]
    return [*first, *last] if first and last else []


def _rate(steps: Sequence[Step]) -> float | None:
    """Steps a second, from the first to the last of them."""
    if len(steps) < 2 or steps[-1].at <= steps[0].at:
        return None
    return (steps[-1].count - steps[0].count) / (steps[-1].at - steps[0].at)

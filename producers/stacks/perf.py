"""perf as a sampler of the whole host: how it is called, and what it meant when it ended. Formats: perf-script(1).

It samples by the CPU's clock, which virtual machines have as well; what a CPU does while it is idle is left out. Two
programs, one after the other: `perf record` until it gets SIGINT, then `perf script`, which puts names to addresses.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warpmeter.producers.source import State
from warpmeter.producers.stacks.child import Bounds, End
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.stacks import perfscript
from warpmeter.stacks.profile import Gathered, Profile

NAME: Final = "perf"
RECORDING: Final = Bounds(nice=0, memory=1 << 30, output=128 << 20, cpu_s=20)
NAMING: Final = Bounds(nice=5, memory=1 << 30, output=32 << 20, cpu_s=20)
SAMPLES_MAX: Final = 12_000
"""Of a turn: on a host with many CPUs each is sampled less often."""
PIECE: Final = 1 << 20
"""Bytes of what is printed that are read at once: as text and its lines it takes several times as much."""
FIELDS: Final = "comm,pid,tid,time,period,event,ip,sym,dso"
REFUSED: Final = (
    "perf_event_paranoid",
    "Permission denied",
    "Operation not permitted",
    "No permission",
    "EACCES",
    "EPERM",
)
DENIED: Final = (
    "the kernel does not let perf sample the whole host: run the agent as root, give it CAP_PERFMON, or set "
    "kernel.perf_event_paranoid to -1; Docker's seccomp profile forbids it too, unless the container has CAP_PERFMON"
)
MISSING: Final = "there is no perf on this host: install it (linux-perf, linux-tools) to sample the whole host"


def find() -> str:
    """The program, '' where there is none."""
    return shutil.which(NAME) or next(
        (path for path in ("/usr/bin/perf", "/usr/local/bin/perf") if Path(path).is_file()), ""
    )


def recording(program: str, rate: int) -> list[str]:
    """The command line that samples all CPUs until SIGINT; `{}` is where it writes. It copies no program anywhere."""
    return [
        program, "record", "--all-cpus", "--event", "cpu-clock:I", "--freq", str(rate), "--call-graph", "fp",
        "--no-buildid", "--no-buildid-cache", "--output", "{}",
    ]  # fmt: skip


def naming(program: str) -> list[str]:
    """The command line that prints what was recorded in `{}`."""
    return [program, "script", "--input", "{}", "--fields", FIELDS, "--no-inline", "--max-stack", "127"]


def rate(asked: int, cpus: int, seconds: float) -> int:
    """How often each of so many CPUs is sampled in a second."""
    return max(1, min(asked, int(SAMPLES_MAX / (cpus * seconds))))


def profile(output: bytes) -> Profile | None:
    """Its stacks, weighed by time; None where there are none. Raises ValueError for what is none of its own."""
    found, duration_s, any_there = Gathered(), 0.0, False
    for piece in pieces(output):
        part = perfscript.parse(piece.decode(errors="replace"))
        duration_s, any_there = duration_s + part.duration_s, True
        for who, stack in part.stacks():
            found.add(who, stack.frames, stack.weight, stack.samples)
    return found.profile("microseconds", duration_s=duration_s) if any_there else None


def pieces(output: bytes, size: int = PIECE) -> Iterator[bytes]:
    """What was printed in pieces of about that size, each of whole samples, which an empty line ends."""
    at = 0
    while at < len(output):
        cut = output.find(b"\n\n", at + size)
        until = len(output) if cut < 0 else cut + 2
        if piece := output[at:until].strip():
            yield piece
        at = until


def seen_s(profile: Profile, rate: int, asked_s: float) -> float:
    """For how many seconds it sampled. On a host without a free CPU perf is long in beginning.

    That shows in the time from its first sample to its last, where a fifth of one CPU was busy: less tells nothing.
    """
    samples = sum(stack.samples for _, stack in profile.stacks())
    return min(asked_s, profile.duration_s + 1 / rate) if samples >= 0.2 * rate * asked_s else asked_s


def trouble(end: End) -> Trouble | None:
    """Why it failed, None where it did not."""
    if end.status == 0:
        return None
    if end.status < 0:
        why = f"perf was ended by signal {-end.status}: by somebody, or for the memory, CPU time or output that it took"
        return Trouble("failed", why)
    state: State = "denied" if any(text in end.words for text in REFUSED) else "failed"
    said = next(
        (line.strip() for line in end.words.splitlines() if line.strip() and not line.startswith("[")), "no word"
    )
    return Trouble(state, DENIED if state == "denied" else f"perf: {said[:300]}")

"""py-spy as a sampler: how it is called, and what it meant when it ended.

It reads the memory of a process from outside (process_vm_readv(2)) and nothing runs in there. As called here it does
not pause the process, so that nothing that may become of py-spy can leave a process stopped; what is read while it
changes gives a few stacks in a hundred that are put together of two, and leaves the shares of functions as they are.
C frames (`native`) can only be read of a process that stands still. py-spy then attaches to it at each sample with
PTRACE_SEIZE, of which the kernel lets go when the one who attached is killed (ptrace(2)); `held` tells that it does.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.source import State
from warpmeter.producers.stacks.child import ENVIRONMENT, End
from warpmeter.settings import Agent
from warpmeter.stacks import folded
from warpmeter.stacks.profile import Profile

NAME: Final = "py-spy"
SEIZES: Final = (0, 4, 3)
"""The first version that was seen to let go of a process when it is killed."""
VERSION_S: Final = 5.0
LINES_MAX: Final = 200
"""Of one stack."""
BEHIND: Final = "behind in sampling"
MISSING: Final = (
    "py-spy is not installed beside the agent's Python, so no stacks of Python are sampled: "
    "pip install 'warpmeter[agent]', or set agent.stacks = false"
)
DENIED: Final = (
    "the kernel does not let py-spy look: run the agent as root or give it CAP_SYS_PTRACE; in a container also let no "
    "seccomp profile forbid process_vm_readv, and see kernel.yama.ptrace_scope"
)
NO_VERSION: Final = (
    "py-spy does not say which version it is, so it pauses no process: install 0.4.3 or later, or leave out "
    "agent.stacks_native and agent.stacks_blocking"
)
TOO_OLD: Final = "py-spy {} may leave a process stopped when it is killed while it pauses it; install 0.4.3 or later"
UNSUPPORTED: Final = (
    "Failed to find python version", "Unsupported version of Python", "Failed to find a python interpreter",
    "Failed to find python interpreter", "Couldn't find python", "Failed to parse python",
)  # fmt: skip
REFUSED: Final = ("Permission Denied", "Permission denied", "Operation not permitted", "EPERM")
_HELD: Final = re.compile(rb"^State:\s*t", re.MULTILINE)
_TRACER: Final = re.compile(rb"^TracerPid:\s*(\d+)", re.MULTILINE)
_SWITCHES: Final = re.compile(rb"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
_COUNTED: Final = re.compile(r" \d+$")
_SAID: Final = re.compile(r"^Error: (.*)$|^ +(?:\d+: )?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Trouble:
    """Why a process gave no stacks."""

    state: State
    why: str


def find() -> str:
    """The program, '' where there is none: beside the interpreter, where its wheel puts it, else on the PATH."""
    beside = Path(sys.executable).with_name(NAME)
    return str(beside) if beside.is_file() else shutil.which(NAME) or ""


def version(program: str) -> tuple[int, ...]:
    """What it calls itself; empty when it does not say."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, timeout=VERSION_S, env=ENVIRONMENT)
    except (OSError, subprocess.SubprocessError):
        return ()
    found = said.returncode == 0 and re.search(rb"(\d+)\.(\d+)\.(\d+)", said.stdout)
    return tuple(map(int, found.groups())) if found else ()


def unfit(program: str) -> str:
    """Why it may pause no process, '' where it may."""
    known = version(program)
    if not known:
        return NO_VERSION
    return "" if known >= SEIZES else TOO_OLD.format(".".join(map(str, known)))


def pauses(agent: Agent) -> bool:
    """Whether a process stands still while it is read."""
    return agent.stacks_native or agent.stacks_blocking


def argv(program: str, agent: Agent, pid: int, rate: int) -> list[str]:
    """Its command line; `{}` is where the stacks go."""
    line = [program, "record", "--pid", str(pid), "--format", "raw", "--output", "{}"]
    line += ["--duration", str(round(agent.stacks_sampling_s)), "--rate", str(rate)]
    line += ["--threads", "--full-filenames"]
    line += ["--idle"] if agent.stacks_idle else []
    line += ["--native"] if agent.stacks_native else []
    return line if pauses(agent) else [*line, "--nonblocking"]


def entering(proc: str, pid: int) -> list[str]:
    """What goes before the command line for a process of another pid namespace, which calls it `own_pid`.

    A program there numbers its threads by its own namespace, and py-spy looks in /proc under that number whether a
    thread runs: from without it would take every thread for running. util-linux's programs put it in there, with a
    /proc of that namespace that nobody else sees. Empty where one of them is missing, or the agent is not root.
    """
    programs = [shutil.which(name) for name in ("nsenter", "unshare", "setpriv")]
    if os.geteuid() or None in programs:
        return []
    nsenter, unshare, setpriv = map(str, programs)
    inside = [nsenter, f"--pid={proc}/{pid}/ns/pid", "--", unshare, "--mount", "--mount-proc"]
    return [*inside, setpriv, "--pdeathsig", "KILL"]


def not_entered(end: End) -> bool:
    """Whether it could not be put in there."""
    return end.status != 0 and any(name in end.words for name in ("nsenter:", "unshare:", "setpriv:"))


def profile(output: bytes, rate: int) -> Profile | None:
    """Its stacks, weighed by time; None where it saw none. Raises ValueError for what is none of its own."""
    text = _on_lines(output.decode(errors="replace"))
    return folded.parse(text).at_rate(rate) if text.strip() else None


def _on_lines(text: str) -> str:
    """Each stack on one line: code that a program made may have a file whose name is several lines."""
    found, begun = list[str](), list[str]()
    for line in text.split("\n"):
        begun.append(line)
        if _COUNTED.search(f" {line}" if len(begun) > 1 else line):
            found.append(" ".join(begun))
            begun.clear()
        elif len(begun) > LINES_MAX:
            raise ValueError(f"{line.strip()[:60]!r}, and {LINES_MAX} lines before it, are of no stack")
    return "\n".join([*found, " ".join(begun)])


def was_behind(end: End) -> bool:
    """Whether it said that it could not keep up."""
    return BEHIND in end.words


def trouble(end: End, tracer: int) -> Trouble | None:
    """Why it failed with a process that still runs, None where it did not; `tracer`: who traces that, 0 for nobody."""
    if end.status == 0:
        return None
    if end.status < 0:
        why = (
            f"py-spy was ended by signal {-end.status}: by somebody, or for the memory, CPU time or output that it took"
        )
        return Trouble("failed", why)
    said = _reason(end.words)
    if any(text in end.words for text in REFUSED):
        by = f"process {tracer} traces it (a debugger), and only one can" if tracer else DENIED
        return Trouble("denied", by)
    if any(text in end.words for text in UNSUPPORTED):
        return Trouble("unsupported", f"py-spy does not know this interpreter: {said}")
    return Trouble("failed", f"py-spy: {said}")


def of_known(trouble: Trouble, known: bool) -> Trouble:
    """What it means where py-spy does, or does not, know the interpreter; it reads none whose threads are too deep."""
    if trouble.state != "unsupported":
        return trouble
    if known:
        return Trouble("failed", f"{trouble.why} (but did before: is a thread of it in a deep recursion?)")
    return Trouble("unsupported", f"{trouble.why}; nor does it read one with a thread more than 4,096 calls deep")


def _reason(words: str) -> str:
    """The error and what caused it, on one line."""
    whole = words.partition("Stack backtrace")[0]
    said = [first or second for first, second in _SAID.findall(whole)]
    return ": ".join(dict.fromkeys(text.strip() for text in said if text.strip())) or words.strip()[:200] or "no word"


def tracer(proc: str, pid: int) -> int:
    """The thread that traces a process, 0 for none."""
    return _tracer(files.optional(f"{proc}/{pid}/status") or b"")


def _tracer(status: bytes) -> int:
    found = _TRACER.search(status)
    return int(found[1]) if found else 0


def held(proc: str, pid: int, sampler: int) -> int | None:
    """How often a process had come to a stop when it stood still in the hands of this sampler; None when it does not.

    The same number again is the same stop: at each sample the process is let go, and stopped anew (proc_pid_status(5)).
    """
    status = files.optional(f"{proc}/{pid}/status") or b""
    if not _HELD.search(status) or _group(proc, _tracer(status)) != sampler:
        return None
    return sum(map(int, _SWITCHES.findall(status)))


def _group(proc: str, tid: int) -> int:
    """Its process group, 0 when it is gone."""
    text = files.optional(f"{proc}/{tid}/stat") or b""
    numbers = text[text.rfind(b")") + 2 :].split(None, 3)
    return int(numbers[2]) if len(numbers) > 3 else 0


def host_tids(proc: str, pid: int) -> dict[int, int]:
    """By what a process of another pid namespace calls its threads: what the host calls them. Empty in the host's."""
    if len(_namespaces(f"{proc}/{pid}/status")) < 2:
        return {}
    found = (_namespaces(f"{proc}/{pid}/task/{tid}/status") for tid in files.names(f"{proc}/{pid}/task"))
    return {tids[-1]: tids[0] for tids in found if tids}


def own_pid(proc: str, pid: int) -> int:
    """What a process calls itself."""
    return (_namespaces(f"{proc}/{pid}/status") or [pid])[-1]


def _namespaces(path: str) -> Sequence[int]:
    found = re.search(rb"^NSpid:([\s\d]*)$", files.optional(path) or b"", re.MULTILINE)
    return [int(number) for number in found[1].split()] if found else []

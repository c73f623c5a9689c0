"""A program that samples beside the agent: at a priority of its own, within bounds, and killed when the agent ends.

Whatever ends the agent, the kernel kills its children in the same moment (PR_SET_PDEATHSIG, prctl(2)), without a word
to a watchdog that could be killed as well. That goes by the thread which started them, so only a source's own thread,
which lives as long as the agent does, may start one.
"""

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

PR_SET_PDEATHSIG: Final = 1
WORDS_MAX: Final = 4096
"""Bytes that are kept of what a program says of itself."""
OUT: Final = "/proc/self/fd/{}"
ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "HOME": "/",
    "PERF_CONFIG": "/dev/null",
    "DEBUGINFOD_URLS": "",
    "RUST_BACKTRACE": "0",
}
"""Nothing of the agent's own: a configuration of perf would change what it prints, and symbols are never fetched."""

_PRCTL: Final = ctypes.CDLL(None, use_errno=True).prctl


@dataclass(frozen=True)
class Bounds:
    """Of one program: its niceness, where the agent may set it (the agent's own where not); bytes of memory of its own,
    and of a file that it writes; seconds of CPU time."""

    nice: int

    memory: int = 512 << 20
    output: int = 16 << 20
    cpu_s: int = 30


@dataclass(frozen=True)
class End:
    """How a program ended: its exit status, or less than 0 the signal; its CPU time; what it said of itself."""

    status: int
    cpu_s: float
    words: str


class Child:
    """One such program, from its start to `close`."""

    def __init__(self, argv: Sequence[str], bounds: Bounds, into: int | None = None, prints: bool = False) -> None:
        """Start it; raises OSError.

        `into`: a descriptor of a file, which stays the caller's; else one in memory. `{}` in an argument is its path.
        `prints`: `into` is what the program reads, and its output is what it prints.
        """
        self._file = os.memfd_create("warpmeter-stacks", os.MFD_CLOEXEC) if into is None else os.dup(into)
        self._output = os.memfd_create("warpmeter-printed", os.MFD_CLOEXEC) if prints else os.dup(self._file)
        self._words = os.memfd_create("warpmeter-words", os.MFD_CLOEXEC)
        parent = os.getpid()

        def bound() -> None:
            """In the child, between fork and exec: no imports, no locks."""
            _PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it ended before the kernel was told
                os._exit(1)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_DATA, (bounds.memory, bounds.memory))
            resource.setrlimit(resource.RLIMIT_FSIZE, (bounds.output, bounds.output))
            resource.setrlimit(resource.RLIMIT_CPU, (bounds.cpu_s, bounds.cpu_s + 1))
            if bounds.nice < 0:  # it is of one thread and those that it starts, so before there are others
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, 0, bounds.nice)

        try:
            self._process = subprocess.Popen(
                [argument.replace("{}", OUT.format(self._file)) for argument in argv],
                stdin=subprocess.DEVNULL,
                stdout=self._output if prints else self._words,
                stderr=self._words,
                pass_fds=(self._file,),
                env=ENVIRONMENT,
                cwd="/",
                process_group=0,
                preexec_fn=bound,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._close()
            raise OSError(f"{argv[0]} cannot be started: {error}") from error
        if bounds.nice >= 0:  # not before exec, for which the caller waits: on a busy host it would for seconds
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, bounds.nice)

        self._told: set[signal.Signals] = set()

    @property
    def pid(self) -> int:
        """Its process id, which is its group's as well."""
        return self._process.pid

    def tell(self, number: signal.Signals) -> None:
        """Send it and what it started a signal, once; nothing where it has ended."""
        if self._process.returncode is None and number not in self._told:
            self._told.add(number)
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def ended(self) -> End | None:
        """How it ended; None while it runs. What it started ends with it."""
        if self._process.returncode is not None:
            return None
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        self.tell(signal.SIGKILL)  # as long as nobody has asked how it ended, its group is nobody else's
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        words = os.pread(self._words, WORDS_MAX, 0).decode(errors="replace")
        return End(self._process.returncode, usage.ru_utime + usage.ru_stime, words)

    def output(self) -> bytes:
        """All that it wrote, or printed."""
        size = os.fstat(self._output).st_size
        parts, at = [], 0
        while at < size and (part := os.pread(self._output, size - at, at)):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """End it at once if it still runs, and give back its memory."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self._process.returncode = -signal.SIGKILL
        self._close()

    def _close(self) -> None:
        for descriptor in (self._file, self._output, self._words):
            with suppress(OSError):
                os.close(descriptor)
        self._file = self._output = self._words = -1

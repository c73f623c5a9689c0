"""`warpmeter run`: start a command so that its PyTorch processes may be captured, and say whether they registered.

The command gets what it would get without us: signals, the terminal, its exit status.
"""

import os
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpmeter.hook import warpmeter_steps
from warpmeter.producers.kineto import endpoint, explain, who

HOOK: Final = warpmeter_steps.FOLDER
"""What counts optimizer steps (`warpmeter.hook`): first in PYTHONPATH, for its `sitecustomize`."""
FORWARDED: Final = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
)
BY_THE_KERNEL: Final = 0x80
"""`si_code` of a signal that the terminal sent: to the command as well, which must not have it twice."""
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
"""Exit statuses as a shell's."""
LOOK_S: Final = 1.0
LATE_S: Final = 60.0
"""A process that has not registered by then is told why; PyTorch alone may take so long to load."""


@dataclass(frozen=True)
class Setup:
    """What a command is started with: the agent's folder, and the variables that make its processes register."""

    folder: Path
    variables: Mapping[str, str]


def setup(folder: Path, traces: Path | None, environ: Mapping[str, str], count_steps: bool = True) -> Setup:
    """Variables for a command. What `environ` has already stays, but for `traces`, when it is given.

    Without an agent in `folder`, processes are left to look for the abstract name; but for a folder that an agent made
    and will come back to, where nobody has that name either. `count_steps`: Python below the command loads what counts
    optimizer steps, before its own `sitecustomize`.
    """
    wanted = {"KINETO_USE_DAEMON": environ.get("KINETO_USE_DAEMON") or "1"}
    if given := environ.get("KINETO_IPC_SOCKET_DIR"):
        folder = Path(given)
    elif who.listens(folder) or (_is_agents(folder) and not who.listens_abstract()):
        wanted["KINETO_IPC_SOCKET_DIR"] = str(folder)
    where = traces.absolute() if traces is not None else environ.get("KINETO_ONDEMAND_TRACE_DIR")
    wanted["KINETO_ONDEMAND_TRACE_DIR"] = str(where or tempfile.gettempdir())
    if count_steps:
        wanted["PYTHONPATH"] = os.pathsep.join(each for each in (HOOK, environ.get("PYTHONPATH", "")) if each)
    return Setup(folder, wanted)


def _is_agents(folder: Path) -> bool:
    """Whether processes of all users may make sockets there, as in a folder that an agent made."""
    with suppress(OSError):
        return stat.S_IMODE(folder.stat().st_mode) == endpoint.SHARED
    return False


def run(line: Sequence[str], made: Setup, say: Callable[[str], None]) -> int:
    """Run the command to its end; the exit status as a shell gives it (128 + n for one that signal n ended).

    Raises OSError where there is no such command.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    pid = os.posix_spawnp(
        line[0], list(line), {**os.environ, **made.variables}, setsigmask=mask,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # which Python ignores
    )  # fmt: skip
    watch = Watch(pid, made.folder, say)
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    status = _wait(pid)
    watch.ended()
    return status


def _wait(pid: int) -> int:
    """Hand signals on until the command has ended."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        came = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
        if came.si_signo != signal.SIGCHLD and came.si_code != BY_THE_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(pid, came.si_signo)


class Watch:
    """Tells, once each, that processes of a command registered, or why they do not. `run` is for a thread."""

    def __init__(
        self, pid: int, folder: Path, say: Callable[[str], None], look_s: float = LOOK_S, late_s: float = LATE_S
    ) -> None:
        self._pid, self._folder, self._say = pid, folder, say
        self._look_s, self._late_s = look_s, late_s
        self._over = threading.Event()
        self._told, self._last = 0, 0
        self._answered = True

    def run(self) -> None:
        """Look until the command has ended."""
        began, late = time.monotonic(), False
        while not self._over.wait(self._look_s):
            self._look()
            if not self._told and not late and time.monotonic() - began >= self._late_s:
                late = True
                self._say(f"not registered after {self._late_s:g} s, as only captures need: {self._why()}")

    def ended(self) -> None:
        """The command has ended."""
        self._over.set()
        if not self._told:
            self._say("the command ended before any of its processes registered, so none of it could be captured")

    def _look(self) -> None:
        found = who.below_me(self._folder)
        if found is None:
            if self._answered:
                self._say(
                    f"no agent of warpmeter answers on this host, in {self._folder} or by the abstract name: start one "
                    "(`warpmeter agent`, or `warpmeter up`), and the command's processes register within seconds"
                )
            self._answered = False
            return
        self._answered = True
        if found.count > self._told and found.count == self._last:  # as many as at the look before: all that come now
            self._told = found.count
            pids = ", ".join(str(pid) for pid in found.pids) + ("…" if found.count > len(found.pids) else "")
            many = "process" if found.count == 1 else "processes"
            self._say(f"{found.count} {many} registered, and can be captured (pid {pids}): see `warpmeter capture`")
        self._last = found.count

    def _why(self) -> str:
        if not self._answered:
            return (
                f"no agent answers in {self._folder} or by the abstract name; `warpmeter status` tells whether one runs"
            )
        pids = below("/proc", self._pid)
        failure = explain.obstacle("/proc", explain.worker("/proc", pids, self._pid), self._folder)
        return failure.why


def below(proc: str, top: int) -> list[int]:
    """A process and its descendants, as far as they can be read."""
    found = [top]
    for pid in found:
        with suppress(OSError):
            for task in Path(f"{proc}/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found

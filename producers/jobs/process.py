"""One process as /proc tells it, and the table of all, kept by reading only what is new.

Formats: proc(5), and proc_pid_stat(5) for the numbers of `stat`.
"""

import os
import pwd
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.jobs.containers import Container, container_of
from warpmeter.producers.jobs.scheduler import VARIABLES

KERNEL_THREAD: Final = 0x0020_0000
"""PF_KTHREAD in the flags of `stat`."""
ENDED: Final = frozenset({b"Z", b"X"})
COMM_MAX: Final = 15
"""The kernel cuts `comm` at so many characters."""
COMMAND_MAX: Final = 1000
"""Characters of a command line that are kept."""
VALUE_MAX: Final = 4096
"""Bytes of a variable that are kept: anybody may set them, and they go out with every event of the job."""
PYTHON: Final = re.compile(r"python[0-9.]*")
LOOKED_AT_AGAIN_S: Final = 10.0
"""Every process is looked at again within so long, for one may become another program (exec)."""
LINEAGE_MAX: Final = 128
YOUNG_READS: Final = 2
"""A new process is looked at again in so many next reads: it may have been caught between fork and exec."""


@dataclass(frozen=True)
class Stat:
    """What `/proc/<pid>/stat` says; times in clock ticks, `start` since boot, memory in pages.

    `cpu` has the process's own time and that of its children that ended and were waited for, so the sum over a tree
    keeps what its members used when they are gone. `ended`: a zombie, which only waits to be asked for its status.
    `stack`: where the program's stack begins, 0 where that is hidden: it is another one after each exec.
    """

    comm: str
    ended: bool
    ppid: int
    kernel: bool
    start: int
    cpu: int
    rss_pages: int
    stack: int = 0


@dataclass(frozen=True)
class Process:
    """A process, since it was first seen with this program.

    `name`: its comm, completed. `lineage`: names of all ancestors and itself, oldest first, as they were then.
    `variables`: of its environment, only the named ones. `hidden`: its environment may not be read. `container`: None
    when it runs in none. `python`: its program is an interpreter of Python, whatever it calls itself.
    """

    pid: int
    ppid: int
    start: int
    comm: str
    name: str
    argv: tuple[str, ...] = ()
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    hidden: bool = False
    lineage: tuple[str, ...] = ()
    container: Container | None = None
    stack: int = 0
    python: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Pid and start: pids are used again."""
        return self.pid, self.start

    @property
    def tree_id(self) -> str:
        """The process tree id: the lineage, joined with '/'."""
        return "/".join(self.lineage)

    @property
    def command(self) -> str:
        """Its command line, cut."""
        return " ".join(self.argv)[:COMMAND_MAX]


def parse_stat(text: bytes) -> Stat:
    """Read `/proc/<pid>/stat`; a comm may hold blanks and parentheses. Raises ValueError when it is no such line."""
    opened, closed = text.index(b"("), text.rindex(b")")
    numbers = text[closed + 2 :].split(None, 26)
    if len(numbers) < 22:
        raise ValueError(f"a stat line of {len(numbers)} numbers")
    return Stat(
        comm=text[opened + 1 : closed].decode(errors="replace"),
        ended=numbers[0] in ENDED,
        ppid=int(numbers[1]),
        kernel=bool(int(numbers[6]) & KERNEL_THREAD),
        start=int(numbers[19]),
        cpu=sum(map(int, numbers[11:15])),
        rss_pages=int(numbers[21]),
        stack=int(numbers[25]) if len(numbers) > 25 else 0,
    )


def full_name(comm: str, exe: str, argv: Sequence[str]) -> str:
    """The program's name: its comm, completed where the kernel cut it, from the exe or the arguments it prefixes.

    A Python process that renamed itself (PyTorch's `pt_main_thread`) keeps its interpreter's name.
    """
    names = [PurePath(part).name for part in (exe, *argv[:2])]
    if len(comm) >= COMM_MAX:
        whole = next((name for name in names if name.startswith(comm)), None)
        if whole is not None:
            return whole
    if comm not in names and PYTHON.fullmatch(names[0]):
        return names[0]
    return comm


def parse_environ(text: bytes) -> dict[str, str]:
    """The named variables of `/proc/<pid>/environ`; no other is ever kept."""
    found = {}
    for pair in text.split(b"\0"):
        name, _, value = pair.partition(b"=")
        if name in VARIABLES:
            found[name.decode()] = value[:VALUE_MAX].decode(errors="replace")
    return found


class ProcessTable:
    """All processes but kernel threads, kept up to date by `refresh`.

    /proc's inode number of a pid changes when the pid is used again, and comes with the listing for nothing, so only
    new pids are read. The others are looked at again in turn, for a process may `exec` another program, or the same one
    with other variables, as launchers do: its name stays then, and its stack tells.
    """

    def __init__(self, proc: str, period_s: float) -> None:
        self._proc = proc
        self._turns = max(1, round(LOOKED_AT_AGAIN_S / period_s))
        self._reads = 0
        self._inodes: dict[int, int] = {}
        self._young: dict[int, int] = {}
        self._users: dict[int, str] = {}
        self.processes: dict[int, Process] = {}

    def refresh(self) -> bool:
        """Bring `processes` up to date; False when nothing changed. Raises OSError when /proc cannot be listed."""
        turn = self._reads % self._turns
        changed = self.look([pid for pid in self.processes if pid % self._turns == turn])
        self._young = {pid: seen for pid, seen in self._young.items() if self._reads - seen < YOUNG_READS}
        self._reads += 1
        return changed

    def look(self, pids: Iterable[int]) -> bool:
        """Bring what is new or young, and these, up to date, out of turn; as `refresh`."""
        known = len(self.processes)
        due = dict.fromkeys([*self._listed(), *self._young, *pids])
        changed = [pid for pid in due if pid in self._inodes and self._look(pid)]
        for pid in changed:
            self._place(pid)
        return bool(changed) or len(self.processes) != known

    def _listed(self) -> list[int]:
        """List all, and forget what is gone; what is new."""
        with os.scandir(self._proc) as entries:
            inodes = {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}
        for pid in self._inodes.keys() - inodes.keys():
            self.processes.pop(pid, None)
            self._young.pop(pid, None)
        new = [pid for pid, inode in inodes.items() if self._inodes.get(pid) != inode]
        self._young |= dict.fromkeys(new, self._reads)
        self._inodes = inodes
        return new

    def _look(self, pid: int) -> bool:
        """Look at one process; True when it is new, or another program than it was."""
        known = self.processes.get(pid)
        try:
            stat = parse_stat(files.read(f"{self._proc}/{pid}/stat"))
        except (OSError, ValueError):
            self.processes.pop(pid, None)
            self._inodes.pop(pid, None)  # one that is still there then, and only could not be read, counts as new
            return False
        if stat.kernel or stat.ended:
            self.processes.pop(pid, None)
            self._young.pop(pid, None)
            return False
        if known is not None and (known.start, known.comm, known.stack) == (stat.start, stat.comm, stat.stack):
            return False
        self.processes[pid] = self._read(pid, stat)
        return True

    def _read(self, pid: int, stat: Stat) -> Process:
        folder = f"{self._proc}/{pid}"
        argv = _arguments(files.optional(f"{folder}/cmdline") or b"")
        try:
            variables, hidden = parse_environ(files.read(f"{folder}/environ")), False
        except OSError as error:
            variables, hidden = {}, isinstance(error, PermissionError)
        uid = _owner(folder)
        exe = files.link(f"{folder}/exe").removesuffix(" (deleted)")
        name = full_name(stat.comm, exe, argv)
        container = container_of(files.optional(f"{folder}/cgroup") or b"")
        user = self._user(uid)
        return Process(
            pid, stat.ppid, stat.start, stat.comm, name, argv, user, variables, hidden, container=container,
            stack=stat.stack, python=PYTHON.fullmatch(PurePath(exe).name or name) is not None,
        )  # fmt: skip

    def _place(self, pid: int) -> None:
        """Give a new process its lineage; parents that have none yet get theirs first."""
        chain: list[Process] = []
        process = self.processes.get(pid)
        while process is not None and not process.lineage and process not in chain:
            chain.append(process)
            process = self.processes.get(process.ppid)
        lineage = process.lineage if process is not None else ()
        for descendant in reversed(chain):
            lineage = _shown((*lineage, descendant.name))
            self.processes[descendant.pid] = replace(descendant, lineage=lineage)

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            try:
                self._users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                self._users[uid] = str(uid)
        return self._users[uid]


def _arguments(cmdline: bytes) -> tuple[str, ...]:
    parts = cmdline[: 4 * COMMAND_MAX].rstrip(b"\0").split(b"\0") if cmdline else []
    return tuple(part.decode(errors="replace") for part in parts)


def _shown(lineage: tuple[str, ...]) -> tuple[str, ...]:
    """Of a tree that is deeper than any launcher makes one, its oldest and its youngest: expressions go over it."""
    return lineage if len(lineage) <= LINEAGE_MAX else lineage[: LINEAGE_MAX // 2] + lineage[-LINEAGE_MAX // 2 :]


def _owner(folder: str) -> int:
    try:
        return os.stat(folder).st_uid  # noqa: PTH116 - hot
    except OSError:
        return 0

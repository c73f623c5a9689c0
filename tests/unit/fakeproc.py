"""A /proc of made-up processes below a folder, as the agent reads it."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BTIME = 1_799_000_000
KERNEL_THREAD = 0x0020_0000


@dataclass
class Fake:
    """One process: what its `stat`, `cmdline`, `environ`, `exe` and `io` say. Times in clock ticks, memory in pages."""

    pid: int
    ppid: int
    comm: str
    argv: Sequence[str] = ()
    start: int = 1000
    exe: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    utime: int = 0
    stime: int = 0
    cutime: int = 0
    cstime: int = 0
    rss: int = 256
    io: tuple[int, int] | None = (0, 0)
    state: str = "S"
    flags: int = 0
    cgroup: str = "0::/\n"
    status: str = ""
    stack: int = 0

    @property
    def stat(self) -> str:
        """The line of `/proc/<pid>/stat`."""
        before = f"{self.pid} ({self.comm}) {self.state} {self.ppid} 1 1 0 -1 {self.flags} 10 0 0 0"
        times = f"{self.utime} {self.stime} {self.cutime} {self.cstime} 20 0 1 0 {self.start}"
        rest = f"1000000 {self.rss} 18446744073709551615 1 1 {self.stack} 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0"
        return f"{before} {times} {rest}\n"


class FakeProc:
    """The folder. `root` is what `settings.agent.root` names."""

    def __init__(self, root: Path, init: str = "systemd") -> None:
        self.root = root
        self.proc = root / "proc"
        self.proc.mkdir(parents=True)
        (self.proc / "stat").write_text(f"cpu  1 2 3 4 5 6 7 8 9 10\nbtime {BTIME}\n")
        (self.proc / "meminfo").write_text("MemTotal: 1 kB\n")
        self.put(Fake(1, 0, init, ["/sbin/init"], start=1, exe=f"/usr/lib/{init}"))

    def put(self, *processes: Fake) -> None:
        """Add processes, or change them in place."""
        for process in processes:
            folder = self.proc / str(process.pid)
            folder.mkdir(exist_ok=True)
            (folder / "stat").write_text(process.stat)
            (folder / "comm").write_text(f"{process.comm}\n")
            (folder / "cmdline").write_bytes(b"".join(part.encode() + b"\0" for part in process.argv))
            pairs = (f"{name}={value}".encode() + b"\0" for name, value in process.environ.items())
            (folder / "environ").write_bytes(b"".join(pairs))
            (folder / "cgroup").write_text(process.cgroup)
            (folder / "status").write_text(process.status)
            self._link(folder / "exe", process.exe)
            self._io(folder / "io", process.io)

    def end(self, *pids: int) -> None:
        """Processes end."""
        for pid in pids:
            shutil.rmtree(self.proc / str(pid))

    @staticmethod
    def _link(path: Path, to: str) -> None:
        path.unlink(missing_ok=True)
        if to:
            path.symlink_to(to)

    @staticmethod
    def _io(path: Path, io: tuple[int, int] | None) -> None:
        if io is None:
            path.unlink(missing_ok=True)
            return
        path.write_text(f"rchar: 9\nwchar: 9\nread_bytes: {io[0]}\nwrite_bytes: {io[1]}\ncancelled_write_bytes: 0\n")

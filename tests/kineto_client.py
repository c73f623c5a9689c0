"""Processes that ask for traces and write them as PyTorch does, without PyTorch: libkineto's client, in Python.

`python -m tests.kineto_client FOLDER --count 4` forks four of them, prints their pids as one JSON line and runs until
its standard input ends. `asking(...)` does that for a test. What they do wrong, `--trick` says.
"""

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

TRICKS: Final = (
    "none",
    "cancels",
    "writes nothing",
    "link",
    "hard link",
    "pipe",
    "half",
    "no steps",
    "own profiler",
    "noise",
)
HEADER: Final = struct.Struct("=Q32s")
POLL: Final = struct.Struct("=iiq")
BASE_NS: Final = 1_600_000_000_000_000_000


class Kineto:
    """libkineto in this process. `poll_s`: it asks so often (5 s in PyTorch); `size`: bytes of a trace, at least."""

    def __init__(self, folder: Path, poll_s: float = 5.0, trick: str = "none", size: int = 0, job: int = 0) -> None:
        """`folder`: KINETO_IPC_SOCKET_DIR."""
        self._path = str(folder / f"dynoconfigclient{uuid4()}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._path)
        self._socket.settimeout(1.0)
        self._daemon = str(folder / "dynolog")
        self._known, self._answered = False, answered(folder, os.getpid())
        self._poll_s, self._trick, self._size, self._job = poll_s, trick, size, job
        self._wanted: dict[str, str] | None = None
        self._warms = self._begins = self._ends = 0.0

    def run(self) -> None:
        """Ask and trace until a signal."""
        due = time.monotonic()
        while True:
            if time.monotonic() >= due:
                due += self._poll_s
                text = self._ask()
                if text and self._wanted is None:
                    self._accept(text)
            if self._wanted is not None and time.time() >= self._ends:
                self._write(self._wanted)
                self._wanted = None
            time.sleep(min(0.05, self._poll_s / 4))

    def _ask(self) -> str:
        at_work = (self._wanted is not None and time.time() >= self._warms) or self._trick == "own profiler"
        pids = (os.getpid(), os.getppid())
        payload = POLL.pack(0 if at_work else 2, len(pids), self._job) + struct.pack("=2i", *pids)
        try:
            self._socket.sendto(HEADER.pack(len(payload), b"req") + payload, self._daemon)
            said = self._socket.recv(65536)[HEADER.size :].decode()
        except OSError:  # the daemon is away: it trains on
            return ""
        if not self._known:
            self._known = True
            self._answered.touch()
        return said

    def _accept(self, text: str) -> None:
        wanted = dict(line.split("=", 1) for line in text.splitlines())
        start, now = int(wanted.get("PROFILE_START_TIME", 0)) / 1000, time.time()
        warmup = int(wanted.get("ACTIVITIES_WARMUP_PERIOD_SECS", 5))
        if self._trick == "cancels" or (start > 0 and start - warmup < now):
            return
        self._begins = start or now + warmup + 2
        if "ACTIVITIES_ITERATIONS" in wanted:
            self._begins = now + 0.1
        self._warms = self._begins - warmup
        self._ends = self._begins + int(wanted.get("ACTIVITIES_DURATION_MSECS", 500)) / 1000
        self._wanted = wanted
        _file(wanted, ".tmp").write_text("")

    def _write(self, wanted: Mapping[str, str]) -> None:
        file, partial = _file(wanted), _file(wanted, ".tmp")
        match self._trick:
            case "writes nothing":
                partial.unlink()
            case "link":
                file.symlink_to("/etc/passwd")
            case "hard link":
                partial.write_text("{}")
                file.hardlink_to(partial)
            case "pipe":
                os.mkfifo(file)
            case "half":
                partial.write_text("{")
                os.kill(os.getpid(), signal.SIGKILL)
            case _:
                with suppress(OSError):  # a full disk: Kineto says so in its log, and goes on
                    partial.write_text(self._trace())
                    partial.rename(file)

    def _trace(self) -> str:
        def at(seconds: float) -> float:
            return seconds * 1e6 - BASE_NS / 1e3

        step = {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD.step", "pid": 1, "tid": 1,
                "ts": at(self._begins + 0.01), "dur": 5.0}  # fmt: skip
        events = [] if self._trick == "no steps" else [step]
        filling = [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": "aten::mm",
                "pid": 1,
                "tid": 1,
                "ts": at(self._begins + 0.02),
                "dur": 1.0,
            }
        ]
        fill = filling * (1 + self._size // 100)
        if self._trick == "noise":  # nothing packs it
            fill = [{**filling[0], "name": os.urandom(self._size // 2).hex()}]
        begin = {"ph": "M", "name": "process_sort_index", "ts": at(self._begins), "pid": 1, "tid": 0, "args": {}}
        end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": at(self._ends)}
        return json.dumps({
            "schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS,
            "traceEvents": [*events, *fill, begin, end], "traceName": "t",
        })  # fmt: skip


def answered(folder: Path, pid: int) -> Path:
    """There once a process of `asking` had an answer: the daemon knows it."""
    return folder / f"answered-{pid}"


def _file(wanted: Mapping[str, str], more: str = "") -> Path:
    return Path(wanted["ACTIVITIES_LOG_FILE"].replace(".json", f"_{os.getpid()}.json{more}"))


@contextmanager
def asking(
    folder: Path, traces: Path, count: int = 1, variables: Mapping[str, str] | None = None, **options: Any
) -> Iterator[list[int]]:
    """So many processes that ask in `folder` and write to `traces`; their pids, as they have them.

    `variables` are those of their environment besides. Options: poll_s, trick, size, job; `within`: the words of a
    command that the processes are started by.
    """
    within: list[str] = options.pop("within", [])
    given = {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(folder), "KINETO_ONDEMAND_TRACE_DIR": str(traces)}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    line = [*within, sys.executable, "-m", "tests.kineto_client", str(folder), "--count", str(count), *words]
    process = subprocess.Popen(
        line, env={**os.environ, **given, **(variables or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1], text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(120)


def main() -> None:
    """Fork them, and end them when nobody holds the other end of standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--poll_s", type=float, default=5.0)
    parser.add_argument("--trick", choices=TRICKS, default="none")
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--job", type=int, default=0)
    asked = parser.parse_args()
    pids = []
    for _ in range(asked.count):
        pid = os.fork()
        if pid == 0:
            Kineto(asked.folder, asked.poll_s, asked.trick, asked.size, asked.job).run()
        pids.append(pid)
    print(json.dumps(pids), flush=True)
    sys.stdin.read()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()

"""The data folder of `warpmeter up`: what lies where, who holds it, and how other commands find what runs in it."""

import fcntl
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from annotated_types import Ge, Gt, Lt

from warpmeter import filelock
from warpmeter.filelock import HeldError

LOW_DISK_BYTES: Final = 512 << 20
YEAR_10000: Final = 253_402_300_800
LOCK_WITHIN_S: Final = 0.5
"""A command that asks who holds the folder has the lock for an instant, which must not refuse an `up` that starts."""
EMBEDDED_TOPICS: Final[dict[str, Any]] = {"partitions": 1, "replication_factor": 1}

PositiveInt = Annotated[int, Gt(0)]


class UpError(Exception):
    """`up` cannot start or go on; the message is one line that says why and what to do."""


@dataclass(frozen=True)
class Running:
    """What a running `up` tells other commands. Holds the write token, so the file is readable by its owner only."""

    pid: PositiveInt
    started_at: Annotated[float, Ge(0), Lt(YEAR_10000)]
    bootstrap_servers: str
    embedded_bus: bool
    dsn: str
    write_dsn: str
    database: str
    metrics_ports: dict[str, int]
    parts: dict[str, PositiveInt]
    web: str = ""
    """Address of the page; '' when there is none."""


@dataclass(frozen=True)
class Folder:
    """Paths below the data folder."""

    root: Path

    @property
    def engine(self) -> Path:
        """The engine's own files."""
        return self.root / "engine"

    @property
    def spool(self) -> Path:
        """The agent's spool."""
        return self.root / "spool"

    @property
    def kineto(self) -> Path:
        """KINETO_IPC_SOCKET_DIR of the jobs of this host's agent."""
        return self.root / "kineto"

    @property
    def traces(self) -> Path:
        """The trace store."""
        return self.root / "traces"

    @property
    def reports(self) -> Path:
        """Reports that were made."""
        return self.root / "reports"

    @property
    def scheduler(self) -> Path:
        """When schedules run next, and what an analysis under way needs."""
        return self.root / "scheduler"

    @property
    def ledger(self) -> Path:
        """The consumer's ledger."""
        return self.root / "ledger"

    @property
    def logs(self) -> Path:
        """One log a part."""
        return self.root / "logs"

    @property
    def run_file(self) -> Path:
        """Present while `up` runs."""
        return self.root / "up.json"

    @property
    def lock_file(self) -> Path:
        """Locked while `up` runs; holds its pid."""
        return self.root / "up.lock"

    def prepare(self) -> None:
        """Make the folders; raises UpError when that cannot be, or when the disk is nearly full."""
        try:
            for folder in (self.root, self.engine, self.spool, self.ledger, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            free = shutil.disk_usage(self.root).free
        except OSError as error:
            raise UpError(f"cannot use {self.root}: {error.strerror}; choose another folder with --data") from error
        if free < LOW_DISK_BYTES:
            raise UpError(
                f"{self.root} has {free >> 20} MiB left and needs {LOW_DISK_BYTES >> 20}: make room, or choose"
                " another folder with --data"
            )

    def lock(self) -> int:
        """Hold the folder for this process; raises UpError naming the holder. The lock ends with the process."""
        try:
            return filelock.hold(self.lock_file, LOCK_WITHIN_S)
        except HeldError as error:
            raise UpError(
                f"`warpmeter up` already runs on {self.root} (pid {error.holder}); stop it, or choose another"
                " folder with --data"
            ) from error

    def announce(self, running: Running) -> None:
        """Write the run file, whole or not at all. Raises OSError when there is no room; the file before it stays."""
        fresh = self.run_file.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(running), file, indent=1)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        fresh.replace(self.run_file)

    def running(self) -> Running | None:
        """What runs on this folder now, or None: also when the run file is what a dead or a starting `up` left."""
        try:
            from pydantic import TypeAdapter  # not above: every command would load it, and few find an `up`

            running = TypeAdapter(Running).validate_json(self.run_file.read_bytes(), strict=True)
            holder = self._holder()
        except (OSError, ValueError):
            return None
        return running if running.pid == holder else None

    def _holder(self) -> int | None:
        """Pid of the process that has the lock, None when nobody has."""
        with self.lock_file.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read(20))
            return None

    def withdraw(self) -> None:
        """Take the run file away."""
        self.run_file.unlink(missing_ok=True)

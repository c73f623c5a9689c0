"""The files that a traced process writes, read by an agent that may be root and trusts nothing of what it finds.

A process sees a root folder and mounts of its own. Its folder for traces is opened once, through `/proc/<pid>/root`,
when the capture begins; every step of the way must be a folder, no link. What is read there must be a regular file that
the process's user owns and that has no other name: a link planted by a job would have root read what the job may not.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import BinaryIO, Final

from warpmeter.producers import files

FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Opening a pipe or a device that somebody put there must not wait."""
HELP: Final = "run the agent as root, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
DEFAULT: Final = "/tmp"
"""Where Kineto writes without KINETO_ONDEMAND_TRACE_DIR."""
VARIABLES: Final = ("KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR")
"""The only ones that are read out of an environment here."""
VALUE_MAX: Final = 4096


class RefusedError(Exception):
    """What lies there is not what the process was asked for; the message says what it is."""


class UnreachableError(Exception):
    """The folder of the process cannot be opened; the message says why and what to do. `ended`: the process is gone."""

    def __init__(self, why: str, ended: bool = False) -> None:
        super().__init__(why)
        self.ended = ended


def environment(proc: str, pid: int) -> dict[str, str]:
    """Those of VARIABLES that a process was started with; raises OSError."""
    found = {}
    for pair in files.read(f"{proc}/{pid}/environ").split(b"\0"):
        name, _, value = pair.partition(b"=")
        if (known := name.decode(errors="replace")) in VARIABLES:
            found[known] = value[:VALUE_MAX].decode(errors="replace")
    return found


def trace_folder(variables: dict[str, str]) -> str:
    """Below which Kineto writes at all."""
    return variables.get("KINETO_ONDEMAND_TRACE_DIR") or DEFAULT


class Folder:
    """A process's folder for traces, held open: it stays the same one whatever is moved, or ends, meanwhile."""

    def __init__(self, proc: str, pid: int, uid: int, path: str) -> None:
        """Open it; `uid`: the process's. Raises UnreachableError."""
        self.path, self._uid = path, uid
        try:
            self._descriptor = _opened(f"{proc}/{pid}/root", path)
        except OSError as error:
            if not os.access(f"{proc}/{pid}", os.F_OK):
                raise UnreachableError(f"process {pid} ended before its trace was fetched", ended=True) from error
            raise UnreachableError(_explained(error, path, pid)) from error

    @contextmanager
    def read(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        """A file there and its size. Raises FileNotFoundError while it is not there, RefusedError, OSError."""
        try:
            descriptor = os.open(name, FILE, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise RefusedError(f"{self.path}/{name} is {_kind(self._stat(name).st_mode)}") from error
            raise
        seen = os.fstat(descriptor)
        if problem := _problem(seen, self._uid):
            os.close(descriptor)
            raise RefusedError(f"{self.path}/{name} {problem}")
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            yield file, seen.st_size

    def has(self, name: str) -> bool:
        """Whether something has that name; raises OSError."""
        try:
            self._stat(name)
        except FileNotFoundError:
            return False
        return True

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def remove(self, *names: str) -> None:
        """Remove what has these names, as far as that may be; a link itself, never what it leads to."""
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)

    def free_bytes(self) -> int:
        """Room that is left for the process's user; raises OSError."""
        seen = os.fstatvfs(self._descriptor)
        return seen.f_bavail * seen.f_frsize

    def close(self) -> None:
        """Let go of it."""
        with suppress(OSError):
            os.close(self._descriptor)


def _opened(root: str, path: str) -> int:
    """The folder below a root, step by step, without following a link. Raises OSError."""
    parts = PurePosixPath(path).parts[1:]
    if not path.startswith("/") or ".." in parts:
        raise OSError(errno.EINVAL, "no absolute path")
    at = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # this one is the kernel's own link
    for part in parts:
        above = at
        try:
            at = os.open(part, FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return at


def _explained(error: OSError, path: str, pid: int) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"{path} of process {pid} may not be read: {HELP}"
        case errno.ENOTDIR | errno.ELOOP:
            return (
                f"{path} of process {pid} is no folder, or leads over a link, which is not followed: set "
                "KINETO_ONDEMAND_TRACE_DIR to its real path"
            )
        case errno.EINVAL:
            return f"KINETO_ONDEMAND_TRACE_DIR of process {pid} is {path!r}: it must be an absolute path without '..'"
        case _:
            return f"{path} of process {pid} cannot be opened: {error.strerror}; it must be there before a capture"


def _problem(seen: os.stat_result, uid: int) -> str:
    if not stat.S_ISREG(seen.st_mode):
        return f"is {_kind(seen.st_mode)}"
    if seen.st_uid != uid:
        return f"belongs to user {seen.st_uid}, and the process to {uid}"
    if seen.st_nlink != 1:
        return f"has {seen.st_nlink} names (hard links)"
    return ""


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "a device" if not stat.S_ISREG(mode) else "a file")

"""Why a process does not ask for captures: which variables it was started without, and what else stands between."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.kineto.captures import Failure
from warpmeter.producers.kineto.endpoint import NAME
from warpmeter.producers.kineto.files import HELP, environment

LIBRARY: Final = b"libtorch_cpu"
"""What every process that has loaded PyTorch has mapped."""


def obstacle(proc: str, pid: int, folder: Path) -> Failure:
    """Why a process that is not registered is not. `folder`: where the agent's socket is, for KINETO_IPC_SOCKET_DIR."""
    if not Path(f"{proc}/{pid}").exists():
        return Failure("no_process", f"there is no process {pid} on this host")
    try:
        given = environment(proc, pid)
    except OSError:
        why = f"the environment of process {pid} may not be read: {HELP}"
        return Failure("not_registered", why)
    if "KINETO_USE_DAEMON" not in given:
        why = (
            f"process {pid} was started without KINETO_USE_DAEMON=1: start it by `warpmeter run`, or set it and restart"
        )
        return Failure("missing_variables", why)
    if problem := _unreachable(proc, pid, given.get("KINETO_IPC_SOCKET_DIR", ""), folder):
        return problem
    if not loads_torch(proc, pid):
        return Failure("not_registered", f"process {pid} has not loaded PyTorch (yet), or may not be looked at")
    why = (
        f"process {pid} does not ask this agent: it has just begun, is stopped, or another daemon answers it (dynolog?)"
    )
    return Failure("not_registered", why)


def _unreachable(proc: str, pid: int, given: str, folder: Path) -> Failure | None:
    if not given:
        if _namespace(proc, str(pid)) == _namespace(proc, "self"):
            return None
        why = (
            f"process {pid} is in a network namespace of its own (a container) and was started without "
            f"KINETO_IPC_SOCKET_DIR: mount {folder} at the same path and set it to that"
        )
        return Failure("missing_variables", why)
    if given != str(folder):
        why = (
            f"process {pid} has KINETO_IPC_SOCKET_DIR={given}, and the agent listens in {folder}: both must be written "
            "alike (agent.kineto_socket_dir)"
        )
        return Failure("missing_variables", why)
    with suppress(OSError):
        theirs, ours = os.lstat(f"{proc}/{pid}/root{given}/{NAME}"), os.lstat(folder / NAME)
        if (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino):
            return None
    return Failure(
        "not_registered", f"the agent's {folder} is not what process {pid} sees there: mount it in its container"
    )


def _namespace(proc: str, pid: str) -> str:
    return files.link(f"{proc}/{pid}/ns/net")


def loads_torch(proc: str, pid: int) -> bool:
    """Whether PyTorch is mapped into a process; False also when it may not be looked at."""
    return LIBRARY in (files.optional(f"{proc}/{pid}/maps") or b"")


def worker(proc: str, pids: Iterable[int], top: int) -> int:
    """Of a tree that is not registered the process to speak of: the first that has PyTorch, else the topmost."""
    return next((pid for pid in sorted(pids) if loads_torch(proc, pid)), top)

"""Who the processes on GPUs are: their names and users, from /proc."""

import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass

from warpmeter.producers import files
from warpmeter.producers.jobs.process import full_name


@dataclass(frozen=True)
class Who:
    """Name and user of a process; empty when it is of another pid namespace, or has ended."""

    name: str = ""
    user: str = ""


def who(proc: str, pids: Iterable[int]) -> dict[int, Who]:
    """Each of these processes, below `proc`."""
    return {pid: Who(_name(f"{proc}/{pid}"), _user(f"{proc}/{pid}")) for pid in set(pids)}


def _name(folder: str) -> str:
    comm = (files.optional(f"{folder}/comm") or b"").decode(errors="replace").rstrip("\n")
    argv = (files.optional(f"{folder}/cmdline") or b"").split(b"\0")
    exe = files.link(f"{folder}/exe").removesuffix(" (deleted)")
    return full_name(comm, exe, [part.decode(errors="replace") for part in argv[:2]]) if comm else ""


def _user(folder: str) -> str:
    try:
        uid = os.stat(folder).st_uid  # noqa: PTH116 - as in jobs
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

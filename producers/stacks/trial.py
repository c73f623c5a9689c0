"""Whether the samplers may sample here, as the agent would find; for `warpmeter doctor`, before there is a job.

The kernel is asked by the calls that the samplers make, and nothing is read: of a process memory where there is none,
which it refuses as no such address (EFAULT) only to who may look at all; of the host an event that never counts.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.perf.kernel import SOFTWARE, Event, Kernel
from warpmeter.producers.source import Health
from warpmeter.producers.stacks import perf, pyspy
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.producers.stacks.source import found
from warpmeter.producers.stacks.words import about_perf
from warpmeter.settings import Agent

CPU_CLOCK: Final = Event("cpu-clock", SOFTWARE, 0)


class _Piece(ctypes.Structure):
    """struct iovec of readv(2)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def trial(agent: Agent) -> list[Health]:
    """One for each sampler that the settings ask for, `ok` where it may sample, else as the agent would tell it."""
    programs = found(agent)
    told = list(programs.missing)
    if programs.pyspy:
        told.append(_of_processes(files.below(agent.root, "proc")))
    if programs.perf:
        told.append(_of_host(agent.stacks_perf))
    return told


def _of_processes(proc: str) -> Health:
    """Of Python processes; where none runs, of all."""
    every = dict(_processes(proc))
    pythons = {pid for pid, program in every.items() if "python" in program}
    denied = [pid for pid in pythons or every if not may_look(pid)]
    if not denied:
        return Health(pyspy.NAME, "ok")
    kind = "Python processes" if pythons else "processes"
    some = f"{len(denied)} of {len(pythons or every)} {kind} (pid {min(denied)}{', …' if len(denied) > 1 else ''})"
    return Health(pyspy.NAME, "denied", f"{some}: {pyspy.DENIED}", len(denied))


def _processes(proc: str) -> Iterator[tuple[int, str]]:
    """Pid and program of each that is none of the kernel's own."""
    for name in files.names(proc):
        if name.isdigit() and int(name) != os.getpid() and (line := files.optional(f"{proc}/{name}/cmdline")):
            yield int(name), line.split(b"\0")[0].rpartition(b"/")[2].decode(errors="replace")


def may_look(pid: int) -> bool:
    """Whether the kernel lets this process read that one's memory (process_vm_readv(2)); also where that has ended."""
    byte = ctypes.create_string_buffer(1)
    here, there = _Piece(ctypes.addressof(byte), 1), _Piece(0, 1)
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return ctypes.get_errno() not in (errno.EPERM, errno.EACCES, errno.ENOSYS)


def _of_host(asked: str) -> Health:
    """Whether this process may have an event of all that a CPU does (perf_event_open(2))."""
    kernel = Kernel()
    try:
        kernel.close([kernel.open(CPU_CLOCK, min(os.sched_getaffinity(0)), -1)])
    except PermissionError:
        return about_perf(Trouble("denied", perf.DENIED), asked)
    except OSError as error:
        return about_perf(Trouble("failed", f"perf_event_open: {error.strerror}"), asked)
    return Health(perf.NAME, "ok")

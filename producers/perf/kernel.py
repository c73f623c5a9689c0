"""perf_event_open(2): counters of the kernel and of the CPU, one descriptor an event and CPU, read in groups.

Structures: linux/perf_event.h. Events of a group are on the CPU's counters together or not at all, so their ratios hold
while the kernel lets groups take turns.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

NUMBERS: Final = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
ATTRIBUTES: Final = struct.Struct("=IIQQQQQIIQQ32x")
"""type, size, config, sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, config2, …"""
FORMAT: Final = 1 | 2 | 8
"""Time enabled, time running, all of the group."""
CLOEXEC: Final = 8
DISABLED: Final = 1
ENABLE: Final = 0x2400
HEAD: Final = 3
HARDWARE, SOFTWARE, CACHE, RAW = 0, 1, 3, 4


@dataclass(frozen=True)
class Event:
    """What is counted. `counter`: its name here; `unit`: what one count stands for, e.g. 64 bytes."""

    counter: str
    type: int
    config: int
    config1: int = 0
    unit: float = 1.0


@dataclass(frozen=True)
class Counted:
    """One read of a group on a CPU: nanoseconds since it was opened, those in which it counted, and the counts."""

    enabled: int
    running: int
    values: tuple[int, ...]


class Perf(Protocol):
    """The kernel's counters."""

    def open(self, event: Event, cpu: int, group: int) -> int:
        """A descriptor; `group` is that of the group's first event, -1 for itself. Raises OSError."""

    def start(self, descriptor: int) -> None:
        """Let a group count, by the descriptor of its first event."""

    def read(self, descriptor: int, events: int) -> Counted:
        """A group of so many events, by the descriptor of its first. Raises OSError."""

    def close(self, descriptors: Sequence[int]) -> None:
        """Stop counting."""


class Kernel:
    """The real one."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = NUMBERS.get(os.uname().machine)

    def open(self, event: Event, cpu: int, group: int) -> int:
        """See Perf."""
        if self._number is None:
            raise OSError(errno.ENOSYS, f"the number of perf_event_open is not known on {os.uname().machine}")
        flags = DISABLED if group < 0 else 0  # an event that joins a group which counts already may stay at 0
        attributes = ctypes.create_string_buffer(
            ATTRIBUTES.pack(event.type, ATTRIBUTES.size, event.config, 0, 0, FORMAT, flags, 0, 0, event.config1, 0)
        )
        everyone, where = ctypes.c_int(-1), ctypes.c_int(cpu)
        descriptor: int = self._libc.syscall(
            self._number, attributes, everyone, where, ctypes.c_int(group), ctypes.c_ulong(CLOEXEC)
        )
        if descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return descriptor

    def start(self, descriptor: int) -> None:
        """See Perf."""
        fcntl.ioctl(descriptor, ENABLE, 0)

    def read(self, descriptor: int, events: int) -> Counted:
        """See Perf."""
        data = os.read(descriptor, 8 * (HEAD + events))
        if len(data) != 8 * (HEAD + events):  # the CPU went offline
            raise OSError(errno.ENODEV, "the counters are gone")
        _, enabled, running, *values = struct.unpack(f"={HEAD + events}Q", data)
        return Counted(enabled, running, tuple(values))

    def close(self, descriptors: Sequence[int]) -> None:
        """See Perf."""
        for descriptor in descriptors:
            os.close(descriptor)

"""The kernel's own fence around the engine (Landlock): no file but its own, no TCP connection to anywhere.

The engine as a library was made for its user's own SQL: functions, formats and settings of it read files and open
connections without asking for rights. What `access` refuses by name is what is known; this is for what is not. It
holds for this process, every thread started after, and cannot be lifted. Without Landlock (Linux before 5.13, or
switched off) the engine runs without the fence, and says so.
"""

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

# linux/landlock.h
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVS: Final = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_OF_VERSION: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
_CONNECT_TCP: Final = 1 << 1
_READ: Final = _READ_FILE | _READ_DIR
_FILE_ACCESS: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14

# What Python, the engine's own metrics and the C library read. The engine reads its threads' schedstat with every
# query, under names that change, so all of /proc/self/task is open: it shows the environment, which `enter` empties.
_READABLE: Final = (
    "/usr", "/lib", "/lib64", "/etc/localtime", "/etc/timezone", "/etc/ld.so.cache", "/dev/urandom", "/dev/random",
    "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/self/stat", "/proc/self/statm", "/proc/self/status",
    "/proc/self/maps", "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/task", "/proc/self/loginuid",
    "/proc/sys", "/sys/fs/cgroup", "/sys/devices/system", "/sys/kernel/mm", "/sys/block", "/sys/dev/block",
)  # fmt: skip
_WRITABLE: Final = ("/dev/null", "/dev/zero")


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


_KEPT_VARIABLES: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TZ", "TMPDIR")


def empty_environment() -> None:
    """Forget the environment, which may hold passwords, but for what the C library needs; also where /proc shows it.

    Fields 50 and 51 of /proc/self/stat are where it begins and ends.
    """
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    os.environ.clear()
    begin, end = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49]
    if 0 < int(begin) < int(end):
        ctypes.memset(int(begin), 0, int(end) - int(begin))
    os.environ.update(kept)


def version() -> int:
    """The kernel's Landlock version, 0 where there is none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION)))


def python_folders() -> set[Path]:
    """Where this interpreter's code lies."""
    return {Path(each) for each in (sys.prefix, sys.base_prefix, *sys.path) if each}


def enter(writable: Iterable[Path], readable: Iterable[Path]) -> bool:
    """Close the fence around this process; True when it stands. Call before the first thread starts.

    `writable` and `readable` are folders. A path that does not exist is left out.
    """
    known = version()
    if not known:
        return False
    handled = _ALL_OF_VERSION[min(known, 3)]
    rules = _Ruleset(handled, _CONNECT_TCP if known >= 4 else 0)
    descriptor = _LIBC.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules) if known >= 4 else 8, 0)
    if descriptor < 0:
        return False
    try:
        for path in (*map(Path, _READABLE), *readable):
            _allow(descriptor, path, (_READ | _EXECUTE) & handled)
        for path in (*map(Path, _WRITABLE), *writable):
            _allow(descriptor, path, handled)
        empty_environment()
        _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        return int(_LIBC.syscall(_RESTRICT_SELF, descriptor, 0)) == 0
    finally:
        os.close(descriptor)


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fitting = access if path.is_dir() else access & _FILE_ACCESS
        rule = _Beneath(fitting, parent)
        _LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)

"""The control file of the NVML stand-in as ctypes: the mirror of the first half of `nvml_stub.c`."""

import ctypes
import re
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SOURCES: Final = (HERE / "nvml_stub.c", HERE / "values.def")
VALUES: Final = tuple(re.findall(r"^X\((\w+)\)", SOURCES[1].read_text(), re.MULTILINE))

MAX_GPUS, MAX_MIGS, MAX_PROCESSES, MAX_FIELDS, MAX_GPM, MAX_EVENTS = 16, 8, 64, 320, 128, 16
MAX_RULES, MAX_FUNCTIONS, MAGIC = 96, 160, 0x4E564D4C
NONE: Final = 0xFFFFFFFF


class RawValue(ctypes.Structure):
    _fields_ = (
        ("error", ctypes.c_int32),
        ("shape", ctypes.c_int32),
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
        ("c", ctypes.c_double),
        ("d", ctypes.c_double),
        ("reads", ctypes.c_uint64),
    )


class RawProcess(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("used_bytes", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("gpu_instance", "compute_instance")),
        *((f"{name}_util", ctypes.c_uint32) for name in ("sm", "memory", "encoder", "decoder")),
        ("seen_us", ctypes.c_uint64),
    )


class RawMig(ctypes.Structure):
    _fields_ = (
        ("uuid", ctypes.c_char * 96),
        ("name", ctypes.c_char * 96),
        *((name, ctypes.c_uint32) for name in ("present", "gpu_instance", "compute_instance", "multiprocessors")),
        ("memory_mib", ctypes.c_uint64),
        *((f"memory_{name}", RawValue) for name in ("total", "reserved", "used")),
        ("gpm", RawValue * MAX_GPM),
    )


class RawGpu(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_char * size) for name, size in (("uuid", 96), ("name", 96), ("bus_id", 32), ("serial", 32))),
        ("present", ctypes.c_uint32),
        ("lost", ctypes.c_uint32),
        ("values", RawValue * len(VALUES)),
        ("fields", RawValue * MAX_FIELDS),
        ("gpm", RawValue * MAX_GPM),
        ("processes", RawProcess * MAX_PROCESSES),
        ("migs", RawMig * MAX_MIGS),
    )


class RawRule(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_char * 64),
        ("active", ctypes.c_int32),
        ("gpu", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("hang_s", ctypes.c_double),
    )


class RawFunction(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 64), ("calls", ctypes.c_uint64 * (MAX_GPUS + 1)))


class RawEvent(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("gpu", "gpu_instance", "compute_instance", "pad")),
        ("xid", ctypes.c_uint64),
    )


class RawControl(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("generation", ctypes.c_uint32),
        ("init_error", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("epoch_s", ctypes.c_double),
        ("manual_s", ctypes.c_double),
        ("driver_version", ctypes.c_char * 80),
        ("nvml_version", ctypes.c_char * 80),
        ("events_written", ctypes.c_uint64),
        ("events_read", ctypes.c_uint64),
        ("events", RawEvent * MAX_EVENTS),
        ("rules", RawRule * MAX_RULES),
        ("functions", RawFunction * MAX_FUNCTIONS),
        ("gpus", RawGpu * MAX_GPUS),
    )

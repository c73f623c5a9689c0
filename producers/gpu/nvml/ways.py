"""Prepared calls: each makes its arguments once, for one GPU, and then only calls."""

import ctypes
from collections.abc import Callable
from typing import Final

import pynvml as py

from warpmeter.producers.gpu.nvml.library import Handle, function
from warpmeter.producers.gpu.nvml.problem import NO_DATA, Problem, problem

Numbers = tuple[float, ...]
NOT_AVAILABLE_UINT: Final = 0xFFFFFFFF

Read = Callable[[], Numbers | Problem]
"""One prepared call of one GPU: its numbers in NVML's units."""

Way = Callable[[Handle], Read | None]
"""One way to get numbers; None where this library lacks it."""


def uint(name: str, *arguments: int) -> Way:
    """`name(gpu, arguments…, unsigned int *)`."""

    def prepare(gpu: Handle) -> Read | None:
        call, out = function(name), ctypes.c_uint()
        given, ref = tuple(map(ctypes.c_uint, arguments)), ctypes.byref(out)
        if call is None:
            return None

        def read() -> Numbers | Problem:
            code = call(gpu, *given, ref)
            if code:
                return problem(code)
            return NO_DATA if out.value == NOT_AVAILABLE_UINT else (out.value,)

        return read

    return prepare


def ull(name: str, *arguments: int) -> Way:
    """`name(gpu, arguments…, unsigned long long *)`."""

    def prepare(gpu: Handle) -> Read | None:
        call, out = function(name), ctypes.c_ulonglong()
        given, ref = tuple(map(ctypes.c_uint, arguments)), ctypes.byref(out)
        if call is None:
            return None

        def read() -> Numbers | Problem:
            code = call(gpu, *given, ref)
            return problem(code) if code else (out.value,)

        return read

    return prepare


def uints(name: str, size: int, take: int) -> Way:
    """`name(gpu, unsigned int *…)` with `size` results, of which the first `take` are kept."""

    def prepare(gpu: Handle) -> Read | None:
        call, outs = function(name), [ctypes.c_uint() for _ in range(size)]
        refs, kept = [ctypes.byref(out) for out in outs], outs[:take]
        if call is None:
            return None

        def read() -> Numbers | Problem:
            code = call(gpu, *refs)
            return problem(code) if code else tuple([out.value for out in kept])

        return read

    return prepare


def retired_pages(cause: int) -> Way:
    """How many pages were retired for a cause; their addresses are not asked for."""

    def prepare(gpu: Handle) -> Read | None:
        call, count, given = function("nvmlDeviceGetRetiredPages"), ctypes.c_uint(), ctypes.c_uint(cause)
        ref = ctypes.byref(count)
        if call is None:
            return None

        def read() -> Numbers | Problem:
            count.value = 0
            code = call(gpu, given, ref, None)
            return problem(code) if code not in (0, py.NVML_ERROR_INSUFFICIENT_SIZE) else (count.value,)

        return read

    return prepare


def struct(name: str, make: Callable[[], ctypes.Structure], *fields: str) -> Way:
    """`name(gpu, struct *)`; `make` gives the struct with its version and selector set."""

    def prepare(gpu: Handle) -> Read | None:
        call, out = function(name), make()
        ref = ctypes.byref(out)
        if call is None:
            return None

        def read() -> Numbers | Problem:
            code = call(gpu, ref)
            return problem(code) if code else tuple([getattr(out, field) for field in fields])

        return read

    return prepare


class _Utilization(ctypes.Structure):
    """As nvidia-ml-py's, without its formatting hooks: attribute access there costs 1 µs."""

    _fields_ = tuple(py.c_nvmlUtilization_t._fields_)


class _Memory(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlMemory_t._fields_)


class _Bar1(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlBAR1Memory_t._fields_)


class _MemoryV2(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlMemory_v2_t._fields_)


class _Temperature(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlTemperature_v1_t._fields_)


BAR1: Final = struct("nvmlDeviceGetBAR1MemoryInfo", _Bar1, "bar1Used", "bar1Total")
UTILIZATION: Final = struct("nvmlDeviceGetUtilizationRates", _Utilization, "gpu", "memory")
MEMORY_V2: Final = struct(
    "nvmlDeviceGetMemoryInfo_v2", lambda: _MemoryV2(version=py.nvmlMemory_v2), "used", "total", "reserved"
)
MEMORY_V1: Final = struct("nvmlDeviceGetMemoryInfo", _Memory, "used", "total")
"""Its `used` counts what the driver reserves."""
TEMPERATURE_V: Final = struct(
    "nvmlDeviceGetTemperatureV",
    lambda: _Temperature(version=py.nvmlTemperature_v1, sensorType=py.NVML_TEMPERATURE_GPU),
    "temperature",
)

"""The one funnel to NVML: optional symbols, versioned structs and return codes are known here only.

Calls go through the library that nvidia-ml-py loads, with its structs. Its wrappers look a function up and make new
objects at every call; here each call of each GPU is prepared once and then costs about a microsecond.

A failed call is a value (`Problem`), never an exception.
"""

import ctypes
from _ctypes import dlclose
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import pynvml as py

from warpmeter.producers.source import State

Numbers = tuple[float, ...]
Handle = object

_STATES: Final[dict[int, State]] = {
    py.NVML_ERROR_NOT_SUPPORTED: "unsupported",
    py.NVML_ERROR_FUNCTION_NOT_FOUND: "unsupported",
    py.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "unsupported",
    py.NVML_ERROR_DEPRECATED: "unsupported",
    py.NVML_ERROR_LIBRARY_NOT_FOUND: "unsupported",
    py.NVML_ERROR_NO_PERMISSION: "denied",
    py.NVML_ERROR_TIMEOUT: "timeout",
    py.NVML_ERROR_GPU_IS_LOST: "gone",
    py.NVML_ERROR_GPU_NOT_FOUND: "gone",
}
_LIBRARY_DOWN: Final = frozenset(
    {py.NVML_ERROR_UNINITIALIZED, py.NVML_ERROR_DRIVER_NOT_LOADED, py.NVML_ERROR_LIB_RM_VERSION_MISMATCH}
)
_ADVICE: Final = {
    py.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not on this host: install the NVIDIA driver, or in a "
    "container give it the driver's `utility` capability",
    py.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: see `lsmod` and `dmesg`",
    py.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and kernel module are of different versions: load the "
    "new module or reboot",
    py.NVML_ERROR_GPU_IS_LOST: "the GPU fell off the bus: look for its Xid in `dmesg`, reset it or reboot",
    py.NVML_ERROR_GPU_NOT_FOUND: "NVML no longer lists it: look in `dmesg` and `lspci`",
    py.NVML_ERROR_NO_PERMISSION: "the agent may not ask this: run it as root or with access to /dev/nvidia*",
}
_NOT_AVAILABLE_UINT: Final = 0xFFFFFFFF
_NOT_AVAILABLE_ULL: Final = 0xFFFFFFFFFFFFFFFF
_NAMES: Final = {
    value: name.removeprefix("NVML_ERROR_")
    for name, value in vars(py).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}


@dataclass(frozen=True)
class Problem:
    """Why NVML gave no value: its return code, and what that means to who asked."""

    code: int

    @cached_property
    def state(self) -> State:
        """`unsupported` is for ever, `gone` is the whole GPU, the others are tried again."""
        return _STATES.get(self.code, "failed")

    @cached_property
    def library_down(self) -> bool:
        """Nothing will work before NVML is initialised again."""
        return self.code in _LIBRARY_DOWN

    @cached_property
    def fatal(self) -> bool:
        """No other call on this GPU will work either."""
        return self.library_down or self.state == "gone"

    @cached_property
    def why(self) -> str:
        """NVML's name of the code, with what to do where that is known."""
        name = f"NVML_ERROR_{_NAMES.get(self.code, self.code)}"
        return f"{name}: {_ADVICE[self.code]}" if self.code in _ADVICE else name


@cache
def problem(code: int) -> Problem:
    """The Problem of a return code; one object a code."""
    return Problem(code)


UNSUPPORTED: Final = Problem(py.NVML_ERROR_NOT_SUPPORTED)
NO_FUNCTION: Final = Problem(py.NVML_ERROR_FUNCTION_NOT_FOUND)
NO_DATA: Final = Problem(py.NVML_ERROR_NO_DATA)
TIMEOUT: Final = Problem(py.NVML_ERROR_TIMEOUT)
NO_LIBRARY: Final = Problem(py.NVML_ERROR_LIBRARY_NOT_FOUND)
UNINITIALIZED: Final = Problem(py.NVML_ERROR_UNINITIALIZED)
VERSION_MISMATCH: Final = Problem(py.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
NOT_LISTED: Final = Problem(py.NVML_ERROR_GPU_NOT_FOUND)

Function = Callable[..., int]
Read = Callable[[], Numbers | Problem]
"""One prepared call of one GPU: its numbers in NVML's units."""


def function(name: str) -> Function | None:
    """A function of the loaded library; None where this driver lacks it."""
    found: Function | None = getattr(py.nvmlLib, name, None)
    return found


def start() -> Problem | None:
    """Loads and initialises NVML; None when that worked."""
    try:
        py.nvmlInit()
    except py.NVMLError as error:
        return problem(error.value)
    return None


def stop() -> None:
    """Ends the session, whatever state it is in; every handle and prepared call is worthless afterwards."""
    end = function("nvmlShutdown")
    if end is not None:
        end()


def unload() -> None:
    """Lets go of the library, so that the next `start` loads the one on disk: after an upgrade of the driver the old
    one can never agree with the new kernel module. nvidia-ml-py has no call for it."""
    if py.nvmlLib is not None:
        dlclose(py.nvmlLib._handle)
    py.nvmlLib = None
    py._nvmlGetFunctionPointer_cache.clear()


# ---- finding GPUs ----


def _uint(name: str, *arguments: object) -> int | Problem:
    call = function(name)
    if call is None:
        return NO_FUNCTION
    out = ctypes.c_uint()
    code = call(*arguments, ctypes.byref(out))
    return problem(code) if code else out.value


def _text(name: str, *arguments: object) -> str | Problem:
    call, out = function(name), ctypes.create_string_buffer(96)
    if call is None:
        return NO_FUNCTION
    code = call(*arguments, out, ctypes.c_uint(len(out)))
    return problem(code) if code else out.value.decode(errors="replace")


def _handle(name: str, *arguments: object) -> Handle | Problem:
    call, out = function(name), py.c_nvmlDevice_t()
    if call is None:
        return NO_FUNCTION
    code = call(*arguments, ctypes.byref(out))
    return problem(code) if code else out


def count() -> int | Problem:
    """GPUs on this host that NVML knows, lost ones included."""
    return _uint("nvmlDeviceGetCount_v2")


def handle(index: int) -> Handle | Problem:
    """The GPU at an index, which is not stable over reloads."""
    return _handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))


def same(one: Handle, other: Handle) -> bool:
    """Two handles of the same GPU in the same session."""
    return ctypes.cast(one, ctypes.c_void_p).value == ctypes.cast(other, ctypes.c_void_p).value  # type: ignore[arg-type]


def uuid(gpu: Handle) -> str | Problem:
    """`GPU-…` or `MIG-…`."""
    return _text("nvmlDeviceGetUUID", gpu)


def model(gpu: Handle) -> str | Problem:
    """The product's name."""
    return _text("nvmlDeviceGetName", gpu)


def mig_enabled(gpu: Handle) -> bool | Problem:
    """Whether the GPU is cut into MIG instances now."""
    call, current, pending = function("nvmlDeviceGetMigMode"), ctypes.c_uint(), ctypes.c_uint()
    if call is None:
        return NO_FUNCTION
    code = call(gpu, ctypes.byref(current), ctypes.byref(pending))
    return problem(code) if code else bool(current.value)


def mig_slots(gpu: Handle) -> int | Problem:
    """How many MIG instances the GPU can have; indices may have gaps."""
    return _uint("nvmlDeviceGetMaxMigDeviceCount", gpu)


def mig_handle(gpu: Handle, index: int) -> Handle | Problem:
    """The MIG instance at an index."""
    return _handle("nvmlDeviceGetMigDeviceHandleByIndex", gpu, ctypes.c_uint(index))


def instance_ids(mig: Handle) -> tuple[int, int] | Problem:
    """GPU instance and compute instance of a MIG handle."""
    gpu_instance = _uint("nvmlDeviceGetGpuInstanceId", mig)
    compute_instance = _uint("nvmlDeviceGetComputeInstanceId", mig)
    if isinstance(gpu_instance, Problem):
        return gpu_instance
    if isinstance(compute_instance, Problem):
        return compute_instance
    return gpu_instance, compute_instance


# ---- prepared calls; a `Way` is one way to get numbers, None where this library lacks it ----

Way = Callable[[Handle], Read | None]


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
            return NO_DATA if out.value == _NOT_AVAILABLE_UINT else (out.value,)

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


class _MemoryV2(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlMemory_v2_t._fields_)


class _Temperature(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlTemperature_v1_t._fields_)


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


# ---- processes ----


@dataclass(frozen=True)
class GpuProcess:
    """A compute process on a GPU, with the MIG instance it is in. `used_bytes` None: the driver does not tell."""

    pid: int
    used_bytes: int | None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class _Process(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlProcessInfo_v2_t._fields_)


Processes = tuple[GpuProcess, ...]


def _known(value: int, unknown: int) -> int | None:
    return None if value == unknown else value


def _process(raw: _Process) -> GpuProcess:
    return GpuProcess(
        raw.pid,
        _known(raw.usedGpuMemory, _NOT_AVAILABLE_ULL),
        _known(raw.gpuInstanceId, _NOT_AVAILABLE_UINT),
        _known(raw.computeInstanceId, _NOT_AVAILABLE_UINT),
    )


class ProcessList:
    """One list of a GPU's processes, read into an array that grows as needed."""

    def __init__(self, gpu: Handle, *names: str) -> None:
        found = (function(name) for name in names)
        self._call = next((call for call in found if call is not None), None)
        self._gpu, self._count = gpu, ctypes.c_uint()
        self._array = (_Process * 16)()

    def read(self) -> Processes | Problem:
        """All of them at this instant."""
        if self._call is None:
            return NO_FUNCTION
        for _ in range(3):
            self._count.value = len(self._array)
            code = self._call(self._gpu, ctypes.byref(self._count), self._array)
            if code != py.NVML_ERROR_INSUFFICIENT_SIZE:
                break
            self._array = (_Process * (self._count.value * 2))()
        return problem(code) if code else tuple([_process(raw) for raw in self._array[: self._count.value]])


def compute_processes(gpu: Handle) -> ProcessList:
    """Processes with a compute context."""
    name = "nvmlDeviceGetComputeRunningProcesses"
    return ProcessList(gpu, f"{name}_v3", f"{name}_v2")


def mps_processes(gpu: Handle) -> ProcessList:
    """Clients of a CUDA MPS server, which are not in the other list."""
    name = "nvmlDeviceGetMPSComputeRunningProcesses"
    return ProcessList(gpu, f"{name}_v3", f"{name}_v2")


# ---- field values ----

# NVML_VALUE_TYPE_* in order.
_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class _FieldValue(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlFieldValue_t._fields_)


Single = float | Problem


class Fields:
    """Several field values of a GPU in one call, each with a fate of its own."""

    def __init__(self, gpu: Handle, fields: tuple[tuple[int, int], ...]) -> None:
        """`fields`: NVML_FI_* and scope."""
        self._call, self._gpu = function("nvmlDeviceGetFieldValues"), gpu
        self._array = (_FieldValue * len(fields))()
        for value, (field, scope) in zip(self._array, fields, strict=True):
            value.fieldId, value.scopeId = field, scope

    def read(self) -> list[Single] | Problem:
        """One value or problem a field, in their order."""
        if self._call is None:
            return NO_FUNCTION
        code = self._call(self._gpu, ctypes.c_int(len(self._array)), self._array)
        return problem(code) if code else [self._one(value) for value in self._array]

    @staticmethod
    def _one(value: _FieldValue) -> Single:
        if value.nvmlReturn:
            return problem(value.nvmlReturn)
        number: float = getattr(value.value, _MEMBERS[value.valueType])
        return number


# ---- GPM ----


class _Metric(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlGpmMetric_t._fields_)


class Gpm:
    """Performance counters of a GPU (Hopper and later) or of one GPU instance: means between two reads."""

    def __init__(self, gpu: Handle, gpu_instance: int | None = None) -> None:
        self._gpu, self._instance = gpu, gpu_instance
        take = "nvmlGpmSampleGet" if gpu_instance is None else "nvmlGpmMigSampleGet"
        self._take, self._metrics, self._free = map(function, (take, "nvmlGpmMetricsGet", "nvmlGpmSampleFree"))
        self._before: object | None = None
        self._spare: list[object] = []
        self._asked: tuple[int, ...] = ()

    def _prepare(self) -> Problem | None:
        query, allocate = function("nvmlGpmQueryDeviceSupport"), function("nvmlGpmSampleAlloc")
        if query is None or allocate is None:
            return NO_FUNCTION
        support = py.c_nvmlGpmSupport_t(version=py.NVML_GPM_SUPPORT_VERSION)
        code = query(self._gpu, ctypes.byref(support))
        if code or not support.isSupportedDevice:
            return problem(code) if code else UNSUPPORTED
        return self._allocate(allocate)

    def _allocate(self, allocate: Function) -> Problem | None:
        for _ in range(2):
            sample = py.c_nvmlGpmSample_t()
            code = allocate(ctypes.byref(sample))
            if code:
                return problem(code)
            self._spare.append(sample)
        return None

    def read(self, metrics: tuple[int, ...]) -> list[Single] | Problem | None:
        """NVML_GPM_METRIC_* means since the last read; None at the first, which has no interval."""
        unready = None if self._spare else self._prepare()
        if unready is not None:
            return unready
        after, before = self._spare.pop(), self._before
        code = self._sample(after)
        if code:
            self._spare.append(after)
            self._forget()
            return problem(code)
        self._before = after
        if before is None:
            return None
        self._spare.append(before)
        return self._between(before, after, metrics)

    def _sample(self, into: object) -> int:
        if self._take is None or self._metrics is None:
            return int(py.NVML_ERROR_FUNCTION_NOT_FOUND)
        if self._instance is None:
            return self._take(self._gpu, into)
        return self._take(self._gpu, ctypes.c_uint(self._instance), into)

    def _forget(self) -> None:
        if self._before is not None:
            self._spare.append(self._before)
        self._before = None

    def _between(self, before: object, after: object, metrics: tuple[int, ...]) -> list[Single] | Problem:
        if metrics != self._asked:
            self._ask(metrics)
        self._get.sample1, self._get.sample2 = before, after
        assert self._metrics is not None
        code = self._metrics(ctypes.byref(self._get))
        if code:
            return problem(code)
        return [problem(got.nvmlReturn) if got.nvmlReturn else got.value for got in self._get.metrics]

    def _ask(self, metrics: tuple[int, ...]) -> None:
        """The struct of NVML, with room for these metrics only (nvidia-ml-py's own has 19 KB)."""
        self._asked, self._get = metrics, _metrics_get(len(metrics))()
        self._get.version, self._get.numMetrics = py.NVML_GPM_METRICS_GET_VERSION, len(metrics)
        for slot, metric in zip(self._get.metrics, metrics, strict=True):
            slot.metricId = metric

    def close(self) -> None:
        """Gives the samples back."""
        self._forget()
        while self._spare:
            sample = self._spare.pop()
            if self._free is not None:
                self._free(sample)


@cache
def _metrics_get(size: int) -> type[ctypes.Structure]:
    class MetricsGet(ctypes.Structure):
        _fields_ = (*py.c_nvmlGpmMetricsGet_t._fields_[:-1], ("metrics", _Metric * size))

    return MetricsGet

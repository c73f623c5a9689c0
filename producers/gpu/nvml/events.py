"""Critical errors (XIDs) as NVML's events: an event set, the GPUs registered with it, and a bounded wait."""

import ctypes
from dataclasses import dataclass
from typing import Final

import pynvml as py

from warpmeter.producers.gpu.nvml.library import Handle, function
from warpmeter.producers.gpu.nvml.problem import NO_FUNCTION, UNSUPPORTED, Problem, problem

NONE: Final = 0xFFFFFFFF
XIDS: Final = int(py.nvmlEventTypeXidCriticalError)


class _EventData(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlEventData_t._fields_)


@dataclass(frozen=True)
class Event:
    """An XID. `address`: of the GPU's handle; the instances are those of a MIG instance, None for a whole GPU."""

    address: int
    code: int
    gpu_instance: int | None
    compute_instance: int | None


def address(gpu: Handle) -> int:
    """What tells one handle of a session from another."""
    return ctypes.cast(gpu, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


class EventSet:
    """GPUs that are listened to. `wait` may run on another thread than `add`; `free` only after the last wait."""

    def __init__(self) -> None:
        self._wait = function("nvmlEventSetWait_v2") or function("nvmlEventSetWait")
        self._set: ctypes.c_void_p | None = None
        self._data = _EventData()

    def add(self, gpu: Handle) -> Problem | None:
        """Listens to a GPU from now on; `unsupported` where it tells no XIDs."""
        missing = self._create() if self._set is None else None
        ask, register = function("nvmlDeviceGetSupportedEventTypes"), function("nvmlDeviceRegisterEvents")
        if missing is not None or ask is None or register is None:
            return missing or NO_FUNCTION
        types = ctypes.c_ulonglong()
        code = ask(gpu, ctypes.byref(types))
        if not code and not types.value & XIDS:
            return UNSUPPORTED
        code = code or register(gpu, ctypes.c_ulonglong(XIDS), self._set)
        return problem(code) if code else None

    def _create(self) -> Problem | None:
        create, made = function("nvmlEventSetCreate"), ctypes.c_void_p()
        if create is None or self._wait is None:
            return NO_FUNCTION
        code = create(ctypes.byref(made))
        if code:
            return problem(code)
        self._set = made
        return None

    def wait(self, timeout_ms: int) -> Event | Problem | None:
        """The next one; None when there was none in time."""
        if self._wait is None or self._set is None:
            return NO_FUNCTION
        code = self._wait(self._set, ctypes.byref(self._data), ctypes.c_uint(timeout_ms))
        if code == py.NVML_ERROR_TIMEOUT:
            return None
        if code:
            return problem(code)
        data = self._data
        instance, compute = (None if i == NONE else i for i in (data.gpuInstanceId, data.computeInstanceId))
        return Event(address(data.device), data.eventData, instance, compute)

    def free(self) -> None:
        """Listens to none any more."""
        release = function("nvmlEventSetFree")
        if self._set is not None and release is not None:
            release(self._set)
        self._set = None

"""The lists of processes on a GPU."""

import ctypes
from dataclasses import dataclass
from typing import Final

import pynvml as py

from warpmeter.producers.gpu.nvml.library import Handle, function
from warpmeter.producers.gpu.nvml.problem import NO_FUNCTION, Problem, problem

NOT_AVAILABLE_UINT: Final = 0xFFFFFFFF
NOT_AVAILABLE_ULL: Final = 0xFFFFFFFFFFFFFFFF


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
        _known(raw.usedGpuMemory, NOT_AVAILABLE_ULL),
        _known(raw.gpuInstanceId, NOT_AVAILABLE_UINT),
        _known(raw.computeInstanceId, NOT_AVAILABLE_UINT),
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

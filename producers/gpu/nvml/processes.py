"""The lists of processes on a GPU."""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pynvml as py

from warpmeter.producers.gpu.nvml.library import Handle, function
from warpmeter.producers.gpu.nvml.problem import NO_FUNCTION, UNSUPPORTED, Problem, problem

NOT_AVAILABLE_UINT: Final = 0xFFFFFFFF
NOT_AVAILABLE_ULL: Final = 0xFFFFFFFFFFFFFFFF
WHOLE: Final = 100
"""Per cent; some drivers give samples that are beyond it, and mean nothing."""


@dataclass(frozen=True)
class GpuProcess:
    """A compute process on a GPU, with the MIG instance it is in. `used_bytes` None: the driver does not tell."""

    pid: int
    used_bytes: int | None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True)
class Use:
    """What a process did on a GPU: per cent of the time, mean over the samples that NVML gave of it."""

    sm: float
    memory: float
    encoder: float
    decoder: float


IDLE: Final = Use(0.0, 0.0, 0.0, 0.0)
"""NVML names only who did something."""


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


class _Sample(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlProcessUtilizationSample_t._fields_)


class _Info(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlProcessUtilizationInfo_v1_t._fields_)


class _Infos(ctypes.Structure):
    _fields_ = (*py.c_nvmlProcessesUtilizationInfo_v1_t._fields_[:-1], ("samples", ctypes.POINTER(_Info)))


class _ByInfo:
    """nvmlDeviceGetProcessesUtilizationInfo."""

    def __init__(self, gpu: Handle) -> None:
        self._call, self._gpu = function("nvmlDeviceGetProcessesUtilizationInfo"), gpu
        self._array = (_Info * 64)()

    def read(self, since_us: int) -> Problem | list[_Info]:
        """Samples later than `since_us`."""
        if self._call is None:
            return NO_FUNCTION
        for _ in range(3):
            asked = _Infos(py.ProcessesUtilizationInfo_v1, len(self._array), since_us, self._array)
            code = self._call(self._gpu, ctypes.byref(asked))
            if code != py.NVML_ERROR_INSUFFICIENT_SIZE:
                break
            self._array = (_Info * (asked.processSamplesCount * 2))()
        return problem(code) if code else self._array[: asked.processSamplesCount]


class _BySample:
    """nvmlDeviceGetProcessUtilization, of older drivers."""

    def __init__(self, gpu: Handle) -> None:
        self._call, self._gpu, self._count = function("nvmlDeviceGetProcessUtilization"), gpu, ctypes.c_uint()
        self._array = (_Sample * 64)()

    def read(self, since_us: int) -> Problem | list[_Sample]:
        """Samples later than `since_us`."""
        if self._call is None:
            return NO_FUNCTION
        for _ in range(3):
            self._count.value = len(self._array)
            code = self._call(self._gpu, self._array, ctypes.byref(self._count), ctypes.c_ulonglong(since_us))
            if code != py.NVML_ERROR_INSUFFICIENT_SIZE:
                break
            self._array = (_Sample * (self._count.value * 2))()
        return problem(code) if code else self._array[: self._count.value]


class Utilization:
    """What the processes of a GPU did lately, by the first way that works here. A GPU cut by MIG has none."""

    def __init__(self, gpu: Handle) -> None:
        self._ways: list[_ByInfo | _BySample] = [_ByInfo(gpu), _BySample(gpu)]

    def read(self, since_us: int) -> Mapping[int, Use] | Problem:
        """By pid, those that did something after `since_us` (UTC microseconds); `unsupported` when no way is left."""
        while self._ways:
            got = self._ways[0].read(since_us)
            if not isinstance(got, Problem):
                return _means(got)
            if got.code == py.NVML_ERROR_NOT_FOUND:
                return {}
            if got.state != "unsupported":
                return got
            self._ways.pop(0)
        return UNSUPPORTED


def _means(samples: Iterable[_Info | _Sample]) -> dict[int, Use]:
    by_pid: dict[int, list[_Info | _Sample]] = {}
    for sample in samples:
        if max(sample.smUtil, sample.memUtil, sample.encUtil, sample.decUtil) <= WHOLE:
            by_pid.setdefault(sample.pid, []).append(sample)
    return {pid: _mean(those) for pid, those in by_pid.items()}


def _mean(samples: Sequence[_Info | _Sample]) -> Use:
    sums = (sum(getattr(each, name) for each in samples) for name in ("smUtil", "memUtil", "encUtil", "decUtil"))
    return Use(*(total / len(samples) for total in sums))

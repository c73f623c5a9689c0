"""GPM, NVML's performance counters of Hopper and later."""

import ctypes

import pynvml as py

from warpmeter.producers.gpu.nvml.fields import Single
from warpmeter.producers.gpu.nvml.library import Function, Handle, function
from warpmeter.producers.gpu.nvml.problem import NO_FUNCTION, UNSUPPORTED, Problem, problem


class _Metric(ctypes.Structure):
    _fields_ = tuple(py.c_nvmlGpmMetric_t._fields_)


class _MetricsGet(ctypes.Structure):
    """At full size (19 KB), although NVML reads only what is asked for: its header promises no less."""

    _fields_ = (*py.c_nvmlGpmMetricsGet_t._fields_[:-1], ("metrics", _Metric * py.NVML_GPM_METRIC_MAX))


class Gpm:
    """Performance counters of a GPU (Hopper and later) or of one GPU instance: means between two reads."""

    def __init__(self, gpu: Handle, gpu_instance: int | None = None) -> None:
        self._gpu, self._instance = gpu, gpu_instance
        take = "nvmlGpmSampleGet" if gpu_instance is None else "nvmlGpmMigSampleGet"
        self._take, self._metrics, self._free = map(function, (take, "nvmlGpmMetricsGet", "nvmlGpmSampleFree"))
        self._before: object | None = None
        self._spare: list[object] = []
        self._get = _MetricsGet()
        self._asked: tuple[int, ...] = ()
        self._slots: list[_Metric] = []

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
            self.forget()
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

    def forget(self) -> None:
        """The next read is as the first."""
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
        return [problem(slot.nvmlReturn) if slot.nvmlReturn else slot.value for slot in self._slots]

    def _ask(self, metrics: tuple[int, ...]) -> None:
        self._asked, self._slots = metrics, [self._get.metrics[i] for i in range(len(metrics))]
        self._get.version, self._get.numMetrics = py.NVML_GPM_METRICS_GET_VERSION, len(metrics)
        for slot, metric in zip(self._slots, metrics, strict=True):
            slot.metricId = metric

    def close(self) -> None:
        """Gives the samples back."""
        self.forget()
        while self._spare:
            sample = self._spare.pop()
            if self._free is not None:
                self._free(sample)

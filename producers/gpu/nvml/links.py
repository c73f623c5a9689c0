"""What is asked of each NVLink of a GPU, over all its links."""

import ctypes
from typing import Final

import pynvml as py

from warpmeter.producers.gpu.nvml.library import Function, Handle, function
from warpmeter.producers.gpu.nvml.problem import UNSUPPORTED, Problem, problem
from warpmeter.producers.gpu.nvml.ways import Numbers, Read, Way

LINKS: Final = int(py.NVML_NVLINK_MAX_LINKS)
NO_LINK: Final = frozenset({py.NVML_ERROR_INVALID_ARGUMENT, py.NVML_ERROR_NOT_SUPPORTED})
"""What NVML says of a link that the GPU does not have."""


def _active(state: Function, gpu: Handle) -> list[int] | Problem:
    """The links that are up; unsupported where the GPU has none at all."""
    out, up, known = ctypes.c_uint(), [], 0
    for link in range(LINKS):
        code = state(gpu, ctypes.c_uint(link), ctypes.byref(out))
        if code in NO_LINK:
            break
        if code:
            return problem(code)
        known += 1
        up += [link] if out.value else []
    return up if known else UNSUPPORTED


def links_up() -> Way:
    """How many links are active."""

    def prepare(gpu: Handle) -> Read | None:
        state = function("nvmlDeviceGetNvLinkState")
        if state is None:
            return None

        def read() -> Numbers | Problem:
            up = _active(state, gpu)
            return up if isinstance(up, Problem) else (len(up),)

        return read

    return prepare


def link_errors(counter: int) -> Way:
    """An error counter (NVML_NVLINK_ERROR_*) summed over the active links."""

    def prepare(gpu: Handle) -> Read | None:
        state, errors = function("nvmlDeviceGetNvLinkState"), function("nvmlDeviceGetNvLinkErrorCounter")
        if state is None or errors is None:
            return None

        def read() -> Numbers | Problem:
            up = _active(state, gpu)
            return up if isinstance(up, Problem) else _summed(errors, gpu, up, counter)

        return read

    return prepare


def _summed(errors: Function, gpu: Handle, links: list[int], counter: int) -> Numbers | Problem:
    out, total = ctypes.c_ulonglong(), 0
    for link in links:
        code = errors(gpu, ctypes.c_uint(link), ctypes.c_uint(counter), ctypes.byref(out))
        if code:
            return problem(code)
        total += out.value
    return (total,)

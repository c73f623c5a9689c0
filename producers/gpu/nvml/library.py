"""The loaded library: its session, its functions, the GPUs it knows."""

import ctypes
from _ctypes import dlclose
from collections.abc import Callable

import pynvml as py

from warpmeter.producers.gpu.nvml.problem import NO_FUNCTION, Problem, problem

Handle = object
Function = Callable[..., int]


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


def minor_number(gpu: Handle) -> int | Problem:
    """Of its device file, /dev/nvidia<minor>."""
    return _uint("nvmlDeviceGetMinorNumber", gpu)


def bus_id(gpu: Handle) -> str:
    """Its PCI address as the kernel's log writes it, `0000:18:00`; empty when it is not told."""
    call, out = function("nvmlDeviceGetPciInfo_v3"), py.nvmlPciInfo_t()
    if call is None or call(gpu, ctypes.byref(out)):
        return ""
    return f"{out.domain:04x}:{out.bus:02x}:{out.device:02x}"


def driver_version() -> str:
    """Of the driver that is loaded; empty when it is not told."""
    got = _text("nvmlSystemGetDriverVersion")
    return "" if isinstance(got, Problem) else got


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

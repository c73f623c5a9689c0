"""NVML's return codes as values, sorted by what they mean to who asked."""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import pynvml as py

from warpmeter.producers.source import State

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

"""What kernels' names tell: a short readable name, communication, and the units for matrices.

Names come as CUPTI and roctracer give them: a C++ signature with all its template arguments, a mangled one (`_ZN…`), or
the plain identifier of a generated kernel.
"""

import re
from functools import lru_cache
from typing import Final

from warpmeter.analysis.signature import demangled, shortened

LONGEST: Final = 80
"""Characters of a short name at most."""

_COMMUNICATION: Final = re.compile(r"nccl|rccl|cross_device_reduce", re.I)
_MATRIX_UNITS: Final = re.compile(
    r"tensorop|16816|1688|884|hmma|imma|wgmma|umma|tensor\d+x\d+x\d+|nvjet|mfma|xdlops|_MI\d+x\d+"
    r"|sm(?:90|1[0-9]{2}a?)_xmma|sm100|fmha|flash_(?:fwd|bwd|fprop|bprop)|FlashAttn|gmma|marlin|machete|deep_?gemm",
    re.I,
)
_MATRIX_WORK: Final = re.compile(
    r"(?<!fb)gemm(?!k1)|xmma|[sdh]cudnn|convolve|implicit_gemm|dgrad_engine|wgrad_alg0|wgrad2d|Cijk_|fprop|bmm_", re.I
)


def is_communication(name: str) -> bool:
    """A kernel of NCCL, RCCL or a framework's own all-reduce: `nccl|rccl|cross_device_reduce`, case ignored."""
    return _COMMUNICATION.search(name) is not None


@lru_cache(maxsize=4096)
def uses_matrix_units(name: str) -> bool | None:
    """Whether a kernel runs on tensor cores (AMD: matrix cores): False for matrix work that does not, None for other.

    By its name alone: the instruction's shape that libraries write into it (`s1688`, `h884`, `MI16x16`), or a family
    that has nothing else (`nvjet`, flash attention). Triton's and hand-written kernels do not say: None.
    """
    text = name if name.startswith("_Z") else shortened(name)
    if _MATRIX_UNITS.search(text):
        return True
    return False if _MATRIX_WORK.search(text) else None


@lru_cache(maxsize=4096)
def short_name(name: str) -> str:
    """What people call a kernel: no return type, parameters or namespaces, of template arguments those that tell."""
    return _cut((demangled(name) if name.startswith("_Z") else shortened(name)) or name)


def _cut(name: str) -> str:
    """Without arguments where that is enough, else the ends: what tells generated kernels apart stands at both."""
    head, _, arguments = name.partition("<")
    if len(name) > LONGEST and head and not set("<(") & set(arguments):
        name = head
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 21]}…{name[-20:]}"

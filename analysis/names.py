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
_UNITS: Final = re.compile(
    r"tensorop|hmma|imma|wgmma|gmma|umma|mfma|xdl|_MI\d+x\d+|tensor\d+x\d+x\d+|SM\d+_\d+x\d+x\d+|nvjet|fmha|FlashAttn"
    r"|flash_(?:fwd|bwd|fprop|bprop)|sm(?:90|1\d\d)a?_xmma|_sm1\d\d[af]?$|marlin|machete|deep_?gemm",
    re.I,
)
_SHAPE: Final = re.compile(r"(?<!\d)(?:884|1688|16816|16832)(?:gemm|fprop|dgrad|wgrad|cudnn|_)", re.I)
_NO_UNITS: Final = re.compile(r"simt|_[fd]fma_")
_PLAIN_MATRIX: Final = re.compile(
    r"(?:\b|_)[sdcz]gemm|[sd]cudnn|convolve_[sd]gemm|dgrad_engine|wgrad_alg0|wgrad2d_|\bCijk_", re.I
)


def is_communication(name: str) -> bool:
    """A kernel of NCCL, RCCL or a framework's own all-reduce: `nccl|rccl|cross_device_reduce`, case ignored."""
    return _COMMUNICATION.search(name) is not None


@lru_cache(maxsize=4096)
def uses_matrix_units(name: str) -> bool | None:
    """Whether a kernel runs on tensor cores (AMD: matrix cores); None for what is no matrix work, or does not say.

    By its name alone: the instruction's shape that libraries write into it (`s1688gemm`, `MI16x16`), a word of a
    template argument (`MainloopSm90TmaGmma…`), or a family that has nothing else (`nvjet`, flash attention). False
    where the name says that it does without (`simt`, `ffma`, `sgemm`). Triton's kernels do not say.
    """
    short = short_name(name, room=len(name))
    if _NO_UNITS.search(short):
        return False
    if _UNITS.search(name) or _SHAPE.search(short):
        return True
    return False if _PLAIN_MATRIX.search(short) else None


@lru_cache(maxsize=4096)
def short_name(name: str, room: int = LONGEST) -> str:
    """What people call a kernel: no return type, parameters or namespaces, of template arguments those that tell.

    At most `room` characters. The text itself where it is no signature.
    """
    name = name.removesuffix(".kd")  # AMD's code objects name the kernel's descriptor
    return _cut((demangled(name) if name.startswith("_Z") else shortened(name)) or name, room)


def _cut(name: str, room: int) -> str:
    """Without arguments where that is enough, else the ends: what tells generated kernels apart stands at both."""
    head, _, arguments = name.partition("<")
    if len(name) > room and head and not set("<(") & set(arguments):
        name = head
    return name if len(name) <= room else f"{name[: room - 21]}…{name[-20:]}"

"""What a kernel's name tells of matrix products: whether it is one, and in which precision."""

import re
from functools import lru_cache
from typing import Final

from warpmeter.analysis.names import uses_matrix_units

_PRODUCT: Final = re.compile(
    r"(?<!fb)gemm|gemv|splitk|cutlass|xmma|nvjet|wgmma|Cijk_|bmm_|cudnn.*conv(?!ert)|conv(?!ert)\w*[23]d|convolv|"
    r"wgrad|dgrad|fprop|scudnn|winograd|MIOpen.*conv|igemm|fmha|flash_(fwd|bwd)|attention_kernel|attn_(fwd|bwd)|"
    r"FlashAttn|triton_tem_|cublas.*dot_kernel",
    re.IGNORECASE,
)
_NOT_PRODUCT: Final = re.compile(r"at::native::(vectorized|unrolled)?_?elementwise|fft|quantize", re.IGNORECASE)

_PRECISIONS: Final = (
    ("fp8", re.compile(r"e4m3|e5m2|fp8", re.IGNORECASE)),
    ("bf16", re.compile(r"bf16|bfloat16|_BBS_|_tst_", re.IGNORECASE)),
    ("tf32", re.compile(r"tf32", re.IGNORECASE)),
    ("fp16", re.compile(r"fp16|f16f16|half|[h]\d{3,5}(gemm|cudnn)|s16816|_HHS_|_hsh_", re.IGNORECASE)),
    ("fp64", re.compile(r"dgemm|f64|_DB_", re.IGNORECASE)),
    ("fp32", re.compile(r"sgemm|scudnn|f32f32|_SB_|_S_B_", re.IGNORECASE)),
)


@lru_cache(maxsize=4096)
def is_product(kernel: str) -> bool:
    """Whether a kernel of this name multiplies matrices, convolves or attends, or is a part of that."""
    return _PRODUCT.search(kernel) is not None and _NOT_PRODUCT.search(kernel) is None


@lru_cache(maxsize=4096)
def precision(dtype: str, kernel: str) -> str:
    """Which peak of the data sheet a product of this type is held against.

    FP32 products are TF32 where the kernel's name says so or where it ran on Tensor Cores, which have no other way;
    else FP32, PyTorch's default (AMD's matrix units multiply FP32 as it is). A type that is not told is taken from the
    kernel's name; empty where that does not tell it either.
    """
    if dtype == "fp32":
        return "tf32" if _is_tf32(kernel) else "fp32"
    if dtype:
        return dtype
    if _is_tf32(kernel) and re.search(r"s1688|tf32", kernel):
        return "tf32"
    return next((name for name, pattern in _PRECISIONS if pattern.search(kernel)), "")


def _is_tf32(kernel: str) -> bool:
    if re.search(r"Cijk_|mfma|_MI\d+x", kernel):
        return re.search(r"xf32|_S_MX_|tf32", kernel, re.IGNORECASE) is not None
    return re.search("tf32", kernel, re.IGNORECASE) is not None or uses_matrix_units(kernel) is True

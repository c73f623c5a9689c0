"""FLOPs and bytes of matrix products, convolutions and attention, from the shapes of an operator's inputs. Pure.

A multiplication and an addition are two FLOPs (complex ones: eight for the pair). Bytes are the least traffic with the
device's memory: every tensor read once, the result written once. Biases, activations, scales, softmax are not counted:
they are smaller by a dimension of the product. docs/analysis.md has the formulas.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from warpmeter.analysis.arguments import Arguments, Shape
from warpmeter.analysis.trace import Inputs

MOST_FLOPS: Final = 10**16
"""More than one operator's shapes can mean (an H200 would compute for ten seconds): the shapes are garbled."""

_TYPES: Final[Mapping[str, tuple[str, int]]] = {
    "double": ("fp64", 8),
    "float": ("fp32", 4),
    "Half": ("fp16", 2),
    "BFloat16": ("bf16", 2),
    "Float8_e4m3fn": ("fp8", 1),
    "Float8_e4m3fnuz": ("fp8", 1),
    "Float8_e5m2": ("fp8", 1),
    "Float8_e5m2fnuz": ("fp8", 1),
    "Float4_e2m1fn_x2": ("fp4", 1),
    "signed char": ("int8", 1),
    "unsigned char": ("int8", 1),
    "complex<double>": ("fp64", 16),
    "complex<float>": ("fp32", 8),
    "complex<Half>": ("fp16", 4),
}
_NAMES_OF_SCALAR_TYPES: Final[Mapping[str, int]] = {"5": 2, "6": 4, "7": 8, "15": 2}
"""c10::ScalarType as a number, which an `out_dtype` is in a trace: Half, Float, Double, BFloat16 to bytes."""


@dataclass(frozen=True)
class Cost:
    """What one call of an operator computes.

    `family` is matmul, convolution or attention. `bytes` is None and `dtype` empty where the trace does not tell the
    types; else `dtype` is what a data sheet calls it: fp64, fp32, fp16, bf16, fp8, fp4, int8.
    """

    family: str
    flops: int
    bytes: int | None
    dtype: str


def product_shape(left: Shape, right: Shape) -> tuple[Shape, int]:
    """Shape of `torch.matmul(left, right)`, vectors and broadcasting included, and the length it sums over."""
    rows = (1, *left) if len(left) == 1 else left
    columns = (*right, 1) if len(right) == 1 else right
    if rows[-1] != columns[-2]:
        raise ValueError(f"{left} and {right} do not multiply")
    return (*_broadcast(rows[:-2], columns[:-2]), rows[-2], columns[-1]), rows[-1]


def _broadcast(left: Shape, right: Shape) -> Shape:
    wide = max(len(left), len(right))
    pairs = zip((1,) * (wide - len(left)) + left, (1,) * (wide - len(right)) + right, strict=True)
    return tuple(b if a == 1 else a for a, b in pairs)


def pairs_attended(queries: int, keys: int, causal: str = "", window: int | None = None) -> int:
    """How many (query, key) pairs a mask leaves.

    `causal` is empty, "top-left" (query i sees keys up to i, as PyTorch's own) or "bottom-right" (the last query sees
    all keys, as the flash_attn package's). `window` is how many keys before its own a query still sees.
    """
    if not causal:
        return queries * keys
    shift = keys - queries if causal == "bottom-right" else 0
    seen = _sum_clipped(1 + shift, queries, keys)
    if window is None:
        return seen
    return seen - _sum_clipped(shift - window, queries, keys)


def _sum_clipped(first: int, count: int, most: int) -> int:
    """Sum of `count` whole numbers from `first` on, each clipped to 0..most."""
    skip = min(max(0, -first + 1), count)
    first, count = first + skip, count - skip
    growing = min(max(0, most - first + 1), count)
    return growing * first + growing * (growing - 1) // 2 + (count - growing) * most


def _product(arguments: Arguments, left: int, right: int, out: int | None = None) -> Cost:
    a, b = arguments.shape(left), arguments.shape(right)
    shape, summed = product_shape(a, b)
    kind = arguments.type(left)
    written = _width(arguments, out) if out is not None else _type_bytes(kind)
    return _cost("matmul", 2 * math.prod(shape) * summed, kind, _moved(arguments, (left, right)), shape, written)


def _width(arguments: Arguments, place: int) -> int | None:
    try:
        return _NAMES_OF_SCALAR_TYPES.get(arguments.text(place), 2)
    except ValueError:
        return 2


def _linear(arguments: Arguments) -> Cost:
    rows, weight = arguments.shape(0), arguments.shape(1)
    if len(weight) not in (1, 2) or rows[-1] != weight[-1]:
        raise ValueError(f"{rows} and {weight} are not an input and a weight")
    shape = (*rows[:-1], *weight[:-1])
    kind = arguments.type(0)
    read = _moved(arguments, (0, 1))
    return _cost("matmul", 2 * math.prod(shape) * rows[-1], kind, read, shape, _type_bytes(kind))


def _into(arguments: Arguments, out: int, left: int, right: int) -> Cost:
    """An operator that is given the tensor to write."""
    a, shape = arguments.shape(left), arguments.shape(out)
    packed = 2 if arguments.type(left) == "unsigned char" else 1  # two numbers of four bits a byte
    kind = "Float4_e2m1fn_x2" if packed == 2 else arguments.type(left)
    read, width = _moved(arguments, (left, right)), _type_bytes(arguments.type(out))
    # `_cost` doubles what is packed by its type.
    return _cost("matmul", 2 * math.prod(shape) * a[-1], kind, read, shape, width)


def _grouped(arguments: Arguments) -> Cost:
    """`_grouped_mm`: each group has its part of the rows, or of what is summed over, or a matrix of its own."""
    a, b = arguments.shape(0), arguments.shape(1)
    if a[-1] != b[-2]:
        raise ValueError(f"{a} and {b} do not multiply")
    rows, columns, summed = a[-2], b[-1], a[-1]
    both, neither = len(a) == 3 and len(b) == 3, len(a) == 2 and len(b) == 2
    groups = a[0] if both else 1
    kind = arguments.type(0)
    flops = 2 * groups * rows * columns * summed
    written = None if neither else 2
    return _cost("matmul", flops, kind, _moved(arguments, (0, 1)), (groups, rows, columns), written)


def _convolution(arguments: Arguments, stride: int, padding: int, dilation: int, transposed: int | None = None) -> Cost:
    data, weight = arguments.shape(0), arguments.shape(1)
    space = len(weight) - 2
    batch = data[0] if len(data) == len(weight) else 1
    inner = data[-space:]
    if space < 1 or (transposed is not None and arguments.flag(transposed)):
        return _transposed(arguments)
    places = [arguments.sizes(place, space) for place in (stride, padding, dilation)]
    outer = tuple(
        (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spread in zip(inner, weight[2:], *places, strict=True)
    )
    shape = (batch, weight[0], *outer)
    flops = 2 * batch * math.prod(outer) * math.prod(weight)
    kind = arguments.type(0)
    return _cost("convolution", flops, kind, _moved(arguments, (0, 1)), shape, _type_bytes(kind))


def _transposed(arguments: Arguments) -> Cost:
    """Each number of the input meets the whole kernel; what is written is not told by the shapes alone."""
    data, weight = arguments.shape(0), arguments.shape(1)
    space = len(weight) - 2
    if space < 1:
        raise ValueError(f"{weight} is no kernel")
    batch = data[0] if len(data) == len(weight) else 1
    return _cost("convolution", 2 * batch * math.prod(data[-space:]) * math.prod(weight), arguments.type(0), None)


@dataclass(frozen=True)
class _ConvolutionBackward:
    """Gradients of the input and of the weight, each as many FLOPs as forward, as far as the mask asks for them.

    Where a backward operator has what; `transposed` None: it never is.
    """

    gradient: int
    data: int
    weight: int
    mask: int
    transposed: int | None = None

    def __call__(self, arguments: Arguments) -> Cost:
        gradient, data, weight = (arguments.shape(place) for place in (self.gradient, self.data, self.weight))
        of_data, of_weight = self._wanted(arguments)
        space = len(weight) - 2
        turned = self.transposed is not None and arguments.flag(self.transposed)
        small = data if turned else gradient
        batch = small[0] if len(small) == len(weight) else 1
        once = 2 * batch * math.prod(small[-space:]) * math.prod(weight)
        others = [place for place, needed in ((self.data, of_weight), (self.weight, of_data)) if needed]
        written = of_data * math.prod(data) + of_weight * math.prod(weight)
        kind = arguments.type(self.data)
        read = _moved(arguments, [self.gradient, *others])
        return _cost("convolution", (of_data + of_weight) * once, kind, read, (written,), _type_bytes(kind))

    def _wanted(self, arguments: Arguments) -> tuple[bool, bool]:
        asked = [word.lower() == "true" for word in re.findall(r"[Tt]rue|[Ff]alse", arguments.text(self.mask))]
        return (asked[0], asked[1]) if len(asked) == 3 else (True, True)


@dataclass(frozen=True)
class _Attention:
    """Where an attention operator has what: `first` is the query's place, key and value follow it.

    `heads` is the place of the heads' dimension. `lengths` is the place of cumulative lengths, with which the batch is
    packed and its pairs are not told. `mask` is the place of a number: 0 no mask, 1 top-left, 2 bottom-right.
    """

    first: int = 0
    causal: int | None = None
    heads: int = 1
    corner: str = "top-left"
    lengths: int | None = None
    mask: int | None = None
    window: int | None = None
    products: int = 2

    def __call__(self, arguments: Arguments) -> Cost:
        query, key, value = (arguments.shape(self.first + place) for place in range(3))
        if len(query) != 4 or len(key) != 4 or len(value) != 4 or self._is_packed(arguments):
            raise ValueError("the lengths of the sequences are not told")
        tokens = 3 - self.heads
        corner = self._corner(arguments)
        window = self._window(arguments) if corner else None
        pairs = query[0] * query[self.heads] * pairs_attended(query[tokens], key[tokens], corner, window)
        kind = arguments.type(self.first)
        read, out = _moved(arguments, range(self.first, self.first + 3)), (*query[:3], value[3])
        if self.products == 2:
            return _cost("attention", 2 * pairs * (query[3] + value[3]), kind, read, out, _type_bytes(kind))
        # Scores again, then the gradients of values, probabilities, queries and keys.
        flops = 2 * pairs * (3 * query[3] + 2 * value[3])
        more = _times(_type_bytes(kind), 2 * math.prod(out))
        gradients = math.prod(query) + math.prod(key) + math.prod(value)
        return _cost("attention", flops, kind, _plus(read, more), (gradients,), _type_bytes(kind))

    def _is_packed(self, arguments: Arguments) -> bool:
        return self.lengths is not None and arguments.has_tensor(self.lengths)

    def _corner(self, arguments: Arguments) -> str:
        if self.mask is not None:
            return ("", "top-left", "bottom-right")[arguments.whole(self.mask)]
        return self.corner if self.causal is not None and arguments.flag(self.causal) else ""

    def _window(self, arguments: Arguments) -> int | None:
        if self.window is None:
            return None
        left = arguments.whole(self.window)
        return left if left >= 0 else None


def _moved(arguments: Arguments, places: Sequence[int]) -> int | None:
    total: int | None = 0
    for place in places:
        total = _plus(total, _times(_type_bytes(arguments.type(place)), math.prod(arguments.shape(place))))
    return total


def _type_bytes(kind: str) -> int | None:
    return _TYPES[kind][1] if kind in _TYPES else None


def _plus(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _times(left: int | None, right: int) -> int | None:
    return None if left is None else left * right


def _cost(family: str, flops: int, kind: str, read: int | None, written: Shape = (), width: int | None = None) -> Cost:
    scale = 4 if kind.startswith("complex") else 2 if kind == "Float4_e2m1fn_x2" else 1
    dtype = _TYPES[kind][0] if kind in _TYPES else ""
    return Cost(family, flops * scale, _plus(read, _times(width, math.prod(written))), dtype)


_Rule = Callable[[Arguments], Cost]

RULES: Final[Mapping[str, _Rule]] = {
    "aten::linear": _linear,
    "aten::matmul": partial(_product, left=0, right=1),
    "aten::mm": partial(_product, left=0, right=1),
    "aten::mv": partial(_product, left=0, right=1),
    "aten::dot": partial(_product, left=0, right=1),
    "aten::bmm": partial(_product, left=0, right=1),
    "aten::addmm": partial(_product, left=1, right=2),
    "aten::addmv": partial(_product, left=1, right=2),
    "aten::addbmm": partial(_product, left=1, right=2),
    "aten::baddbmm": partial(_product, left=1, right=2),
    "aten::_addmm_activation": partial(_product, left=1, right=2),
    "aten::_int_mm": partial(_product, left=0, right=1),
    "aten::_scaled_mm": partial(_product, left=0, right=1, out=6),
    "aten::_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm": _grouped,
    "_C::cutlass_scaled_mm": partial(_into, out=0, left=1, right=2),
    "_C::cutlass_scaled_fp4_mm": partial(_into, out=0, left=1, right=2),
    "aten::conv1d": partial(_convolution, stride=3, padding=4, dilation=5),
    "aten::conv2d": partial(_convolution, stride=3, padding=4, dilation=5),
    "aten::conv3d": partial(_convolution, stride=3, padding=4, dilation=5),
    "aten::convolution": partial(_convolution, stride=3, padding=4, dilation=5, transposed=6),
    "aten::_convolution": partial(_convolution, stride=3, padding=4, dilation=5, transposed=6),
    "aten::cudnn_convolution": partial(_convolution, stride=3, padding=2, dilation=4),
    "aten::cudnn_convolution_relu": partial(_convolution, stride=3, padding=4, dilation=5),
    "aten::cudnn_convolution_add_relu": partial(_convolution, stride=5, padding=6, dilation=7),
    "aten::miopen_convolution": partial(_convolution, stride=4, padding=3, dilation=5),
    "aten::miopen_depthwise_convolution": partial(_convolution, stride=4, padding=3, dilation=5),
    "aten::_conv_depthwise2d": partial(_convolution, stride=4, padding=5, dilation=6),
    "aten::conv_depthwise3d": partial(_convolution, stride=4, padding=5, dilation=6),
    "aten::conv_transpose1d": _transposed,
    "aten::conv_transpose2d": _transposed,
    "aten::conv_transpose3d": _transposed,
    "aten::cudnn_convolution_transpose": _transposed,
    "aten::miopen_convolution_transpose": _transposed,
    "aten::convolution_overrideable": partial(_convolution, stride=3, padding=4, dilation=5, transposed=6),
    "aten::convolution_backward": _ConvolutionBackward(0, 1, 2, mask=10, transposed=7),
    "aten::convolution_backward_overrideable": _ConvolutionBackward(0, 1, 2, mask=9, transposed=6),
    "aten::cudnn_convolution_backward": _ConvolutionBackward(1, 0, 2, mask=10),
    "aten::miopen_convolution_backward": _ConvolutionBackward(1, 0, 2, mask=9),
    "aten::scaled_dot_product_attention": _Attention(causal=5),
    "aten::_scaled_dot_product_flash_attention": _Attention(causal=4),
    "aten::_scaled_dot_product_efficient_attention": _Attention(causal=6),
    "aten::_scaled_dot_product_cudnn_attention": _Attention(causal=6),
    "aten::_scaled_dot_product_fused_attention_overrideable": _Attention(causal=5),
    "aten::_flash_attention_forward": _Attention(causal=8, heads=2, lengths=3),
    "aten::_efficient_attention_forward": _Attention(mask=9, heads=2, lengths=4),
    "aten::_cudnn_attention_forward": _Attention(causal=10, lengths=4),
    "aten::_scaled_dot_product_flash_attention_backward": _Attention(1, causal=11, lengths=6, products=5),
    "aten::_scaled_dot_product_efficient_attention_backward": _Attention(1, causal=11, products=5),
    "aten::_scaled_dot_product_cudnn_attention_backward": _Attention(1, causal=14, lengths=9, products=5),
    "aten::_flash_attention_backward": _Attention(1, causal=11, heads=2, lengths=6, products=5),
    "aten::_efficient_attention_backward": _Attention(1, mask=14, heads=2, lengths=6, products=5),
    "flash_attn::_flash_attn_forward": _Attention(causal=5, heads=2, corner="bottom-right", window=6),
    "flash_attn::_flash_attn_backward": _Attention(1, causal=11, heads=2, corner="bottom-right", window=12, products=5),
    "FlashAttnFunc": _Attention(causal=5, heads=2, corner="bottom-right"),
}
"""By the operator's name, as the trace has it; in-place ones without their last underscore."""


def is_known(name: str) -> bool:
    """Whether FLOPs of operators of this name can be told from their shapes."""
    return name in RULES or name.removesuffix("_") in RULES


def cost(name: str, inputs: Inputs) -> Cost | None:
    """FLOPs and bytes of one call, None where the operator is not known or the trace does not hold what they need."""
    rule = RULES.get(name) or RULES.get(name.removesuffix("_"))
    if rule is None:
        return None
    try:
        found = rule(Arguments(inputs))
    except (ValueError, IndexError, ArithmeticError):
        return None
    return found if 0 < found.flops <= MOST_FLOPS else None

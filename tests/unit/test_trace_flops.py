"""FLOPs and bytes from shapes: every known operator has an answer that was worked out by hand or counted one by one."""

import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.analysis.flops import RULES, Cost, cost, pairs_attended, product_shape
from warpmeter.analysis.trace import Inputs

BF16, FP32, HALF = "c10::BFloat16", "float", "c10::Half"


def inputs(*dims: Any, kind: str = BF16, concrete: tuple[Any, ...] = ()) -> Inputs:
    """Tensors of one type; an empty list is what is no tensor."""
    return Inputs(tuple(dims), tuple(kind if each else "Scalar" for each in dims), concrete)


def counted(name: str, *dims: Any, kind: str = BF16, concrete: tuple[Any, ...] = ()) -> Cost:
    found = cost(name, inputs(*dims, kind=kind, concrete=concrete))
    assert found is not None
    return found


def test_a_product_of_matrices() -> None:
    # 512 x 1024 by 1024 x 4096: as many multiplications and additions; three matrices of two bytes a number.
    expected = Cost("matmul", 2 * 512 * 1024 * 4096, 2 * (512 * 1024 + 1024 * 4096 + 512 * 4096), "bf16")
    assert counted("aten::mm", [512, 1024], [1024, 4096]) == expected
    assert counted("aten::addmm", [4096], [512, 1024], [1024, 4096], [], []) == expected
    assert counted("aten::addmm_", [4096], [512, 1024], [1024, 4096], [], []) == expected
    assert counted("aten::matmul", [512, 1024], [1024, 4096]) == expected
    assert counted("aten::linear", [512, 1024], [4096, 1024], [4096]) == expected
    assert counted("aten::linear", [2, 256, 1024], [4096, 1024], []) == expected
    assert counted("aten::_addmm_activation", [4096], [512, 1024], [1024, 4096]) == expected


def test_batches_and_vectors() -> None:
    assert counted("aten::bmm", [8, 2, 3], [8, 3, 5]).flops == 2 * 8 * 2 * 3 * 5
    assert counted("aten::baddbmm", [8, 2, 5], [8, 2, 3], [8, 3, 5]).flops == 2 * 8 * 2 * 3 * 5
    assert counted("aten::addbmm", [2, 5], [8, 2, 3], [8, 3, 5]).flops == 2 * 8 * 2 * 3 * 5
    assert counted("aten::mv", [2, 3], [3]).flops == 2 * 2 * 3
    assert counted("aten::addmv", [2], [2, 3], [3]).flops == 2 * 2 * 3
    assert counted("aten::dot", [7], [7]).flops == 2 * 7
    # A batch that is broadcast: four matrices meet one.
    assert counted("aten::matmul", [4, 1, 2, 3], [6, 3, 5]).flops == 2 * 4 * 6 * 2 * 3 * 5


def test_types_decide_bytes_and_peak() -> None:
    assert counted("aten::mm", [2, 3], [3, 5], kind="float") == Cost("matmul", 60, 4 * (6 + 15 + 10), "fp32")
    assert counted("aten::mm", [2, 3], [3, 5], kind="double").dtype == "fp64"
    assert counted("aten::_int_mm", [2, 3], [3, 5], kind="signed char").dtype == "int8"
    # A complex product is four real ones.
    assert counted("aten::mm", [2, 3], [3, 5], kind="c10::complex<float>") == Cost("matmul", 240, 8 * 31, "fp32")
    assert counted("aten::mm", [2, 3], [3, 5], kind="long int") == Cost("matmul", 60, None, "")
    assert cost("aten::mm", Inputs(([2, 3], [3, 5]))) == Cost("matmul", 60, None, "")


def test_scaled_products_of_eight_and_four_bits() -> None:
    # Inputs of a byte, the result in BF16 unless its number of a type says otherwise (6: float).
    fp8 = counted("aten::_scaled_mm", [16, 32], [32, 64], [1], [1], kind="c10::Float8_e4m3fn")
    assert fp8 == Cost("matmul", 2 * 16 * 32 * 64, 16 * 32 + 32 * 64 + 2 * 16 * 64, "fp8")
    wide = ("", "", "", "", "", "", "6")
    assert counted("aten::_scaled_mm", [16, 32], [32, 64], kind="c10::Float8_e5m2", concrete=wide).bytes == (
        16 * 32 + 32 * 64 + 4 * 16 * 64
    )
    # Two numbers of four bits a byte: 32 bytes are 64 numbers.
    fp4 = counted("aten::_scaled_mm", [16, 32], [32, 64], kind="c10::Float4_e2m1fn_x2")
    assert fp4 == Cost("matmul", 2 * 16 * 64 * 64, 16 * 32 + 32 * 64 + 2 * 16 * 64, "fp4")
    kinds = (BF16, "unsigned char", "unsigned char")
    into = Inputs(([16, 64], [16, 32], [64, 32]), kinds)
    assert cost("_C::cutlass_scaled_fp4_mm", into) == Cost(
        "matmul", 2 * 16 * 64 * 64, 16 * 32 + 64 * 32 + 2 * 16 * 64, "fp4"
    )
    kinds = (BF16, "c10::Float8_e4m3fn", "c10::Float8_e4m3fn")
    into = Inputs(([16, 64], [16, 32], [32, 64]), kinds)
    assert cost("_C::cutlass_scaled_mm", into) == Cost("matmul", 2 * 16 * 32 * 64, 512 + 2048 + 2048, "fp8")


def test_grouped_products() -> None:
    # Rows belong to groups, each with a matrix of its own: every row is multiplied once.
    assert counted("aten::_grouped_mm", [100, 32], [4, 32, 64], [4]).flops == 2 * 100 * 32 * 64
    assert counted("aten::_grouped_mm", [4, 100, 32], [4, 32, 64]).flops == 2 * 4 * 100 * 32 * 64
    # What is summed over belongs to groups: one result a group, however many.
    assert counted("aten::_grouped_mm", [64, 100], [100, 32], [4]) == Cost("matmul", 2 * 64 * 100 * 32, None, "bf16")


# The first convolution of ResNet-50: 118 million multiply-adds an image, as its table of layers says.
STEM = ([1, 3, 224, 224], [64, 3, 7, 7])
STEM_FLOPS = 236_027_904


@pytest.mark.parametrize(
    ("name", "dims", "concrete"),
    [
        ("aten::conv2d", (*STEM, []), ("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1")),
        ("aten::conv2d", (*STEM, []), ("", "", "", "[2]", "[3]", "[1]", "1")),
        ("aten::convolution", (*STEM, []), ("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1")),
        ("aten::_convolution", (*STEM, []), ("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1")),
        ("aten::cudnn_convolution", STEM, ("", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True")),
        ("aten::miopen_convolution", (*STEM, []), ("", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False")),
        ("aten::cudnn_convolution_relu", (*STEM, []), ("", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1")),
    ],
)
def test_a_convolution(name: str, dims: tuple[Any, ...], concrete: tuple[Any, ...]) -> None:
    moved = 2 * (3 * 224 * 224 + 64 * 3 * 49 + 64 * 112 * 112)
    assert counted(name, *dims, concrete=concrete) == Cost("convolution", STEM_FLOPS, moved, "bf16")


def test_groups_dilation_and_more_dimensions() -> None:
    # Depthwise: each of 32 channels has a kernel of nine numbers of its own.
    depthwise = ("", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "32")
    assert counted("aten::conv2d", [2, 32, 8, 8], [32, 1, 3, 3], [], concrete=depthwise).flops == 2 * 2 * 64 * 32 * 9
    # Dilation 2 makes a kernel of 3 reach over 5: ten places become six.
    assert counted(
        "aten::conv1d", [1, 1, 10], [1, 1, 3], [], concrete=("",) * 3 + ("[1]", "[0]", "[2]", "1")
    ).flops == (2 * 6 * 3)
    cube = ("", "", "", "[1, 1, 1]", "[0, 0, 0]", "[1, 1, 1]", "1")
    assert counted("aten::conv3d", [1, 2, 4, 4, 4], [5, 2, 3, 3, 3], [], concrete=cube).flops == 2 * 8 * 5 * 2 * 27
    # Without a batch: sizes of one image.
    assert counted("aten::conv2d", [3, 4, 4], [5, 3, 1, 1], [], concrete=("",) * 3 + ("[1]", "[0]", "[1]")).flops == (
        2 * 16 * 15
    )


def test_a_transposed_convolution_meets_each_input_with_the_whole_kernel() -> None:
    flops = 2 * 2 * 5 * 5 * 8 * 4 * 3 * 3
    found = counted("aten::conv_transpose2d", [2, 8, 5, 5], [8, 4, 3, 3], [])
    assert (found.flops, found.bytes) == (flops, None)
    turned = ("", "", "", "[2, 2]", "[0, 0]", "[1, 1]", "True", "[0, 0]", "1")
    assert counted("aten::convolution", [2, 8, 5, 5], [8, 4, 3, 3], [], concrete=turned).flops == flops


def backward(mask: str, transposed: str = "False") -> tuple[str, ...]:
    return ("", "", "", "[0]", "[2, 2]", "[3, 3]", "[1, 1]", transposed, "[0, 0]", "1", mask)


def test_gradients_of_a_convolution() -> None:
    dims = ([1, 64, 112, 112], *STEM)
    name = "aten::convolution_backward"
    sizes = [2 * math.prod(each) for each in dims]
    both = counted(name, *dims, concrete=backward("[True, True, False]"))
    assert (both.flops, both.bytes) == (2 * STEM_FLOPS, sum(sizes) + sizes[1] + sizes[2])
    weight = counted(name, *dims, concrete=backward("[False, True, False]"))
    assert (weight.flops, weight.bytes) == (STEM_FLOPS, sizes[0] + sizes[1] + sizes[2])
    data = counted(name, *dims, concrete=backward("[True, False, False]"))
    assert (data.flops, data.bytes) == (STEM_FLOPS, sizes[0] + sizes[2] + sizes[1])
    turned = counted(name, [2, 4, 11, 11], [2, 8, 5, 5], [8, 4, 3, 3], concrete=backward("[True, True, False]", "True"))
    assert turned.flops == 2 * 2 * 2 * 5 * 5 * 8 * 4 * 9


def test_gradients_of_a_convolution_before_pytorch_1_11() -> None:
    dims = (STEM[0], [1, 64, 112, 112], STEM[1])
    concrete = ("",) * 10 + ("[False, True, False]",)
    assert counted("aten::cudnn_convolution_backward", *dims, concrete=concrete).flops == STEM_FLOPS
    assert counted("aten::miopen_convolution_backward", *dims, concrete=concrete[1:]).flops == STEM_FLOPS


def test_attention() -> None:
    # Two products of 559 x 559 x 64, for each of 16 x 16 heads.
    whole = 16 * 16 * 2 * (2 * 559 * 559 * 64)
    moved = 2 * 4 * 16 * 16 * 559 * 64
    heads_first, heads_later = [16, 16, 559, 64], [16, 559, 16, 64]
    plain = counted("aten::scaled_dot_product_attention", *[heads_first] * 3)
    assert plain == Cost("attention", whole, moved, "bf16")
    told = ("", "", "", "0.", "False")
    assert counted("aten::_scaled_dot_product_flash_attention", *[heads_first] * 3, concrete=told) == plain
    assert counted("aten::_flash_attention_forward", *[heads_later] * 3, [], []) == plain
    assert counted("aten::_scaled_dot_product_efficient_attention", *[heads_first] * 3) == plain
    assert counted("aten::_scaled_dot_product_cudnn_attention", *[heads_first] * 3) == plain
    mask = ("",) * 9 + ("0",)
    assert counted("aten::_efficient_attention_forward", *[heads_later] * 3, [], concrete=mask) == plain
    assert counted("FlashAttnFunc", *[heads_later] * 3) == plain


def test_causal_attention_is_counted_as_it_is_computed() -> None:
    pairs = 559 * 560 // 2
    flops = 16 * 16 * 2 * (2 * pairs * 64)
    heads_first, heads_later = [16, 16, 559, 64], [16, 559, 16, 64]
    told: dict[str, tuple[Any, int]] = {
        "aten::scaled_dot_product_attention": (heads_first, 5),
        "aten::_scaled_dot_product_flash_attention": (heads_first, 4),
        "aten::_scaled_dot_product_efficient_attention": (heads_first, 6),
        "aten::_scaled_dot_product_cudnn_attention": (heads_first, 6),
        "aten::_flash_attention_forward": (heads_later, 8),
        "flash_attn::_flash_attn_forward": (heads_later, 5),
        "FlashAttnFunc": (heads_later, 5),
    }
    for name, (dims, place) in told.items():
        concrete = ("",) * place + ("True", "-1", "-1")
        assert counted(name, *[dims] * 3, concrete=concrete).flops == flops, name
    mask = ("",) * 9 + ("1",)
    assert counted("aten::_efficient_attention_forward", *[heads_later] * 3, concrete=mask).flops == flops


def test_grouped_queries_other_values_and_other_lengths() -> None:
    # 32 heads of queries share eight of keys and values; the result has the queries' heads.
    grouped = counted("aten::scaled_dot_product_attention", [1, 32, 10, 64], [1, 8, 20, 64], [1, 8, 20, 128])
    assert grouped.flops == 32 * 2 * 10 * 20 * (64 + 128)
    assert grouped.bytes == 2 * (32 * 10 * 64 + 8 * 20 * 64 + 8 * 20 * 128 + 32 * 10 * 128)


def test_gradients_of_attention_are_five_products() -> None:
    heads_first, heads_later = [2, 4, 100, 64], [2, 100, 4, 64]
    forward = counted("aten::scaled_dot_product_attention", *[heads_first] * 3)
    tensors = forward.bytes
    assert tensors is not None
    for name, dims in (
        ("aten::_scaled_dot_product_flash_attention_backward", heads_first),
        ("aten::_scaled_dot_product_efficient_attention_backward", heads_first),
        ("aten::_scaled_dot_product_cudnn_attention_backward", heads_first),
        ("aten::_flash_attention_backward", heads_later),
    ):
        found = counted(name, *[dims] * 5)
        assert 2 * found.flops == 5 * forward.flops, name
        # Queries, keys, values, result and its gradient are read, three gradients written.
        assert found.bytes == tensors * 2, name
    concrete = ("",) * 11 + ("True", "-1", "-1")
    causal = counted("flash_attn::_flash_attn_backward", *[heads_later] * 5, concrete=("",) * 11 + ("True", "-1", "-1"))
    assert causal.flops == 2 * 4 * 5 * 2 * 64 * (100 * 101 // 2)
    assert counted("aten::_flash_attention_backward", *[heads_later] * 5, concrete=concrete).flops == causal.flops


def test_packed_sequences_do_not_tell_their_lengths() -> None:
    assert cost("aten::_flash_attention_forward", inputs([100, 16, 64], [100, 16, 64], [100, 16, 64], [5], [5])) is None
    packed = inputs([1, 100, 16, 64], [1, 100, 16, 64], [1, 100, 16, 64], [5], [5])
    assert cost("aten::_flash_attention_forward", packed) is None


@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from(["", "top-left", "bottom-right"]), st.integers(0, 12))
def test_pairs_of_a_mask_are_those_counted_one_by_one(queries: int, keys: int, corner: str, window: int) -> None:
    shift = keys - queries if corner == "bottom-right" else 0

    def seen(query: int, key: int, width: int | None) -> bool:
        own = query + shift
        return not corner or (key <= own and (width is None or key >= own - width))

    for width in (None, window):
        if not corner and width is not None:
            continue
        each = sum(seen(query, key, width) for query, key in product(range(queries), range(keys)))
        assert pairs_attended(queries, keys, corner, width) == each


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_products_have_the_shape_that_a_matrix_library_gives(left: list[int], right: list[int]) -> None:
    import numpy as np

    try:
        expected = np.matmul(np.zeros(left), np.zeros(right)).shape
    except ValueError:
        return
    shape, summed = product_shape(tuple(left), tuple(right))
    assert math.prod(shape) == math.prod(expected)
    assert summed == left[-1]


@pytest.mark.parametrize(
    "broken",
    [
        Inputs(),
        Inputs(([2, 3],)),
        Inputs(([2, 3], [4, 5]), (BF16, BF16)),
        Inputs(([2, -3], [-3, 5]), (BF16, BF16)),
        Inputs((["2", 3], [3, 5]), (BF16, BF16)),
        Inputs((None, 7), (BF16, BF16)),
        Inputs(([2, 0], [0, 5]), (BF16, BF16)),
        Inputs(([10**9, 10**9], [10**9, 10**9]), (BF16, BF16)),
        Inputs(([[2, 3], [3, 5]],), ("TensorList",)),
    ],
)
def test_what_cannot_be_told_is_nothing(broken: Inputs) -> None:
    assert cost("aten::mm", broken) is None
    assert cost("aten::matmul", broken) is None


def test_operators_that_are_not_known() -> None:
    assert cost("aten::add", inputs([2, 3], [2, 3])) is None
    assert cost("aten::conv2d", inputs(*STEM)) is None  # sizes alone do not tell the stride


values = st.recursive(
    st.one_of(st.none(), st.integers(-5, 70), st.text("[]0123, -Trueinf", max_size=8), st.booleans()),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)


@given(
    st.sampled_from(sorted(RULES)), st.lists(values, max_size=12), st.lists(st.text(max_size=6), max_size=12), values
)
def test_no_garbled_input_is_more_than_unknown(name: str, dims: list[Any], types: list[str], value: Any) -> None:
    found = cost(name, Inputs(tuple(dims), tuple(types), (value,) * 15))
    assert found is None or found.flops > 0

"""Roofline: each product once, held against the right peak, by the time that its kernels took."""

import msgspec
import pytest

from tests.tracebuilder import TraceBuilder
from tests.traces import FOLDER, needs_traces
from warpmeter.analysis.links import links
from warpmeter.analysis.matrix import is_product, precision
from warpmeter.analysis.read import read
from warpmeter.analysis.roofline import Roofline, roofline
from warpmeter.analysis.trace import Trace
from warpmeter.analysis.windows import windows

H100 = "NVIDIA H100 80GB HBM3"
BF16_PEAK, FP32_PEAK, TF32_PEAK, BANDWIDTH = 989.4e12, 66.9e12, 494.7e12, 3352e9
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
BF16 = "c10::BFloat16"


def found(trace: Trace, device: str | None = None) -> Roofline:
    joined = links(trace)
    return roofline(trace, joined, windows(trace, joined), device)


def linear(builder: TraceBuilder, start: int, kernel: tuple[int, int], name: str = GEMM, kind: str = BF16) -> None:
    """`linear` of 1024 x 1024 by 1024 x 4096 calls `addmm`, which launches the kernel."""
    builder.operator("aten::linear", start, 100, dims=[[1024, 1024], [4096, 1024], [4096]], types=[kind] * 3)
    builder.operator("aten::t", start + 5, 10, dims=[[4096, 1024]], types=[kind])
    builder.operator("aten::addmm", start + 20, 70, dims=[[4096], [1024, 1024], [1024, 4096]], types=[kind] * 3)
    builder.launch(name, (start + 30, 10), kernel)


FLOPS = 2 * 1024 * 1024 * 4096
BYTES = 2 * (1024 * 1024 + 1024 * 4096 + 1024 * 4096)


def two_steps() -> TraceBuilder:
    builder = TraceBuilder()
    builder.device(0, H100)
    builder.step(1, 0, 100_000)
    builder.step(2, 100_000, 50_000)
    linear(builder, 1_000, (2_000, 20_000))
    linear(builder, 50_000, (60_000, 10_000))
    linear(builder, 101_000, (110_000, 15_000))
    builder.launch("elementwise", (120_000, 10), (125_000, 5_000))
    return builder


def test_each_product_counts_once_and_its_kernels_are_its_time() -> None:
    whole = found(two_steps().build())
    assert (whole.flops, whole.bytes, whole.gpu_ns) == (3 * FLOPS, 3 * BYTES, 45_000)
    (row,) = whole.operators
    assert (row.name, row.count, row.flops, row.gpu_ns) == ("aten::addmm", 3, 3 * FLOPS, 45_000)
    assert row.flops_per_s == pytest.approx(3 * FLOPS / 45e-6)
    assert row.bytes_per_s == pytest.approx(3 * BYTES / 45e-6)
    assert row.flops_per_byte == pytest.approx(FLOPS / BYTES)
    assert (row.dtype, row.bound, row.matrix_units) == ("bf16", "compute", True)
    assert row.peak_share == pytest.approx(3 * FLOPS / 45e-6 / BF16_PEAK)
    assert row.roof_share == row.peak_share
    assert whole.peak_share == pytest.approx(row.peak_share)
    assert (whole.counted_share, whole.products_ns, whole.matrix_units_ns) == (1.0, 45_000, 45_000)


def test_mfu_is_time_at_peak_by_the_time_that_passed() -> None:
    whole = found(two_steps().build())
    assert whole.sheet is not None
    assert whole.sheet.name == "H100 SXM5"
    # GPU events span 2,000 to 130,000.
    assert whole.mfu == pytest.approx(3 * FLOPS / BF16_PEAK / 128e-6)
    first, second = whole.steps
    assert (first.name, first.flops, second.flops) == ("ProfilerStep#1", 2 * FLOPS, FLOPS)
    assert first.flops_per_s == pytest.approx(2 * FLOPS / 100e-6)
    assert first.mfu == pytest.approx(2 * FLOPS / BF16_PEAK / 100e-6)
    assert second.mfu == pytest.approx(FLOPS / BF16_PEAK / 50e-6)


def test_two_devices_have_twice_the_peak() -> None:
    builder = TraceBuilder()
    builder.device(0, H100)
    builder.device(1, H100)
    for device in (0, 1):
        start = 1_000 * device
        builder.operator("aten::mm", start, 100, dims=[[1024, 1024], [1024, 4096]], types=[BF16] * 2)
        builder.launch(GEMM, (start + 10, 10), (10_000, 20_000), device=device)
    whole = found(builder.build())
    assert (whole.devices, whole.flops) == (2, 2 * FLOPS)
    assert whole.mfu == pytest.approx(FLOPS / BF16_PEAK / 20e-6)


def test_little_arithmetic_is_bound_by_memory() -> None:
    builder = TraceBuilder()
    builder.device(0, H100)
    builder.operator("aten::mv", 0, 100, dims=[[4096, 4096], [4096]], types=[BF16] * 2)
    builder.launch("gemv2T_kernel_val<int, __nv_bfloat16>", (10, 10), (200, 15_000))
    (row,) = found(builder.build()).operators
    moved = 2 * (4096 * 4096 + 4096 + 4096)
    assert (row.bound, row.bytes) == ("memory", moved)
    assert row.roof_share == pytest.approx(moved / 15e-6 / BANDWIDTH)
    assert row.peak_share == pytest.approx(2 * 4096 * 4096 / 15e-6 / BF16_PEAK)


@pytest.mark.parametrize(
    ("kernel", "dtype", "peak"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align1", "tf32", TF32_PEAK),
        ("sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize128x128x16", "tf32", TF32_PEAK),
        ("ampere_sgemm_128x64_nn", "fp32", FP32_PEAK),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4", "fp32", FP32_PEAK),
        ("kernel_of_nobody", "fp32", FP32_PEAK),
    ],
)
def test_kernels_tell_tf32_from_fp32(kernel: str, dtype: str, peak: float) -> None:
    builder = TraceBuilder()
    builder.device(0, H100)
    linear(builder, 0, (1_000, 1_000_000), kernel, "float")
    builder.launch("elementwise_kernel", (35, 2), (2_000_000, 9_000_000))  # longer, but no product: tells nothing
    (row,) = found(builder.build()).operators
    assert (row.dtype, row.kernel, row.gpu_ns) == (dtype, row.kernel, 10_000_000)
    assert row.peak_share == pytest.approx(FLOPS / 10e-3 / peak)


def test_no_data_sheet_leaves_rates_and_takes_shares() -> None:
    builder = TraceBuilder()
    linear(builder, 0, (1_000, 20_000))
    trace = builder.build()
    whole = found(trace)
    assert (whole.device, whole.sheet, whole.mfu, whole.peak_share) == (None, None, None, None)
    (row,) = whole.operators
    assert (row.bound, row.peak_share, row.roof_share) == (None, None, None)
    assert row.flops_per_s == pytest.approx(FLOPS / 20e-6)
    told = found(trace, "H100")
    assert told.mfu == pytest.approx(FLOPS / BF16_PEAK / 20e-6)
    assert found(trace, "a device of tomorrow").mfu is None


def test_a_step_without_products() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 100)
    builder.step(2, 100, 100)
    linear(builder, 0, (1_000, 20_000))
    trace = builder.build()
    assert [(step.flops, step.mfu) for step in found(trace).steps] == [(FLOPS, None), (0, None)]
    assert found(trace, "H100").steps[1].mfu == 0.0


def test_a_type_without_a_peak_leaves_only_its_own_shares_open() -> None:
    builder = TraceBuilder()
    builder.device(0, "Tesla V100-SXM2-32GB")  # no units for BF16
    linear(builder, 0, (1_000, 20_000))
    whole = found(builder.build())
    assert (whole.flops, whole.mfu, whole.operators[0].peak_share) == (FLOPS, None, None)


def test_products_that_no_operator_tells_are_seen_as_not_counted() -> None:
    builder = TraceBuilder()
    builder.device(0, H100)
    linear(builder, 0, (1_000, 20_000))
    builder.operator("CompiledFunction", 200, 100)
    builder.launch("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_TNT", (210, 10), (30_000, 60_000))
    whole = found(builder.build())
    assert (whole.products_ns, whole.gpu_ns, whole.counted_share) == (80_000, 20_000, 0.25)


def test_products_without_kernels_are_told_apart() -> None:
    """An operator on the host, or one whose launch the profiler lost."""
    builder = TraceBuilder()
    builder.device(0, H100)
    builder.operator("aten::mm", 0, 100, dims=[[1024, 1024], [1024, 4096]], types=["float"] * 2)
    linear(builder, 1_000, (2_000, 20_000))
    whole = found(builder.build())
    assert (whole.flops, whole.unlaunched_flops) == (FLOPS, FLOPS)
    assert [(row.name, row.gpu_ns, row.flops_per_s is None) for row in whole.operators] == [
        ("aten::addmm", 20_000, False),
        ("aten::mm", 0, True),
    ]


def test_mathematics_of_attention_are_its_products() -> None:
    builder = TraceBuilder()
    heads = [[2, 8, 128, 64]] * 3
    builder.operator("aten::scaled_dot_product_attention", 0, 1_000, dims=heads, types=[BF16] * 3)
    builder.operator("aten::bmm", 100, 100, dims=[[16, 128, 64], [16, 64, 128]], types=[BF16] * 2)
    builder.launch(GEMM, (110, 10), (2_000, 100))
    builder.operator("aten::bmm", 300, 100, dims=[[16, 128, 128], [16, 128, 64]], types=[BF16] * 2)
    builder.launch(GEMM, (310, 10), (2_200, 100))
    whole = found(builder.build())
    assert whole.flops == 2 * 2 * 16 * 128 * 128 * 64
    assert {row.name for row in whole.operators} == {"aten::bmm"}


def test_an_inner_operator_without_shapes_leaves_the_outer_one_to_count() -> None:
    builder = TraceBuilder()
    builder.operator("aten::linear", 0, 100, dims=[[1024, 1024], [4096, 1024], [4096]], types=[BF16] * 3)
    builder.operator("aten::addmm", 20, 70)
    builder.launch(GEMM, (30, 10), (1_000, 20_000))
    whole = found(builder.build())
    assert [(row.name, row.flops) for row in whole.operators] == [("aten::linear", FLOPS)]


def test_traces_without_shapes_tell_no_flops_rather_than_none_done() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 1_000)
    builder.operator("aten::mm", 0, 100)
    builder.launch(GEMM, (10, 10), (200, 20))
    whole = found(builder.build())
    assert (whole.flops, whole.bytes, whole.mfu, whole.steps[0].flops) == (None, None, None, None)
    assert whole.counted_share == 0.0


def test_the_result_is_plain() -> None:
    whole = found(two_steps().build())
    assert msgspec.json.decode(msgspec.json.encode(whole), type=Roofline) == whole


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", True),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1", True),
        ("void pytorch_flash::flash_bwd_kernel<traits>", True),
        ("void splitKreduce_kernel<32, 16, int, float>", True),
        ("triton_tem_fused_mm_3", True),
        ("void fbgemm_gpu::permute_2D_data_kernel<false, int, int>", False),
        ("void vllm::fused_add_rms_norm_kernel<vllm::_typeConvert<c10::BFloat16>>", False),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", False),
        ("void at::native::vectorized_elementwise_kernel<4>", False),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", False),
    ],
)
def test_names_of_products(kernel: str, expected: bool) -> None:
    assert is_product(kernel) is expected


@pytest.mark.parametrize(
    ("dtype", "kernel", "expected"),
    [
        ("fp32", "Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2x1", "fp32"),
        ("fp32", "Cijk_Ailk_Bljk_S_MX_B_Bias_MT128x128x16_MI32x32x4", "tf32"),
        ("bf16", "gemv2T", "bf16"),
        ("", "volta_sgemm_128x32_nt", "fp32"),
        ("", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", "bf16"),
        ("", "kernel_of_nobody", ""),
    ],
)
def test_precisions(dtype: str, kernel: str, expected: str) -> None:
    assert precision(dtype, kernel) == expected


@needs_traces
def test_a_real_models_forward_pass() -> None:
    """Qwen1.5-0.5B on an H100: 24 layers of width 1,024 (MLP 2,816), 16 sequences of 559 tokens, causal attention."""
    whole = found(read(str(FOLDER / "tl_h100_qwen.json.gz")))
    tokens, width, inner = 16 * 559, 1024, 2816
    products = 24 * 2 * tokens * (4 * width * width + 3 * width * inner)
    attention = 24 * 4 * (16 * 16) * 64 * (559 * 560 // 2)
    rotary = 2 * 32 * 559
    assert whole.flops == products + attention + rotary
    assert whole.device == H100
    assert [step.flops for step in whole.steps] == [whole.flops]
    # What ran before the first recorded launch cannot be joined to operators: 10 ms of 16.6 ms are.
    assert whole.counted_share == pytest.approx(0.6956, abs=1e-4)
    assert whole.peak_share == pytest.approx(0.5028, abs=1e-4)


@needs_traces
def test_a_real_server_tells_how_little_of_its_products_has_shapes() -> None:
    """vLLM on a B200: experts and attention run in operators of its own, which do not tell sizes of what they do."""
    whole = found(read(str(FOLDER / "tl_b200_vllm_eager.json.gz")))
    tokens, width = 888, 2880
    layers = 36 * 2 * tokens * width * (640 + 512 + 128)
    assert whole.flops == layers + 2 * width * 25136
    assert whole.counted_share == pytest.approx(0.1165, abs=1e-4)
    assert {row.dtype for row in whole.operators} == {"bf16"}


@needs_traces
def test_real_traces_without_shapes() -> None:
    whole = found(read(str(FOLDER / "hta_ns_resolution.json.gz")))
    assert (whole.flops, whole.mfu, whole.counted_share) == (None, None, 0.0)
    assert (whole.matrix_units_ns, whole.other_units_ns > 0) == (0, True)

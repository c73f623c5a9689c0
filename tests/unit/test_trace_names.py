"""Short names of kernels as people read them, and what else their names tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth
from warpmeter.analysis.names import LONGEST, is_communication, short_name, uses_matrix_units

COPY = "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
MUL = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("triton_poi_fused_add_cos_sin_0", "triton_poi_fused_add_cos_sin_0"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("Memset (Device)", "Memset (Device)"),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "ncclKernel_AllReduce_RING_LL_Sum_float",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4>(cutlass_80_tensorop::Params)",
            "cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4",
        ),
        (
            f"void at::native::vectorized_elementwise_kernel<4, {MUL}, std::array<char*, 3ul> >(int, {MUL})",
            "vectorized_elementwise_kernel<MulFunctor<float>>",
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
            f"{COPY}::{{lambda()#12}}::operator()() const::{{lambda(c10::BFloat16)#1}}>(at::TensorIteratorBase&)"
            "::{lambda(int)#1}>(int, int)",
            "elementwise_kernel<direct_copy_kernel_cuda(BFloat16)>",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
            "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
            "unsigned int, float, 4> >(int)",
            "reduce_kernel<sum_functor<float, float, float>(float, float)>",
        ),
        (
            "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, adamMode_t>(int)",
            "multi_tensor_apply_kernel<AdamFunctor<float>>",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<4u>, unsigned int, 3, "
            "64, 64>(int)",
            "CatArrayBatchedCopy<unsigned int, 3, 64, 64>",
        ),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
            "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
            "fused_add_rms_norm_kernel<BFloat16, 8>",
        ),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(int)", "gemvx::kernel"),
        (
            "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblockEEEEEvT_",
            "ImplicitGemmConvolution",
        ),
        ("_ZN2at6native12_GLOBAL__N_120softmax_warp_forwardIffLi10EEEvPT_", "softmax_warp_forward"),
        ("_Z9my_kernelPfS_i", "my_kernel"),
        ("_ZN2ck6device12_GLOBAL__N_120kernel_gemm_cshuffleIffEEvT_.kd", "kernel_gemm_cshuffle"),
        ("_Z", "_Z"),
        ("", ""),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_long_name_keeps_both_its_ends() -> None:
    name = "sm80_xmma_fprop_" + "x" * 200 + "_execute_kernel_cudnn"

    assert short_name(name).startswith("sm80_xmma_fprop_")
    assert short_name(name).endswith("_kernel_cudnn")
    assert len(short_name(name)) == LONGEST


@given(st.text(alphabet="ab<>(){}:, &*_-1Z", max_size=60) | st.text(max_size=30))
def test_any_text_has_a_short_name(name: str) -> None:
    assert len(short_name(name)) <= LONGEST
    assert short_name(name) or not name
    assert uses_matrix_units(name) in (True, False, None)


@pytest.mark.parametrize("name", ["_Z" + "9" * 30 + "kernel", "_Z" + "9" * 5000, "_ZN4mine" + "9" * 30 + "xE"])
def test_lengths_that_no_symbol_has(name: str) -> None:
    assert len(short_name(name)) <= LONGEST


@pytest.mark.parametrize("piece", ["A", "b<", "::", "operator"])
def test_the_time_is_linear_in_the_name(piece: str) -> None:
    def read(size: int) -> None:
        name = "void kernel" + piece * (size // len(piece))
        short_name(name)
        uses_matrix_units(name)

    assert growth(read, 1 << 17) < 5


@pytest.mark.parametrize("name", ["ncclDevKernel_AllReduce", "RCCL_Generic", "vllm::cross_device_reduce_1stage<float>"])
def test_communication(name: str) -> None:
    assert is_communication(name)


@pytest.mark.parametrize("name", ["multimem_all_reduce_kernel", "gemm", "Memcpy PtoP (Device -> Device)"])
def test_what_is_no_communication_by_name(name: str) -> None:
    assert not is_communication(name)


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4", True),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_stages_64x3_nn", True),
        ("nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT", True),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", True),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x128x64_MI16x16x16x1_SN", True),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>>(int)", True),
        ("_ZN2ck6device12_GLOBAL__N_124kernel_gemm_xdl_cshuffleIffEEvT_.kd", True),
        ("void cutlass::device_kernel<cutlass::gemm::GemmUniversal<MainloopSm90TmaGmmaWarpSpecialized<4>>>(int)", True),
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_dynBatch_sm100f", True),
        ("ampere_sgemm_128x64_nn", False),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_execute_kernel",
            False,
        ),
        ("Cijk_Ailk_Bljk_SB_MT128x128x16_SE_APM1", False),
        ("void cutlass::device_kernel<cutlass::gemm::GemmUniversal<Sm70Whatever>>(int)", None),
        ("volta_sgemm_32x128_tn", False),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", False),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(int)", False),
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int)", None),
        ("void gemv2T_kernel_val<int, int, float, float>(int)", None),
        ("triton_tem_fused_mm_0", None),
    ],
)
def test_matrix_units(name: str, uses: bool | None) -> None:
    assert uses_matrix_units(name) is uses

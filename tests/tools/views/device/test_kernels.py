"""What kernels' names tell: class, type, unit and loads. The names are those that libraries record."""

from __future__ import annotations

import pytest

from tests.synthetic import V100, RankBuilder, profile_of
from tools.knowledge.name_patterns import kernel_class
from tools.metrics.rank_speed import device_speed
from tools.run.model import Device
from tools.views.device.kernels import MATRIX_UNIT, UNKNOWN, VECTOR_UNIT, arithmetic_of, device_of, kernel_table
from tools.views.device.roofline import group_rows


@pytest.mark.parametrize(
    ("name", "precision", "unit"),
    [
        ("volta_sgemm_128x64_nn", "fp32", VECTOR_UNIT),
        ("ampere_sgemm_32x32_sliced1x4_tn", "fp32", VECTOR_UNIT),
        ("volta_scudnn_128x128_stridedB_splitK_small_nn_v1", "fp32", VECTOR_UNIT),
        (
            "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5>(int)",
            "fp32",
            VECTOR_UNIT,
        ),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int)", "fp32", VECTOR_UNIT),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(Params)", "fp32", VECTOR_UNIT),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma", "fp32", VECTOR_UNIT),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)", "tf32", MATRIX_UNIT),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw", "tf32", MATRIX_UNIT),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "fp16", MATRIX_UNIT),
        ("volta_h884gemm_256x64_ldg8_nt", "fp16", MATRIX_UNIT),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn", "fp16", MATRIX_UNIT),
        ("ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn", "bf16", MATRIX_UNIT),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", "bf16", MATRIX_UNIT),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_MT256x256x64_MI16x16x1_SN", "bf16", MATRIX_UNIT),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN", "fp32", MATRIX_UNIT),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", "bf16", MATRIX_UNIT),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_ffma_aligna4_alignc4", "fp32", VECTOR_UNIT),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", "bf16", MATRIX_UNIT),
        ("nvjet_sm100_hsh_mma_128x256x64", "fp16", MATRIX_UNIT),
        ("cutlass_75_tensorop_s1688gemm_f16_256x128_nn_align8", "fp16", MATRIX_UNIT),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "fp16", MATRIX_UNIT),
        ("void pytorch_flash::flash_fwd_kernel<Traits<128, cutlass::bfloat16_t>>", "bf16", MATRIX_UNIT),
        ("volta_dgemm_64x64_nn", "fp64", VECTOR_UNIT),
        ("void some_unheard_of_gemm(int)", "", UNKNOWN),
    ],
)
def test_names_tell_type_and_unit(name: str, precision: str, unit: int) -> None:
    found = arithmetic_of(name)
    assert (found.precision, found.unit) == (precision, unit)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1", 0),
        ("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align4", 1),
        ("cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x6_nn_align2", 0),
        ("ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn", 1),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc", UNKNOWN),
    ],
)
def test_names_tell_whether_operands_are_read_in_whole_pieces(name: str, full: int) -> None:
    assert arithmetic_of(name).full_loads == full


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "communication"),
        ("volta_sgemm_128x64_nn", "matmul"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", "normalization"),
        ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(params)", "layout"),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>",
            "concatenation",
        ),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)", "elementwise"),
        ("void bounds_check_indices_kernel<long>(fbgemm_gpu::Accessor)", "other"),
        ("SubTensorOpWithCastTensor1d", "elementwise"),
    ],
)
def test_names_tell_the_class(name: str, group: str) -> None:
    assert kernel_class(name) == group


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("void vectorized_elementwise_kernel<4, CUDAFunctor_add<double>, Array<char*, 3>>(int)", "fp64"),
        ("void vectorized_elementwise_kernel<4, nan_to_num(TensorIteratorBase&, optional<double>)::f(float)>", ""),
        ("void distribution_kernel<float, 4, uniform(TensorIteratorBase&, double, double)>(int)", ""),
    ],
)
def test_double_precision_is_told_from_element_types_only(name: str, precision: str) -> None:
    rank = RankBuilder()
    rank.kernel(name, 10, 20)
    rank.step(0, 0, 100)
    assert list(kernel_table(profile_of(rank), 0)["precision"]) == [precision]


def test_the_table_holds_kernels_of_the_steps_with_their_operator_and_grid() -> None:
    rank = RankBuilder()
    outside = rank.kernel("volta_sgemm_128x64_nn", 5, 2)
    operator = rank.operator("aten::mm", 10, 10)
    inside = rank.kernel("volta_sgemm_128x64_nn", 40, 25, call_us=12, blocks=12, threads=256)
    rank.step(0, 8, 100)
    table = kernel_table(profile_of(rank), 0)
    rows = rank.rows()
    assert list(table["row"]) == [rows[inside]]
    assert rows[outside] not in set(table["row"])
    assert list(table["operator"]) == [rows[operator]]
    assert (table["duration_ns"].iloc[0], table["blocks"].iloc[0]) == (25_000, 12)


def test_the_device_is_the_one_that_ran_the_kernels() -> None:
    rank = RankBuilder(device=Device(1, "NVIDIA A100-SXM4-80GB", 85_000_000_000, "8.0", 108))
    rank.kernel("k", 1, 1, stream=rank.device_stream(7, device=1))
    rank.step(0, 0, 10)
    device = device_of(profile_of(rank).rank(0))
    assert device is not None
    assert device.name == "NVIDIA A100-SXM4-80GB"


def test_runs_of_elementwise_kernels_need_equal_grids_and_length() -> None:
    rank = RankBuilder()
    add, mul = "vectorized_elementwise_kernel<add>", "vectorized_elementwise_kernel<mul>"
    together = [rank.kernel(add, 0, 10, blocks=400, threads=64), rank.kernel(mul, 10, 20, blocks=400, threads=64)]
    rank.kernel(add, 30, 10, blocks=8, threads=64)
    rank.kernel("volta_sgemm_128x64_nn", 50, 10)
    rank.kernel(add, 60, 2, blocks=400, threads=64)
    rank.kernel(mul, 62, 2, blocks=400, threads=64)
    rank.step(0, 0, 100)
    rows = rank.rows()
    assert list(group_rows(profile_of(rank), 0, "streaming_runs")) == [rows[handle] for handle in together]


def test_a_rank_is_compared_by_medians_of_equal_kernels_that_run_alone() -> None:
    ranks = [RankBuilder(number, V100) for number in range(3)]
    for rank, factor in zip(ranks, (1.0, 1.0, 1.2), strict=True):
        for call in range(4):
            rank.kernel("volta_sgemm_128x64_nn", 100 * call, 50 * factor, blocks=160, threads=256)
        other = rank.device_stream(20)
        rank.kernel("volta_sgemm_32x32_nn", 400, 300 * factor**9, blocks=1)
        rank.kernel("ncclKernel_AllReduce", 400, 20, stream=other)
        rank.step(0, 0, 2000)
    table = device_speed(profile_of(*ranks)).set_index("rank")
    # Each against the median of the others: 1.2 over 1 and 1, and 1 over the middle of 1 and 1.2.
    assert table["ratio"].to_dict() == pytest.approx({0: 1 / 1.1, 1: 1 / 1.1, 2: 1.2})
    assert set(table["kernels"]) == {1}

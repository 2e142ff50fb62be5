"""Alignment, layout and grid checks."""

from __future__ import annotations

import pytest

from tests.synthetic import A100, RankBuilder, profile_of
from tests.tools.analyzers.computation_runs import (
    SGEMM,
    TF32_FULL,
    TF32_NARROW,
    check,
    one_kernel,
    only,
    saved_us,
    with_matmul,
)


def test_narrow_loads_are_shown_by_the_kernels_name_without_shapes() -> None:
    finding = only(check(profile_of(one_kernel(TF32_NARROW, 200, A100)), "computation.alignment"))
    assert finding.mechanism == "shape_alignment"
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([20.0])
    assert finding.details[-1].facts[0].value == pytest.approx(100.0)
    assert saved_us(finding) == pytest.approx(200 * 0.4)
    assert check(profile_of(one_kernel(TF32_FULL, 200, A100)), "computation.alignment").status == "clean"


def test_sizes_show_alignment_where_the_name_does_not() -> None:
    silent = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
    odd = with_matmul(silent, 200, (128, 1000, 33708 + 1), "c10::BFloat16")
    finding = only(check(profile_of(odd), "computation.alignment"))
    assert finding.hints == {"shape": "128 x 1000 x 33709"}
    even = with_matmul(silent, 200, (128, 1000, 33712), "c10::BFloat16")
    assert check(profile_of(even), "computation.alignment").status == "clean"


def test_alignment_cannot_be_judged_without_shapes_and_names() -> None:
    silent = one_kernel("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", 200, A100)
    answer = check(profile_of(silent), "computation.alignment")
    assert answer.status == "cannot_answer"
    assert "record_shapes=True" in answer.needs


def test_layout_conversions_are_found_by_their_share() -> None:
    rank = one_kernel("void cudnn::ops::nchwToNhwcKernel<float, float>(params)", 60)
    finding = only(check(profile_of(rank), "computation.layout"))
    assert finding.mechanism == "layout_conversion"
    assert finding.claim.facts[0].value == pytest.approx(6.0)
    assert saved_us(finding) == pytest.approx(60)
    short = one_kernel("void cudnn::ops::nchwToNhwcKernel<float, float>(params)", 5)
    assert check(profile_of(short), "computation.layout").status == "clean"


def test_a_grid_smaller_than_the_device_is_found() -> None:
    finding = only(check(profile_of(one_kernel(SGEMM, 100, blocks=60)), "computation.small_grid"))
    assert finding.mechanism == "small_grid"
    assert finding.claim.facts[0].value == pytest.approx(10.0)
    assert saved_us(finding) == pytest.approx(100 * (1 - 60 / 80))
    assert check(profile_of(one_kernel(SGEMM, 100, blocks=80)), "computation.small_grid").status == "clean"


def test_communication_may_use_few_blocks() -> None:
    rank = one_kernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 500, blocks=8)
    rank.kernel(SGEMM, 700, 50, blocks=800, threads=64)
    assert check(profile_of(rank), "computation.small_grid").status == "clean"


def test_without_grids_small_ones_cannot_be_judged() -> None:
    rank = RankBuilder()
    rank.kernel(SGEMM, 100, 100)
    rank.step(0, 0, 1000)
    assert check(profile_of(rank), "computation.small_grid").status == "cannot_answer"

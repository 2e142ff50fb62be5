"""Precision checks: found, clean and cannot answer are three different things."""

from __future__ import annotations

import pytest

from tests.asked import COMPUTATION, asking
from tests.synthetic import A100, profile_of
from tests.tools.analyzers.computation_runs import (
    ADD,
    HALF_ALIGNED,
    SGEMM,
    check,
    one_kernel,
    only,
    saved_us,
    with_matmul,
)
from tools.metrics.registry import measure
from tools.run.model import Device
from tools.whatif.change import Scale

analyze = asking(*COMPUTATION)


def test_fp32_matrix_kernels_on_a_device_with_tensor_cores_are_found() -> None:
    finding = only(check(profile_of(one_kernel(SGEMM, 500)), "computation.precision"))
    assert (finding.cause, finding.mechanism) == ("underutilization", "no_tensor_core")
    assert finding.claim.facts[0].value == pytest.approx(50.0)
    assert [fact.value for fact in finding.claim.facts[1:]] == [15.7, 125.0]
    assert finding.hints == {"precision": "fp16"}
    assert finding.confidence == pytest.approx(0.95)


def test_without_shapes_the_gain_is_the_ratio_of_the_reachable_peaks() -> None:
    finding = only(check(profile_of(one_kernel(SGEMM, 500)), "computation.precision"))
    factor = (15.7 * 0.70) / (125 * 0.40)
    assert saved_us(finding) == pytest.approx(500 * (1 - factor))
    assert isinstance(finding.change[0], Scale)
    assert finding.change[0].cautious_factor == pytest.approx((1 + factor) / 2)


def test_with_shapes_the_gain_stops_at_the_memory_traffic() -> None:
    """[16, 4096] x [4096, 4096] moves 67.6 MB: at 80 % of 2,039 GB/s that takes 41 us, its arithmetic 9 us."""
    rank = with_matmul("ampere_sgemm_128x64_nn", 100, (16, 4096, 4096), "float")
    finding = only(check(profile_of(rank), "computation.precision"))
    moved = 4 * (16 * 4096 + 4096 * 4096 + 16 * 4096)
    needed_us = moved / (0.8 * 2039e9) * 1e6
    assert saved_us(finding) == pytest.approx(100 - needed_us)
    assert finding.hints == {"precision": "tf32"}


def test_the_gain_never_passes_the_ratio_of_the_peaks() -> None:
    rank = with_matmul("ampere_sgemm_128x64_nn", 900, (64, 64, 64), "float")
    finding = only(check(profile_of(rank), "computation.precision"))
    assert saved_us(finding) == pytest.approx(900 * (1 - 19.5 / 156))


def test_tensor_core_kernels_are_clean() -> None:
    answer = check(profile_of(one_kernel(HALF_ALIGNED, 500, A100)), "computation.precision")
    assert answer.status == "clean"
    assert [fact.value for fact in answer.support[0].facts] == [50.0, 0.0]


def test_a_device_without_tensor_cores_has_none_to_use() -> None:
    p100 = Device(0, "Tesla P100-SXM2-16GB", 17_000_000_000, "6.0", 56)
    assert check(profile_of(one_kernel(SGEMM, 500, p100)), "computation.precision").status == "clean"


def test_an_unknown_device_is_named_and_no_question_about_its_peaks_is_answered() -> None:
    strange = Device(0, "Strange \x1b[31mGPU", None, None, 100)
    profile = profile_of(one_kernel(SGEMM, 500, strange))
    for name in ("computation.precision", "computation.roofline"):
        answer = check(profile, name)
        assert answer.status == "cannot_answer"
        assert "Strange [31mGPU" in answer.reason


def test_kernels_whose_names_show_nothing_are_not_called_clean() -> None:
    assert check(profile_of(one_kernel("my_gemm_kernel(int)", 500)), "computation.precision").status == "cannot_answer"


def test_double_precision_kernels_are_found_with_half_their_time_to_gain() -> None:
    rank = one_kernel("void vectorized_elementwise_kernel<4, CUDAFunctor_add<double>>(int)", 100)
    finding = only(check(profile_of(rank), "computation.fp64"))
    assert finding.claim.facts[0].value == pytest.approx(10.0)
    assert saved_us(finding) == pytest.approx(50)
    assert check(profile_of(one_kernel(ADD, 100)), "computation.fp64").status == "clean"


def test_every_fact_is_measured_again_with_the_same_result() -> None:
    profile = profile_of(one_kernel(SGEMM, 500, blocks=60))
    for each in analyze(profile):
        facts = [fact for sentence in each.support for fact in sentence.facts]
        for finding in each.findings:
            facts += [fact for sentence in (finding.claim, *finding.details) for fact in sentence.facts]
        for fact in facts:
            again = measure(profile, fact.metric, **dict(fact.arguments))
            assert (again.value, again.unit) == (fact.value, fact.unit)

"""Roofline and fusion checks on operators whose rates can be worked out by hand."""

from __future__ import annotations

import pytest

from tests.synthetic import A100, RankBuilder, profile_of
from tests.tools.analyzers.computation_runs import ADD, HALF_ALIGNED, check, one_kernel, only, saved_us, with_matmul
from tools.metrics.registry import measure


def test_an_operator_at_the_devices_limit_is_compute_bound() -> None:
    """8192 cubed in bf16 is 1.0995e12 operations; at 75 % of 312 TFLOP/s that takes 4,699 us."""
    rank = RankBuilder(device=A100)
    rank.operator("aten::mm", 40, 30, dims=[[8192, 8192], [8192, 8192]], types=["c10::BFloat16", "c10::BFloat16"])
    rank.kernel(HALF_ALIGNED, 100, 4699, call_us=50, blocks=800)
    rank.step(0, 0, 5000)
    profile = profile_of(rank)
    finding = only(check(profile, "computation.roofline"))
    assert finding.cause == "compute_bound"
    assert finding.claim.facts[1].value == pytest.approx(234.0, abs=0.1)
    assert (finding.change, finding.impact_ms) == ((), 0.0)
    assert measure(profile, "roofline_pct", rank=0).value == pytest.approx(75.0, abs=0.05)


def test_an_operator_far_below_both_peaks_is_underutilised() -> None:
    rank = with_matmul(HALF_ALIGNED, 500, (64, 1024, 1024), "c10::BFloat16")
    profile = profile_of(rank)
    finding = only(check(profile, "computation.roofline"))
    assert (finding.cause, finding.mechanism) == ("underutilization", None)
    least_us = 2 * (64 * 1024 + 1024 * 1024 + 64 * 1024) / 2039e9 * 1e6
    assert measure(profile, "roofline_pct", rank=0).value == pytest.approx(100 * least_us / 500)


def test_an_operator_between_limit_and_idleness_is_clean() -> None:
    rank = with_matmul(HALF_ALIGNED, 100, (2048, 2048, 2048), "c10::BFloat16")  # 172 of 312 TFLOP/s
    answer = check(profile_of(rank), "computation.roofline")
    assert answer.status == "clean"
    assert answer.support[1].facts[0].value == pytest.approx(2 * 2048**3 / 100e-6 / 1e12)


def test_the_roofline_needs_shapes() -> None:
    answer = check(profile_of(one_kernel(HALF_ALIGNED, 500, A100)), "computation.roofline")
    assert (answer.status, "record_shapes=True" in answer.needs) == ("cannot_answer", True)


def test_a_chain_of_elementwise_kernels_keeps_its_longest_kernel() -> None:
    rank = RankBuilder()
    for place, length in enumerate((40, 50, 30)):
        rank.kernel(ADD, 100 + 60 * place, length, blocks=800, threads=256)
    rank.step(0, 0, 1000)
    finding = only(check(profile_of(rank), "computation.memory_bound"))
    assert finding.cause == "memory_bound"
    assert finding.claim.facts[0].value == pytest.approx(12.0)
    assert saved_us(finding) == pytest.approx(120 - 50)


def test_a_chain_worth_less_than_a_hundredth_of_the_step_is_clean() -> None:
    rank = RankBuilder()
    rank.kernel(ADD, 100, 9, blocks=800, threads=256)
    rank.kernel(ADD, 110, 9, blocks=800, threads=256)
    rank.step(0, 0, 1000)
    assert check(profile_of(rank), "computation.memory_bound").status == "clean"

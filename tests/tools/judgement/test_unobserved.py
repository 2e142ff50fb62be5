"""The lead of steps that computation fills: the operator that most of it is, or that none stands out."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.views.profile import Profile

NAMES = ("aten::mkldnn_convolution", "aten::max_pool2d", "aten::batch_norm", "aten::relu")


def filled(*lengths_us: float, marked: bool = True) -> Profile:
    """Six steps on a host without a pause, each of these calls."""
    rank, at = RankBuilder(device=None), 0.0
    for step in range(6):
        begun = at
        for name, us in zip(NAMES, lengths_us, strict=True):
            rank.operator(name, at, us, dims=[[64, 64], [64, 64]])
            at += us
        if marked:
            rank.step(step, begun, at)
    return profile_of(rank)


def test_the_operator_that_takes_most_of_the_step_is_named_with_its_share() -> None:
    """66 of 100 ms."""
    profile = filled(66_000, 20_000, 10_000, 4_000)
    (lead,) = ranking(profile).leads
    assert lead.claim.names == ("aten::mkldnn_convolution",)
    assert [fact.value for fact in lead.claim.facts] == [pytest.approx(100.0), pytest.approx(66.0), pytest.approx(66.0)]
    assert "a step of rank 0" in lead.claim.template
    assert measure(profile, "named_own_pct", rank=0, name="aten::max_pool2d").value == pytest.approx(20.0)


def test_of_like_operators_none_stands_out() -> None:
    (lead,) = ranking(filled(30_000, 25_000, 25_000, 20_000)).leads
    assert lead.claim.names == ()
    assert "no single operation stands out" in lead.claim.template

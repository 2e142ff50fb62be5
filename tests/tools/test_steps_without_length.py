"""Steps that a trace records without any length: every check still answers, and nothing is divided by zero."""

from __future__ import annotations

import math
import warnings

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.analyzers.registry import CHECKS, check_of
from tools.judgement.ranking import rank_causes
from tools.run.model import Layout
from tools.views.profile import Profile

LENGTHS_US = {
    "first": (0, 1000, 1000),
    "middle": (1000, 0, 1000),
    "last": (1000, 1000, 0),
    "all but one": (0, 0, 1000),
    "all": (0, 0, 0),
}


def rank_with(lengths_us: tuple[int, ...], number: int = 0, device: bool = True) -> RankBuilder:
    """Steps of these lengths; the ones with a length hold an operator, a kernel, a copy and a collective."""
    rank = RankBuilder(rank=number) if device else RankBuilder(rank=number, device=None)
    at = 0.0
    for step, length in enumerate(lengths_us):
        rank.step(step, at, at + length)
        if length:
            rank.operator("aten::mm", at + 10, 200, dims=[[64, 64], [64, 64]], types=["float", "float"])
            gather = rank.annotation("nccl:all_reduce" if device else "gloo:all_reduce", at + 500, 100)
            rank.detail(
                "collectives", gather, collective="allreduce", in_elements=1024, out_elements=1024, dtype="Float",
                group_size=2, group="0", ranks="[0, 1]",
            )  # fmt: skip
            if device:
                rank.kernel("sgemm", at + 300, 100, call_us=at + 20)
                rank.copy("Memcpy HtoD (Pageable -> Device)", at + 420, 20, call_us=at + 30, bytes_=4096)
                rank.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 520, 100, call_us=at + 505)
        at += length
    return rank


def profiles(lengths_us: tuple[int, ...]) -> dict[str, Profile]:
    even = (1000,) * len(lengths_us)
    return {
        "one rank": profile_of(rank_with(lengths_us)),
        "a processor": profile_of(rank_with(lengths_us, device=False)),
        "two ranks": profile_of(rank_with(even), rank_with(lengths_us, 1), layout=Layout(world_size=2)),
        "two processors": profile_of(
            rank_with(even, device=False), rank_with(lengths_us, 1, device=False), layout=Layout(world_size=2)
        ),
    }


@pytest.mark.parametrize("lengths_us", LENGTHS_US.values(), ids=LENGTHS_US)
@pytest.mark.parametrize("which", ["one rank", "a processor", "two ranks", "two processors"])
def test_every_check_answers_and_no_figure_is_infinite(lengths_us: tuple[int, ...], which: str) -> None:
    profile = profiles(lengths_us)[which]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks = [check for spec in CHECKS if (check := check_of(profile, spec.name)) is not None]
        ranked = rank_causes(profile, checks)

    facts = [fact for check in checks for sentence in check.support for fact in sentence.facts]
    assert all(math.isfinite(fact.value) for fact in facts)
    assert all(math.isfinite(each.impact_ms) and math.isfinite(each.impact_pct) for each in ranked.causes)

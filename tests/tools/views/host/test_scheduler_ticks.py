"""Operators that last whole ticks of the scheduler, against the same durations without that rhythm."""

from __future__ import annotations

import numpy as np
import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.views.host.scheduler_ticks import on_ticks, takes_turns
from tools.views.profile import Profile

NAMES = ("aten::mm", "aten::mul", "aten::tanh", "aten::native_group_norm", "aten::convolution_backward", "aten::add")


def trained(durations_ms: list[float]) -> Profile:
    """Two steps of operators of these durations, one after the other."""
    builder, at_us = RankBuilder(device=None), 0.0
    for step in range(2):
        begin = at_us
        for place, each in enumerate(durations_ms):
            builder.operator(NAMES[place % len(NAMES)], at_us + 10, each * 1000, dims=[[8, 8]])
            at_us += each * 1000 + 20
        builder.step(step, begin, at_us)
    return profile_of(builder)


def multiples(tick_ms: float) -> list[float]:
    return [tick_ms * (2 + place % 5) - 0.05 for place in range(40)]


@pytest.mark.parametrize("tick_ms", [4.0, 10.0, 10.0 / 3.0])
def test_operators_on_the_ticks_are_all_found(tick_ms: float) -> None:
    profile = trained(multiples(tick_ms))
    assert len(on_ticks(profile, 0)) == 80
    assert takes_turns(profile)


@pytest.mark.parametrize(
    "durations_ms",
    [
        pytest.param([8.0 + 0.61 * place for place in range(40)], id="any durations"),
        pytest.param([12.0] * 40, id="all of one length"),
        pytest.param([0.4 * (1 + place % 5) for place in range(40)], id="shorter than a tick"),
        pytest.param(multiples(4.0)[:10], id="few"),
    ],
)
def test_other_operators_are_not(durations_ms: list[float]) -> None:
    assert not takes_turns(trained(durations_ms))


def test_no_noise_makes_the_rhythm() -> None:
    noise = np.random.default_rng(7)
    hits = [takes_turns(trained(list(noise.lognormal(2.5, 0.6, 40)))) for _ in range(40)]
    assert not any(hits)


def test_the_core_is_shared_where_operators_last_whole_ticks() -> None:
    (finding,) = ask(trained(multiples(4.0)), "cpu.held_up").findings
    assert finding.cause == "cpu_contention"
    assert finding.claim.facts[0].value == pytest.approx(99.8, abs=0.2)
    assert finding.confidence == pytest.approx(0.85)

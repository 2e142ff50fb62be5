"""A host that is held up at operators which the other ranks' hosts pass quickly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.asked import CPU, ask, asking
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.metrics.rank_speed import operator_speed
from tools.views.profile import Profile
from tools.whatif.change import Scale

analyze = asking(*CPU)

OPERATORS, STEPS = 20, 3


def rank_of(number: int, lasting_us: list[float], steps: int = STEPS) -> RankBuilder:
    """Steps of twenty operators of the given lengths, each launching 80 us of work at its end."""
    rank = RankBuilder(number)
    at = 0.0
    for step in range(steps):
        begun = at
        for place in range(OPERATORS):
            us = lasting_us[(step * OPERATORS + place) % len(lasting_us)]
            rank.operator("aten::mm", at, us + 4)
            rank.kernel("gemm", start_us=at + us + 4, duration_us=80, call_us=at + us)
            at += us + 6
        at = max(at, begun + OPERATORS * 86) + 100
        rank.step(step, begun, at)
    return rank


def host_speed(profile: Profile) -> Check:
    return ask(profile, "cpu.host_speed")


def three(slow: list[float]) -> list[RankBuilder]:
    return [rank_of(0, [20.0]), rank_of(1, slow), rank_of(2, [20.0])]


def test_a_host_held_up_in_single_calls_is_contention_without_a_mechanism() -> None:
    profile = profile_of(*three([20.0, 20.0, 20.0, 1220.0]))
    (finding,) = host_speed(profile).findings
    assert (finding.cause, finding.mechanism, finding.ranks) == ("cpu_contention", None, (1,))
    own, excess = finding.claim.facts
    assert own.value == pytest.approx((15 * 22 + 5 * 1222) / 1e3, rel=0.01)
    assert excess.value == pytest.approx(5 * 1.2, rel=0.01)
    assert finding.details[0].facts[0].value == pytest.approx(100.0, rel=0.01)
    assert 0.5 < finding.confidence <= 0.7, "who had the core is not in a trace"
    (change,) = finding.change
    assert isinstance(change, Scale)
    assert change.factor == pytest.approx(20 * 22 / (15 * 22 + 5 * 1222), rel=0.01)


def test_a_host_that_is_slower_at_every_call_alike_is_a_hypothesis_only() -> None:
    (finding,) = host_speed(profile_of(*three([180.0]))).findings
    assert finding.confidence < 0.5
    assert "lower clock" in finding.against[-1].template


def test_equal_hosts_are_clean_and_one_rank_cannot_be_compared() -> None:
    assert host_speed(profile_of(*three([20.0]))).status == "clean"
    assert host_speed(profile_of(rank_of(0, [20.0]))).status == "cannot_answer"


def test_a_slower_host_behind_which_the_device_works_on_is_clean() -> None:
    def rank(number: int, operator_us: float) -> RankBuilder:
        built = RankBuilder(number)
        for step in range(STEPS):
            begun = step * 100_000.0
            for place in range(OPERATORS):
                at = begun + place * 1000
                built.operator("aten::mm", at, operator_us)
                built.kernel("gemm", start_us=begun + 20 + place * 4990, duration_us=4990, call_us=at)
            built.step(step, begun, begun + 100_000)
        return built

    assert host_speed(profile_of(rank(0, 20.0), rank(1, 800.0), rank(2, 20.0))).status == "clean"


def test_waits_for_the_device_inside_an_operator_are_not_its_own_time() -> None:
    ranks = three([20.0])
    ranks[1].runtime("cudaStreamSynchronize", 1, 18)
    speeds = operator_speed(profile_of(*ranks))
    assert speeds[1].own_ns == pytest.approx(speeds[0].own_ns - 18_000, abs=10)


@pytest.mark.parametrize(("delay_us", "status"), [(0.0, "cannot_answer"), (0.3e6, "clean")])
def test_records_that_show_waiting_for_a_core_answer_instead_and_others_leave_the_loss_open(
    delay_us: float, status: str
) -> None:
    slow: dict[int, list[float]] = {1: [20.0, 20.0, 20.0, 1220.0]}
    rates: dict[int, dict[str, Any]] = {rank: {"training_run_delay_us": delay_us} for rank in range(3)}
    records = records_of([row for rank in range(3) for row in [step_rows(rank, [50.0] * 40)]], rates)
    profile = recorded_profile(records, lambda rank: rank_of(rank, slow.get(rank, [20.0])))
    assert host_speed(profile).status == status


def test_a_host_held_up_in_two_steps_is_a_hypothesis() -> None:
    ranks = [rank_of(number, slow, steps=2) for number, slow in enumerate(([20.0], [20.0, 20.0, 20.0, 1220.0], [20.0]))]
    (finding,) = host_speed(profile_of(*ranks)).findings
    assert finding.confidence < 0.5
    assert len(finding.against) == 2


@pytest.mark.parametrize("steps", [1, 3])
def test_equal_hosts_whose_operators_vary_by_chance_are_clean(steps: int) -> None:
    def rank(number: int, lasting_us: np.ndarray) -> RankBuilder:
        return rank_of(number, lasting_us.tolist(), steps)

    found = 0
    for seed in range(20):
        chance = np.random.default_rng(seed)
        lasting_us = chance.lognormal(np.log(30.0), 0.8, size=(2, OPERATORS * steps))
        found += host_speed(profile_of(rank(0, lasting_us[0]), rank(1, lasting_us[1]))).status == "found"
    assert found <= 1

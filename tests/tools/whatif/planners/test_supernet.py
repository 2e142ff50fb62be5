"""The order of subnets: no dependency broken, and the published bubbles."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import by_time, in_sequence, trained
from tools.whatif.planners.supernet import Input, SupernetPlan, Times, draw, plan, schedule, stage_cuts, violations


def planned(given_input: Input) -> SupernetPlan:
    made = plan(given_input).plan
    assert isinstance(made, SupernetPlan)
    return made


@seed(3)
@settings(max_examples=60, deadline=None)
@given(
    stages=st.integers(1, 5),
    layers=st.integers(5, 12),
    choices=st.integers(1, 6),
    subnets=st.integers(1, 40),
    number=st.integers(0, 1000),
    times=st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5]), min_size=10, max_size=10),
    fetch_ms=st.sampled_from([0.0, 0.3, 2.0]),
)
def test_updates_equal_the_sequential_run_bit_for_bit(
    stages: int, layers: int, choices: int, subnets: int, number: int, times: list[float], fetch_ms: float
) -> None:
    chosen, cuts = draw(subnets, layers, choices, number), stage_cuts(layers, stages)
    made = schedule(
        chosen, cuts, Times([each + 0.1 for each in times[:5]], [each + 0.1 for each in times[5:]], fetch_ms)
    )
    assert len(made.tasks) == 2 * stages * subnets
    assert violations(made.tasks, chosen, cuts) == 0
    assert trained(chosen, cuts, by_time(made.tasks)) == trained(chosen, cuts, list(in_sequence(subnets, stages)))


def test_a_stage_runs_one_pass_at_a_time_and_after_its_neighbour() -> None:
    chosen, cuts = draw(50, 8, 5, 1), stage_cuts(8, 4)
    tasks = schedule(chosen, cuts, Times([1.0, 2.0, 1.0, 1.5], [2.0, 2.0, 3.0, 1.0])).tasks
    ends = {(each.stage, each.subnet, each.backward): each.end_ms for each in tasks}
    for stage in range(4):
        own = [each for each in tasks if each.stage == stage]
        assert all(before.end_ms <= after.start_ms for before, after in itertools.pairwise(own))
    for each in tasks:
        if not each.backward and each.stage:
            assert each.start_ms >= ends[each.stage - 1, each.subnet, False]
        if each.backward:
            source = (each.stage + 1, each.subnet, True) if each.stage < 3 else (3, each.subnet, False)
            assert each.start_ms >= ends[source]


@pytest.mark.parametrize(("layers", "choices", "bubble"), [(48, 96, 0.344), (48, 24, 0.652), (32, 12, 0.683)])
def test_the_published_bubbles(layers: int, choices: int, bubble: float) -> None:
    made = planned(Input(stages=4, layers=layers, choices=choices, subnets=1000, seed=0))
    assert made.bubble == pytest.approx(bubble, abs=0.02)
    assert made.violations == 0


def test_one_shared_choice_makes_a_sequence() -> None:
    made = planned(Input(stages=2, layers=2, choices=1, subnets=5, seed=0))
    assert made.bubble == pytest.approx(0.5)
    assert made.orders[0][:4] == ["forward.0", "backward.0", "forward.1", "backward.1"]


def test_a_broken_order_is_counted() -> None:
    chosen, cuts = [[0, 0], [0, 1]], [0, 2]
    tasks = schedule([[0, 0], [1, 1]], cuts, Times([1.0], [1.0])).tasks
    assert violations(tasks, [[0, 0], [1, 1]], cuts) == 0
    overlapping = [each for each in tasks if not each.backward] + [each for each in tasks if each.backward]
    shifted = [
        type(each)(each.stage, each.subnet, each.backward, float(n), n + 1.0) for n, each in enumerate(overlapping)
    ]
    assert violations(shifted, chosen, cuts) == 1


def test_fetching_slower_than_the_passes_stalls() -> None:
    given_input = {"stages": 2, "layers": 4, "choices": 50, "subnets": 20, "seed": 1}
    slow = planned(Input.model_validate({**given_input, "fetch_ms": 5.0}))
    fast = planned(Input.model_validate(given_input))
    assert slow.stall_ms > 0 == fast.stall_ms
    assert slow.prefetch_hit_rate < fast.prefetch_hit_rate


def test_choices_that_nobody_shares_take_a_few_hundred_bytes_each() -> None:
    layers, subnets = 100, 100
    chosen = draw(subnets, layers, 1 << 31, 5)
    tracemalloc.start()
    schedule(chosen, stage_cuts(layers, 4), Times([1.0] * 4, [1.0] * 4))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes / (layers * subnets) < 400

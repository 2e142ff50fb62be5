"""The order of subnets: no dependency broken, and the published bubbles."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import by_time, in_sequence, trained
from tools.whatif.planners.record import NoPlanError
from tools.whatif.planners.supernet import Input, SupernetPlan, plan
from tools.whatif.planners.supernet_limits import Room, least_makespan_ms
from tools.whatif.planners.supernet_schedule import Times, draw, schedule, stage_cuts, violations


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


def best_makespan(chosen: list[list[int]], cuts: list[int], times: Times) -> float:
    """The least makespan over all orders of each stage that equal the sequential run."""
    stages, count = len(cuts) - 1, len(chosen)
    tasks = [(stage, subnet, backward) for stage in range(stages) for subnet in range(count) for backward in (0, 1)]
    shares = {
        (stage, late, early)
        for stage, (first, behind) in enumerate(itertools.pairwise(cuts))
        for late in range(count)
        for early in range(late)
        if any(chosen[late][layer] == chosen[early][layer] for layer in range(first, behind))
    }

    def needed(task: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        stage, subnet, backward = task
        if backward:
            return [(stage + 1, subnet, 1) if stage + 1 < stages else (stage, subnet, 0)]
        before = [(stage - 1, subnet, 0)] if stage else []
        return before + [(stage, early, 1) for early in range(subnet) if (stage, subnet, early) in shares]

    best = float("inf")

    def extend(ends: dict[tuple[int, int, int], float], free: tuple[float, ...]) -> None:
        nonlocal best
        if max(free) >= best:
            return
        if len(ends) == len(tasks):
            best = max(free)
            return
        for task in tasks:
            if task not in ends and all(each in ends for each in needed(task)):
                stage, _, backward = task
                start = max([free[stage], *(ends[each] for each in needed(task))])
                end = start + (times.backward_ms if backward else times.forward_ms)[stage]
                extend({**ends, task: end}, (*free[:stage], end, *free[stage + 1 :]))

    extend({}, (0.0,) * stages)
    return best


@pytest.mark.parametrize("number", range(6))
def test_no_order_is_faster_than_the_bound(number: int) -> None:
    chosen, cuts = draw(3, 4, 3, number), stage_cuts(4, 2)
    times = Times([1.0, 2.0], [2.0, 1.5])
    least = least_makespan_ms(chosen, cuts, times.forward_ms, times.backward_ms)
    best = best_makespan(chosen, cuts, times)
    assert least <= best + 1e-9
    assert best <= schedule(chosen, cuts, times).makespan_ms + 1e-9


def test_the_gap_is_what_lies_above_the_bound() -> None:
    sequence = plan(Input(stages=2, layers=2, choices=1, subnets=5, seed=0))
    assert sequence.gap_ms == pytest.approx(0.0)  # each subnet has to wait for the one before
    free = plan(Input(stages=4, layers=8, choices=1 << 30, subnets=200, seed=0))
    assert free.gap_ms == pytest.approx(free.after_ms - (200 * 2 + 3 + 3), abs=6)


MEMORY = {"device_memory_bytes": 1000.0, "layer_bytes": 60.0, "activation_bytes": 30.0}


@seed(4)
@settings(max_examples=60, deadline=None)
@given(
    stages=st.integers(1, 4),
    layers=st.integers(4, 9),
    choices=st.integers(1, 6),
    subnets=st.integers(1, 30),
    number=st.integers(0, 1000),
    places=st.integers(1, 4),
    fetch_ms=st.sampled_from([0.0, 0.7]),
)
def test_with_few_places_no_stage_holds_more_and_updates_equal_the_sequential_run(
    stages: int, layers: int, choices: int, subnets: int, number: int, places: int, fetch_ms: float
) -> None:
    chosen, cuts = draw(subnets, layers, choices, number), stage_cuts(layers, stages)
    times = Times([1.0, 2.0, 0.5, 1.5][:stages], [2.0, 1.0, 3.0, 1.0][:stages], fetch_ms)
    made = schedule(chosen, cuts, times, [Room(places, places > 1)] * stages)
    assert len(made.tasks) == 2 * stages * subnets
    assert trained(chosen, cuts, by_time(made.tasks)) == trained(chosen, cuts, list(in_sequence(subnets, stages)))
    for stage in range(stages):
        own = [each for each in made.tasks if each.stage == stage]
        begun, ended = ([each for each in own if each.backward == backward] for backward in (False, True))
        held = max(
            sum(other.start_ms <= each.start_ms for other in begun)
            - sum(other.end_ms <= each.start_ms for other in ended)
            for each in begun
        )
        assert held == made.in_flight[stage] <= places


def test_memory_that_holds_fewer_subnets_takes_longer() -> None:
    given_input = {"stages": 4, "layers": 8, "choices": 40, "subnets": 60, "seed": 2, "fetch_ms": 0.5}
    made = [
        plan(Input.model_validate({**given_input, "memory": {**MEMORY, "device_memory_bytes": limit}}))
        for limit in (180.0, 300.0, 360.0, 10_000.0)
    ]
    plans = [each.plan for each in made]
    assert all(isinstance(each, SupernetPlan) for each in plans)
    assert [each.places[0] for each in plans if isinstance(each, SupernetPlan) and each.places] == [1, 1, 2, 162]
    rates = [each.prefetch_hit_rate for each in plans if isinstance(each, SupernetPlan)]
    assert rates[0] == 0 < rates[1]  # without room for two subnets' layers nothing is fetched ahead
    times = [each.after_ms for each in made]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[-1] == pytest.approx(plan(Input.model_validate(given_input)).after_ms, rel=0.05)
    for each, limit in zip(plans, (180.0, 300.0, 360.0, 10_000.0), strict=True):
        assert isinstance(each, SupernetPlan)
        assert each.stage_memory_bytes is not None
        assert max(each.stage_memory_bytes) <= limit
    assert "device memory" in made[0].bound


def test_memory_that_holds_no_subnet_has_no_plan() -> None:
    given_input = {"stages": 2, "layers": 5, "choices": 2, "subnets": 2, "seed": 0}
    with pytest.raises(NoPlanError, match="stage 0 needs 270 bytes for 3 layers of one subnet, 20 more"):
        plan(Input.model_validate({**given_input, "memory": {**MEMORY, "device_memory_bytes": 250.0}}))

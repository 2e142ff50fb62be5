"""Degrees of an expert layer against event simulation, FSMoE's regimes, memory, shadowing and fitted costs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import degree_events_ms
from tools.whatif.planners.expert_degree import DegreePlan, Input, Shadowing, plan, shadowed
from tools.whatif.planners.linear_cost import fit_line
from tools.whatif.planners.record import NoPlanError, Planned


def made(**more: object) -> Planned:
    basic = {
        "all_to_all": {"alpha_ms": 0.5, "beta_ms_per_byte": 1e-6, "bytes": 10_000_000},
        "experts": {"alpha_ms": 0.2, "beta_ms_per_operation": 1e-9, "operations": 20_000_000_000},
        "max_degree": 8,
    }
    return plan(Input.model_validate({**basic, **more}))


def degrees(**more: object) -> DegreePlan:
    found = made(**more).plan
    assert isinstance(found, DegreePlan)
    return found


COST = st.floats(0, 5)


@seed(4)
@settings(max_examples=150, deadline=None)
@given(st.tuples(COST, COST, COST, COST), st.integers(1, 12))
def test_times_are_those_of_an_event_simulation_and_no_degree_is_faster(
    costs: tuple[float, float, float, float], most: int
) -> None:
    alpha, exchange, start, compute = costs
    found = plan(
        Input.model_validate(
            {
                "all_to_all": {"alpha_ms": alpha, "beta_ms_per_byte": 1e-6, "bytes": exchange * 1e6},
                "experts": {"alpha_ms": start, "beta_ms_per_operation": 1e-9, "operations": compute * 1e9},
                "max_degree": most,
            }
        )
    )
    assert isinstance(found.plan, DegreePlan)
    expected = {r: degree_events_ms(alpha + exchange / r, start + compute / r, r) for r in range(1, most + 1)}
    for chunks, time_ms in expected.items():
        assert found.plan.times_ms[str(chunks)] == pytest.approx(time_ms, rel=1e-9, abs=1e-9)
    assert found.after_ms == pytest.approx(min(expected.values()), rel=1e-9, abs=1e-9)
    assert expected[found.plan.degree] == pytest.approx(found.after_ms, rel=1e-9, abs=1e-9)


def test_equal_degrees_go_to_the_smaller() -> None:
    free = {"alpha_ms": 0.0, "beta_ms_per_byte": 0.0, "bytes": 1}
    assert (
        degrees(all_to_all=free, experts={"alpha_ms": 0.0, "beta_ms_per_operation": 1e-9, "operations": 1e9}).degree
        == 1
    )


@pytest.mark.parametrize(
    ("more", "limit", "time_ms"),
    [
        ({"gradient_all_reduce_ms": 500.0}, "gradients", 2 * 10.5 + 500),
        ({"experts": {"alpha_ms": 90.0, "beta_ms_per_operation": 0.0, "operations": 1}}, "experts", 2 * 10.5 + 90),
        ({}, "experts", None),
        (
            {
                "gather": {"alpha_ms": 20.0, "beta_ms_per_byte": 0.0, "bytes": 1},
                "scatter": {"alpha_ms": 60.0, "beta_ms_per_byte": 0.0, "bytes": 1},
            },
            "",
            2 * 10.5 + 80 + 20.2,
        ),
    ],
)
def test_the_regimes_of_fsmoe(more: dict[str, object], limit: str, time_ms: float | None) -> None:
    found = made(**more)
    assert limit in found.bound
    assert isinstance(found.plan, DegreePlan)
    if time_ms is not None:
        assert found.plan.times_ms["1"] == pytest.approx(time_ms)
        assert found.plan.degree == 1


def test_the_four_formulas_hold_at_every_degree() -> None:
    gather = {"alpha_ms": 0.3, "beta_ms_per_byte": 2e-6, "bytes": 4e6}
    found = degrees(gather=gather, scatter=gather, gradient_all_reduce_ms=7.0)
    for chunks in range(1, 9):
        sent, inside, computed = 0.5 + 10 / chunks, 2 * (0.3 + 8 / chunks), 0.2 + 20 / chunks
        formulas = (
            2 * chunks * sent + 7.0,
            2 * chunks * sent + inside,
            2 * sent + inside + chunks * computed,
            2 * sent + chunks * inside,
        )
        assert found.times_ms[str(chunks)] == pytest.approx(max(formulas))
        backward = (*formulas[:2], 2 * sent + inside + 2 * chunks * computed, formulas[3])
        assert found.backward_times_ms[str(chunks)] == pytest.approx(max(backward))


def test_costs_are_recovered_from_noisy_points() -> None:
    source = random.Random(5)
    errors = []
    for _ in range(200):
        alpha, beta = source.uniform(0.05, 1), source.uniform(1e-7, 1e-6)
        sizes = [4.0**power * 1000 for power in range(10)]
        noisy = [(alpha + beta * size) * source.gauss(1, 0.05) for size in sizes]
        line = fit_line(sizes, noisy)
        errors.append(max(abs(line.alpha_ms / alpha - 1), abs(line.beta_ms_per_unit / beta - 1)))
    assert sorted(errors)[100] < 0.05
    assert max(errors) < 0.2


def test_a_fit_is_never_negative() -> None:
    assert fit_line([1.0, 2.0], [1.0, 3.0]).alpha_ms == 0.0
    assert fit_line([1.0, 2.0], [3.0, 1.0]).beta_ms_per_unit == 0.0


def test_points_take_the_place_of_alpha_and_beta() -> None:
    points = [{"bytes": size, "ms": 0.5 + 1e-6 * size} for size in (1e4, 1e6, 1e7)]
    assert degrees(all_to_all={"points": points, "bytes": 10_000_000}).times_ms == pytest.approx(degrees().times_ms)


def test_chunks_save_the_published_memory() -> None:
    sizes = {"tokens": 100, "model_width": 8, "hidden_width": 32, "bytes_per_element": 4}
    found = degrees(buffers=sizes)
    chunks = found.degree
    saved = 100 * (2 * 8 * (chunks - 2) / chunks + 32 * (chunks - 1) / chunks) * 4 * 2
    assert chunks > 1
    assert found.memory_saved_bytes == pytest.approx(saved)


def test_a_degree_that_does_not_fit_is_not_taken_and_none_that_fits_is_refused() -> None:
    sizes = {"tokens": 100, "model_width": 8, "hidden_width": 32, "bytes_per_element": 4}
    costly = {"alpha_ms": 90.0, "beta_ms_per_byte": 0.0, "bytes": 1}
    assert degrees(all_to_all=costly).degree == 1
    assert degrees(all_to_all=costly, buffers={**sizes, "memory_bytes": 20_000}).degree == 3
    with pytest.raises(NoPlanError, match="6400 more"):
        degrees(buffers={**sizes, "memory_bytes": 0})


def test_shadowing_is_the_best_of_all_numbers_of_copies() -> None:
    source = random.Random(6)
    for _ in range(50):
        tokens = [source.randrange(1000) for _ in range(source.randrange(1, 12))]
        given_loads = Shadowing(
            expert_tokens=tokens, compute_ms_per_token=0.01, transfer_ms_per_token=0.02, send_ms=8.0
        )
        ordered = sorted(tokens, reverse=True)
        times = [0.11 * ([*ordered, 0][copies]) + copies * 8.0 for copies in range(len(tokens) + 1)]
        found = shadowed(given_loads)
        assert found.after_ms == pytest.approx(min(times))
        assert sorted((tokens[each] for each in found.experts), reverse=True) == ordered[: len(found.experts)]

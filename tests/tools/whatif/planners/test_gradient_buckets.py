"""Gradient buckets against every way to cut the gradients."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import best_buckets_ms, bucket_end_ms
from tools.whatif.planners.gradient_buckets import BucketPlan, Input, ddp_buckets, plan

MS = st.one_of(st.integers(0, 9), st.floats(0, 20))


@st.composite
def inputs(draw: st.DrawFn) -> Input:
    ready = sorted(draw(st.lists(MS, min_size=1, max_size=8)))
    gradients = [{"ready_ms": each, "bytes": draw(st.integers(0, 50))} for each in ready]
    link = {"alpha_ms": draw(MS), "beta_ms_per_byte": draw(st.sampled_from([0.0, 0.01, 0.1, 1.0]))}
    return Input.model_validate({"gradients": gradients, "link": link, "update_ms": draw(MS)})


def planned(**given: object) -> BucketPlan:
    made = plan(Input.model_validate(given)).plan
    assert isinstance(made, BucketPlan)
    return made


@seed(1)
@settings(max_examples=200, deadline=None)
@given(inputs())
def test_the_end_is_that_of_exhaustive_search_and_of_the_buckets_given(given_input: Input) -> None:
    made = plan(given_input)
    assert isinstance(made.plan, BucketPlan)
    assert made.after_ms == pytest.approx(best_buckets_ms(given_input), rel=1e-9, abs=1e-9)
    assert made.after_ms == pytest.approx(bucket_end_ms(given_input, made.plan.buckets), rel=1e-12)
    assert [each for bucket in made.plan.buckets for each in bucket] == list(range(len(given_input.gradients)))
    assert made.before_ms is not None
    assert made.before_ms >= made.after_ms * (1 - 1e-9)


def test_the_published_pair_is_not_fused() -> None:
    gradients = [{"ready_ms": 4.0, "bytes": 2}, {"ready_ms": 9.0, "bytes": 2}]
    link = {"alpha_ms": 2.0, "beta_ms_per_byte": 0.5}  # 3 ms each, 4 ms together
    made = plan(Input.model_validate({"gradients": gradients, "link": link, "current": [[0, 1]]}))
    assert isinstance(made.plan, BucketPlan)
    assert made.plan.buckets == [[0], [1]]
    assert (made.before_ms, made.after_ms) == (13.0, 12.0)


def test_of_equal_ends_the_fewest_buckets_are_taken() -> None:
    gradients = [{"ready_ms": 0.0, "bytes": 1}] * 4 + [{"ready_ms": 100.0, "bytes": 1}]
    assert planned(gradients=gradients, link={"alpha_ms": 1.0, "beta_ms_per_byte": 1.0}).buckets == [[0, 1, 2, 3], [4]]


def test_ddp_closes_a_bucket_with_the_gradient_that_reaches_its_cap() -> None:
    assert ddp_buckets([1, 1, 5, 1, 1], 2, 4) == [[0, 1], [2], [3, 4]]


def test_the_setting_of_ddp_is_simulated_with_its_own_buckets() -> None:
    gradients = [{"ready_ms": float(each), "bytes": 1 << 20} for each in range(8)]
    made = planned(gradients=gradients, link={"alpha_ms": 0.5, "beta_ms_per_byte": 1e-6})
    sizes = [each["bytes"] for each in gradients]
    assert made.ddp.bucket_cap_mb is not None
    cap = made.ddp.bucket_cap_mb * (1 << 20)
    given_input = Input.model_validate({"gradients": gradients, "link": {"alpha_ms": 0.5, "beta_ms_per_byte": 1e-6}})
    assert made.ddp.after_ms == pytest.approx(bucket_end_ms(given_input, ddp_buckets(sizes, cap, cap)))
    assert made.ddp.default_ms == pytest.approx(bucket_end_ms(given_input, ddp_buckets(sizes, 1 << 20, 25 << 20)))


def test_no_setting_of_ddp_is_advised_that_is_slower_than_the_default() -> None:
    gradients = [{"ready_ms": 4, "bytes": 2e6}, {"ready_ms": 9, "bytes": 2e6}, {"ready_ms": 9.5, "bytes": 5e5}]
    made = planned(gradients=gradients, link={"alpha_ms": 1, "beta_ms_per_byte": 1e-6}).ddp
    assert (made.bucket_cap_mb, made.after_ms, made.default_ms) == (None, 13.0, 13.0)  # 9.5 + 1 + 2.5: [[0], [1, 2]]


def test_thousands_of_gradients_are_planned() -> None:
    gradients = [{"ready_ms": 0.01 * each, "bytes": 1000 + each % 7} for each in range(2000)]
    made = planned(gradients=gradients, link={"alpha_ms": 0.05, "beta_ms_per_byte": 1e-7})
    assert 1 < len(made.buckets) < 1000

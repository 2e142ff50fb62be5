"""Gradient buckets against every way to cut the gradients."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pydantic import ValidationError

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


def walked_end_ms(given_input: Input, buckets: list[list[int]]) -> float:
    """The end of the last transfer, from event to event: the backward pass goes on slower while one is active."""
    at, done, free, waiting = 0.0, 0.0, 0.0, [members[-1] for members in buckets]
    sizes = [sum(given_input.gradients[each].bytes for each in members) for members in buckets]
    for last, size in zip(waiting, sizes, strict=True):
        work = given_input.gradients[last].ready_ms
        if at < free:  # a transfer is active: until it ends, or the gradient is ready
            pace = 1 / given_input.compute_slowdown_during_transfer
            until = min(free, at + max(work - done, 0.0) / pace)
            done, at = done + pace * (until - at), until
            if at < free:
                done, at = done + pace * (free - at), free
        if done < work:
            at, done = at + work - done, work
        free = at + given_input.link.alpha_ms + given_input.link.beta_ms_per_byte * size
    return free


def cuts(count: int) -> list[list[list[int]]]:
    """All ways to cut ``count`` gradients into runs."""
    if count == 0:
        return [[]]
    return [[*before, list(range(first, count))] for first in range(count) for before in cuts(first)]


@seed(2)
@settings(max_examples=200, deadline=None)
@given(inputs(), st.sampled_from([1.0, 1.001, 1.3, 2.0, 10.0, 100.0]))
def test_next_to_slowing_transfers_the_end_is_the_best_of_all_cuts(given_input: Input, slowdown: float) -> None:
    slowed = given_input.model_copy(update={"compute_slowdown_during_transfer": slowdown})
    made = plan(slowed)
    assert isinstance(made.plan, BucketPlan)
    ends = {len(buckets): walked_end_ms(slowed, buckets) for buckets in cuts(len(slowed.gradients))}
    best_ms = min(walked_end_ms(slowed, buckets) for buckets in cuts(len(slowed.gradients)))
    assert made.after_ms - slowed.update_ms == pytest.approx(best_ms, rel=1e-9, abs=1e-9)
    assert walked_end_ms(slowed, made.plan.buckets) == pytest.approx(best_ms, rel=1e-9, abs=1e-9)
    assert made.before_ms == pytest.approx(ends[len(slowed.gradients)] + slowed.update_ms, rel=1e-9, abs=1e-9)
    assert made.gap_ms == pytest.approx(0.0, abs=1e-9 * best_ms + 1e-9)


def test_a_transfer_delays_what_the_backward_pass_still_computes() -> None:
    gradients = [{"ready_ms": 10.0, "bytes": 20}, {"ready_ms": 30.0, "bytes": 5}]
    link = {"alpha_ms": 0.0, "beta_ms_per_byte": 1.0}
    slowed = {"gradients": gradients, "link": link, "current": [[0, 1]], "compute_slowdown_during_transfer": 2.0}
    made = plan(Input.model_validate(slowed))
    assert isinstance(made.plan, BucketPlan)
    # From 10 to 30 ms at half speed: 10 of the 20 ms that are left are done, the second gradient is ready at 40.
    assert (made.after_ms, made.before_ms, made.plan.exposed_communication_ms) == (45.0, 55.0, 5.0)
    assert "takes 2 times as long" in made.assumptions[1]


def test_a_search_that_is_cut_short_names_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = [{"ready_ms": float(each), "bytes": 1} for each in range(12)]
    link = {"alpha_ms": 0.1, "beta_ms_per_byte": 0.5}
    slowed = Input.model_validate({"gradients": gradients, "link": link, "compute_slowdown_during_transfer": 1.5})
    exact = plan(slowed)
    monkeypatch.setattr("tools.whatif.planners.slowed_buckets.MOST_WORK", 2.0 * 12**2)  # two buckets at most
    bounded = plan(slowed)
    assert exact.gap_ms == 0.0
    assert bounded.gap_ms is not None
    assert bounded.after_ms >= exact.after_ms >= bounded.after_ms - bounded.gap_ms


def test_a_slowdown_below_one_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Input.model_validate(
            {"gradients": [{"ready_ms": 1, "bytes": 1}], "link": {"alpha_ms": 0, "beta_ms_per_byte": 0}}
            | {"compute_slowdown_during_transfer": 0.9}
        )

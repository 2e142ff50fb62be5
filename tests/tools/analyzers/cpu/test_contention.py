"""Waiting for a core, and for the interpreter."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.asked import asking
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows, traced_rank
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Finding
from tools.views.profile import Profile

analyze = asking("cpu.contention", "cpu.interpreter_lock")

STEPS = [50.0] * 40


def contended(**rates: float) -> dict[str, float]:
    return {"training_run_delay_us": 0.3e6, "run_delay_us": 0.32e6, "process_cpu_us": 0.6e6, **rates}


def contention(profile: Profile) -> Finding:
    check = analyze(profile)[0]
    assert check.status == "found"
    (finding,) = check.findings
    return finding


def test_waiting_for_a_core_next_to_busy_strangers_is_a_foreign_process() -> None:
    steps = [step_rows(rank, STEPS) for rank in (0, 1)]
    rates = {0: contended(), 1: contended()}
    finding = contention(recorded_profile(records_of(steps, rates)))
    assert (finding.cause, finding.mechanism, finding.ranks) == ("cpu_contention", "foreign_process", (0, 1))
    waited, share = finding.claim.facts
    assert waited.value == pytest.approx(15.0)
    assert share.value == pytest.approx(30.0)
    assert finding.saving is not None
    assert finding.saving.step_ms == 50.0
    assert finding.saving.saved_ms == pytest.approx(15.0)
    assert finding.details[0].facts[0].value == pytest.approx(1.8 - 1.2)


def test_only_the_rank_that_waits_carries_the_finding() -> None:
    steps = [step_rows(rank, STEPS) for rank in (0, 1)]
    finding = contention(recorded_profile(records_of(steps, {1: contended()})))
    assert finding.ranks == (1,)


def test_a_used_up_quota_goes_before_everything_else() -> None:
    rates = {0: contended(throttled_us=0.4e6)}
    profile = recorded_profile(records_of([step_rows(0, STEPS)], rates, {0: {"quota_cores": 0.5}}))
    finding = contention(profile)
    assert finding.mechanism == "cgroup_throttling"
    assert [fact.value for fact in finding.details[0].facts] == [pytest.approx(40.0), 0.5]


def sampled_seldom(delay: float, throttled: float, allowed_cores: float = 2.0) -> Profile:
    """Two samples 1.6 s apart, of which usual steps fill 1.25 s: five steps are profiled, and those next to them."""
    captured = [18 <= step <= 22 for step in range(len(STEPS))]
    rates = {0: contended(training_run_delay_us=delay, throttled_us=throttled)}
    levels = {0: {"quota_cores": 0.5, "allowed_cores": allowed_cores}}
    records = records_of([step_rows(0, STEPS, captured=captured)], rates, levels)
    return recorded_profile(replace(records, system=records.system.iloc[[4, 20]]))


def test_a_quota_holds_back_at_least_what_profiled_steps_cannot_account_for() -> None:
    finding = contention(sampled_seldom(delay=0.6e6, throttled=0.8e6))
    assert (finding.cause, finding.mechanism, finding.ranks) == ("cpu_contention", "cgroup_throttling", (0,))
    # 0.96 s of waiting, of which 0.35 s may lie in the profiled steps; of 1.28 s of throttling 0.35 s on two cores.
    assert finding.claim.facts[0].value == pytest.approx(100 * (0.96 - 0.35) / 1.25)
    throttled, quota = finding.details[0].facts
    assert throttled.value == pytest.approx(100 * (1.28 - 0.70) / 1.25)
    assert quota.value == 0.5
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(50.0 * 0.488)


def test_without_the_number_of_cores_throttling_has_no_bound() -> None:
    check = analyze(sampled_seldom(delay=0.6e6, throttled=0.8e6, allowed_cores=np.nan))[0]
    assert check.status == "cannot_answer"


def test_waiting_that_profiled_steps_can_account_for_stays_open() -> None:
    check = analyze(sampled_seldom(delay=0.2e6, throttled=0.8e6))[0]
    assert check.status == "cannot_answer"


def test_idle_cores_that_the_ranks_may_not_use_are_an_affinity() -> None:
    steps = [step_rows(rank, STEPS) for rank in (0, 1)]
    rates = {rank: contended(process_cpu_us=0.5e6, cpu_idle_ticks=100.0) for rank in (0, 1)}
    levels = {rank: {"allowed_cores": 1.0} for rank in (0, 1)}
    environments = [environment_of(rank, allowed_cores=(0,)) for rank in (0, 1)]
    finding = contention(recorded_profile(records_of(steps, rates, levels, environments)))
    assert finding.mechanism == "affinity"


def test_more_ranks_than_cores_that_they_may_use_are_an_affinity_whoever_has_the_other_cores() -> None:
    steps = [step_rows(rank, STEPS) for rank in (0, 1)]
    rates = {rank: contended(process_cpu_us=0.5e6, cpu_idle_ticks=0.0) for rank in (0, 1)}
    levels = {rank: {"allowed_cores": 1.0} for rank in (0, 1)}
    environments = [environment_of(rank, allowed_cores=(0,)) for rank in (0, 1)]
    finding = contention(recorded_profile(records_of(steps, rates, levels, environments)))
    assert finding.mechanism == "affinity"


def test_more_own_threads_than_cores_are_oversubscription() -> None:
    steps = [step_rows(rank, STEPS) for rank in (0, 1)]
    rates = {rank: contended(run_delay_us=3e6, process_cpu_us=0.9e6) for rank in (0, 1)}
    environments = [environment_of(rank, threads={"torch_intra": 8}) for rank in (0, 1)]
    finding = contention(recorded_profile(records_of(steps, rates, None, environments)))
    assert finding.mechanism == "thread_oversubscription"


def test_without_a_sign_of_who_has_the_cores_it_stays_a_hypothesis() -> None:
    finding = contention(recorded_profile(records_of([step_rows(0, STEPS)], {0: contended(process_cpu_us=1.8e6)})))
    assert finding.mechanism is None
    assert finding.confidence < 0.5
    assert finding.against


def test_a_thread_that_hardly_waits_is_clean_and_no_records_are_an_open_question() -> None:
    rates = {0: {"training_run_delay_us": 0.02e6}}
    check = analyze(recorded_profile(records_of([step_rows(0, STEPS)], rates)))[0]
    assert check.status == "clean"
    assert check.support[0].facts[0].value == pytest.approx(2.0)
    assert [each.status for each in analyze(profile_of(traced_rank(0)))] == ["cannot_answer", "cannot_answer"]


def test_a_busy_side_thread_while_the_training_thread_is_blocked_is_the_interpreter() -> None:
    steps = step_rows(0, STEPS, thread_cpu_ms=20.0)
    check = analyze(recorded_profile(records_of([steps], {0: {"python_threads_cpu_us": 0.8e6}})))[1]
    (finding,) = check.findings
    assert (finding.cause, finding.mechanism) == ("operator_dispatch", "gil_contention")
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(30.0)
    assert finding.confidence <= 0.75


def test_a_side_thread_keeps_the_interpreter_no_longer_than_it_runs() -> None:
    steps = step_rows(0, STEPS, thread_cpu_ms=20.0)
    (finding,) = analyze(recorded_profile(records_of([steps], {0: {"python_threads_cpu_us": 0.4e6}})))[1].findings
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(20.0)


def switching(rank: int) -> RankBuilder:
    """Steps of 50 ms in which the training thread twice waits for a turn of another thread, once for two turns."""
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        begin = step * 50_000
        for at, long in ((0, 10_000), (15_100, 10_000), (30_300, 9_000), (49_600, 400)):
            builder.operator("aten::mm", begin + at, long)
        builder.step(1000 + step, begin, begin + 50_000)
    return builder


def test_pauses_of_the_switch_interval_show_that_it_is_the_interpreter() -> None:
    records = records_of([step_rows(0, STEPS, thread_cpu_ms=20.0)], {0: {"python_threads_cpu_us": 0.8e6}})
    (finding,) = analyze(recorded_profile(records, switching))[1].findings
    assert finding.details[0].facts[0].value == pytest.approx(3.0)
    assert finding.confidence > 0.75
    assert finding.against == ()


def pausing(chance: np.random.Generator, rank: int) -> RankBuilder:
    """Three steps with ten pauses each, of any length between one and twelve milliseconds."""
    builder, at = RankBuilder(rank=rank, device=None), 0.0
    for step in range(3):
        begin = at
        for _ in range(10):
            builder.operator("aten::mm", at, 2000)
            at += 2000 + chance.uniform(1000, 12_000)
        builder.step(1000 + step, begin, at)
    return builder


def test_pauses_of_any_length_do_not_show_that_it_is_the_interpreter() -> None:
    records = records_of([step_rows(0, [85.0] * 40, thread_cpu_ms=20.0)], {0: {"python_threads_cpu_us": 0.8e6}})
    shown_by_pauses = 0
    for seed in range(10):
        profile = recorded_profile(records, partial(pausing, np.random.default_rng(seed)))
        (finding,) = analyze(profile)[1].findings
        shown_by_pauses += finding.confidence > 0.75
    assert shown_by_pauses == 0


def test_waiting_for_a_core_in_a_passing_stretch_with_nobody_to_name_is_no_contention() -> None:
    records = records_of([step_rows(0, STEPS)], {0: contended(process_cpu_us=1.8e6)})
    system = records.system.copy()
    waited = np.where(system["unix_ns"] < system["unix_ns"].quantile(0.7), 0.0, 1.0)
    system["training_run_delay_us"] = np.cumsum(waited) * 60e3
    check = analyze(recorded_profile(replace(records, system=system)))[0]
    assert check.status == "clean"
    whole, usual = check.support[0].facts
    assert whole.value > 10.0
    assert usual.value == 0.0


def test_waiting_in_every_third_sample_is_no_passing_stretch() -> None:
    records = records_of([step_rows(0, STEPS)], {0: contended(process_cpu_us=1.8e6)})
    system = records.system.copy()
    system["training_run_delay_us"] = np.cumsum(np.where(np.arange(len(system)) % 3 == 0, 60e3, 0.0))
    finding = contention(recorded_profile(replace(records, system=system)))
    assert finding.confidence < 0.5
    assert finding.against[0].facts[0].value == 0.0


@pytest.mark.parametrize(
    ("columns", "rates"),
    [
        pytest.param({"thread_cpu_ms": 49.8}, {"python_threads_cpu_us": 0.8e6}, id="the training thread runs"),
        pytest.param({"thread_cpu_ms": 20.0}, {"python_threads_cpu_us": 0.1e6}, id="the side thread is quiet"),
        pytest.param(
            {"thread_cpu_ms": 20.0, "data_wait_ms": 30.0}, {"python_threads_cpu_us": 0.8e6}, id="it waits for data"
        ),
        pytest.param(
            {"thread_cpu_ms": 20.0},
            {"python_threads_cpu_us": 0.8e6, "training_run_delay_us": 0.6e6},
            id="it waits for a core",
        ),
    ],
)
def test_a_side_thread_that_holds_nothing_up_is_clean(columns: dict[str, float], rates: dict[str, float]) -> None:
    steps = step_rows(0, STEPS, **columns)
    assert analyze(recorded_profile(records_of([steps], {0: rates})))[1].status == "clean"

"""What is answered from records alone: causes that whole steps show, and that nothing else was looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows, untraced_profile
from tools.analyzers.registry import CHECKS, all_checks
from tools.comparison.compare import compare
from tools.errors import NotComparableError
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.run.model import Layout, Run
from tools.views.profile import Profile
from tools.views.steps.coarse import capture_of

WALL_MS = 100.0
STEPS = 60


def profile_of(*ranks: dict[str, Any], levels: dict[str, float] | None = None) -> Profile:
    steps = [
        step_rows(rank, [WALL_MS] * STEPS, **{"own_ms": 50.0, "thread_cpu_ms": 50.0, **columns})
        for rank, columns in enumerate(ranks)
    ]
    every = {rank: {"children": 0.0, **(levels or {})} for rank in range(len(ranks))}
    return untraced_profile(records_of(steps, levels=every))


def named(profile: Profile, name: str) -> Check:
    (check,) = (check for check in all_checks(profile) if check.name == name)
    return check


def test_what_needs_a_trace_says_so_with_the_capture_to_take() -> None:
    profile = profile_of({}, {})
    answered = {check.name: check for check in all_checks(profile)}
    for name in (spec.name for spec in CHECKS if not spec.from_records and spec.name in answered):
        assert answered[name].status == "cannot_answer"
        assert "hermes-dx monitor profile RUN_FOLDER --ranks 0,1 --steps 3" in answered[name].needs


def test_no_question_that_a_trace_answers_is_left_unmentioned() -> None:
    records = records_of([step_rows(rank, [50.0] * STEPS) for rank in range(2)])
    with_trace = {check.name for check in all_checks(recorded_profile(records))}
    assert with_trace <= {check.name for check in all_checks(untraced_profile(records))}


def test_a_run_without_anything_to_see_in_whole_steps_is_not_called_healthy() -> None:
    result = ranking(profile_of({}, {}))
    assert (result.verdict, result.causes) == ("inconclusive", ())
    assert "hermes-dx monitor profile" in result.needs


def test_a_loader_that_computes_in_one_rank_is_named_with_what_it_costs() -> None:
    result = ranking(profile_of({}, {"own_ms": 90.0, "data_wait_ms": 40.0, "thread_cpu_ms": 90.0}))
    assert result.verdict == "problem"
    (cause,) = result.causes
    assert (cause.finding.cause, cause.finding.mechanism) == ("slow_data_processing", "heavy_transform")
    assert cause.finding.ranks == (1,)
    assert cause.impact_ms == pytest.approx(40.0)
    assert cause.step_ms == pytest.approx(WALL_MS)


def test_a_loader_in_which_the_thread_sleeps_reads() -> None:
    waiting = {"own_ms": 95.0, "data_wait_ms": 40.0, "thread_cpu_ms": 52.0}
    (cause,) = ranking(profile_of(waiting, waiting)).causes
    assert cause.finding.cause == "slow_data_reading"
    assert cause.impact_ms == pytest.approx(40.0)


def test_what_blocks_a_thread_that_may_have_waited_for_others_is_not_said() -> None:
    waiting = {"own_ms": 65.0, "data_wait_ms": 30.0, "thread_cpu_ms": 60.0}
    (cause,) = ranking(profile_of(waiting, waiting)).causes
    assert (cause.finding.cause, cause.finding.mechanism) == ("slow_data_processing", "unexplained_wait")
    assert cause.finding.confidence <= 0.65
    assert any("is not recorded" in sentence.template for sentence in cause.finding.against)


def test_a_rank_that_takes_longer_for_no_named_reason_is_a_straggler() -> None:
    profile = profile_of({}, {"own_ms": 90.0, "thread_cpu_ms": 90.0})
    (cause,) = ranking(profile).causes
    assert (cause.finding.cause, cause.finding.ranks) == ("straggler", (1,))
    assert cause.impact_ms == pytest.approx(40.0)
    assert "--ranks 1 " in capture_of(profile)


def test_a_rank_that_takes_as_long_as_the_one_without_a_core_is_no_straggler() -> None:
    """Both take 100 ms by the clock; rank 1 has no core for 60 ms of it, rank 0, which waits for it, for 10 ms."""
    steps = [step_rows(rank, [WALL_MS] * STEPS, own_ms=WALL_MS + 0.2 - 0.2 * rank) for rank in (0, 1)]
    rates = {rank: {"training_run_delay_us": share * 1e6} for rank, share in ((0, 0.1), (1, 0.6))}
    profile = untraced_profile(records_of(steps, rates))
    check = named(profile, "communication.slowest_rank")
    assert check.status == "clean"
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([0.2, 0.2])
    assert [each.finding.cause for each in ranking(profile).causes] == ["cpu_contention"]


def test_of_several_ranks_the_one_beyond_the_others_in_both_times_is_late() -> None:
    """Rank 0 has most time without a name, but only because data wait is taken off the others: rank 2 takes longest."""
    columns = ({"own_ms": 60.0}, {"own_ms": 60.0, "data_wait_ms": 20.0}, {"own_ms": 95.0, "data_wait_ms": 20.0})
    check = named(profile_of(*columns), "communication.slowest_rank")
    (finding,) = check.findings
    assert finding.ranks == (2,)
    # 75 ms without data wait against the median of 60 and 40: 25 ms, of the others' 60 ms
    assert finding.claim.facts[0].value == pytest.approx(100.0 * 25.0 / 60.0)


def test_ranks_as_far_apart_as_shared_cores_make_them_are_clean() -> None:
    check = named(profile_of({}, {"own_ms": 56.0}), "communication.slowest_rank")
    assert check.status == "clean"
    assert [fact.value for fact in check.support[0].facts] == [pytest.approx(12.0), pytest.approx(6.0)]


def test_host_time_of_a_run_with_accelerators_is_a_hypothesis() -> None:
    waiting = {"own_ms": 90.0, "data_wait_ms": 40.0, "thread_cpu_ms": 90.0}
    result = ranking(profile_of(waiting, waiting, levels={"device_allocated_bytes": 1e9}))
    assert result.verdict == "inconclusive"
    assert all(cause.finding.confidence < 0.5 for cause in result.causes)


def test_an_empty_queue_of_workers_starves_accelerators_for_certain() -> None:
    waiting = {"own_ms": 90.0, "data_wait_ms": 40.0, "in_flight": 4.0, "result_queue": 0.0}
    result = ranking(profile_of(waiting, waiting, levels={"device_allocated_bytes": 1e9}))
    assert result.verdict == "problem"
    assert result.causes[0].finding.cause == "slow_data_processing"


@pytest.mark.parametrize(
    "depths",
    [
        pytest.param({"result_queue": 4.0, "pinned_queue": 2.0}, id="batches are ready"),
        pytest.param({"result_queue": 0.0, "pinned_queue": 2.0}, id="in pinned memory alone"),
        pytest.param({}, id="not recorded"),
    ],
)
def test_workers_that_may_have_batches_ready_do_not_starve_accelerators_for_certain(depths: dict[str, float]) -> None:
    waiting = {"own_ms": 90.0, "data_wait_ms": 40.0, "in_flight": 4.0, **depths}
    result = ranking(profile_of(waiting, waiting, levels={"device_allocated_bytes": 1e9}))
    assert result.verdict == "inconclusive"
    assert result.causes[0].finding.confidence == 0.45


@pytest.mark.parametrize(
    "fields_of_rank",
    [
        pytest.param({"torch": "2.13.0"}, id="torch may have been built for one"),
        pytest.param({"torch": None}, id="no torch"),
        pytest.param({"variables": {"ASCEND_RT_VISIBLE_DEVICES": "0"}}, id="one is added to a torch for the CPU"),
        pytest.param({"flags": {"accelerator": "npu"}}, id="torch uses one that no sample counts"),
        pytest.param({"flags": {"accelerator": "unknown"}}, id="torch does not know"),
    ],
)
def test_host_time_is_a_hypothesis_where_an_accelerator_is_not_ruled_out(fields_of_rank: dict[str, Any]) -> None:
    waiting = {"own_ms": 90.0, "data_wait_ms": 40.0, "thread_cpu_ms": 90.0}
    steps = [step_rows(rank, [WALL_MS] * STEPS, **waiting) for rank in range(2)]
    settings = (environment_of(0), environment_of(1, **fields_of_rank))
    result = ranking(untraced_profile(records_of(steps, environments=settings)))
    assert result.verdict == "inconclusive"
    assert result.causes[0].finding.confidence == 0.45


def test_host_time_is_certain_where_torch_says_that_it_uses_no_accelerator() -> None:
    steps = [step_rows(0, [WALL_MS] * STEPS, data_wait_ms=40.0)]
    settings = (environment_of(0, torch="2.13.0+cu130", flags={"accelerator": "none"}),)
    assert ranking(untraced_profile(records_of(steps, environments=settings))).verdict == "problem"


def test_a_step_log_alone_does_not_rule_an_accelerator_out() -> None:
    log = pd.DataFrame({"rank": 0, "step": range(STEPS), "wall_ms": WALL_MS})
    assert Profile(Run((), (), Layout(), None, step_log=log)).accelerated


def test_a_wait_of_one_rank_whose_own_time_nobody_told_is_a_hypothesis_and_costs_that_at_most() -> None:
    unwatched = {"own_ms": float("nan")}
    result = ranking(profile_of({**unwatched, "data_wait_ms": 20.0}, unwatched))
    (finding,) = (cause.finding for cause in result.causes)
    assert (result.verdict, finding.confidence) == ("inconclusive", 0.45)
    assert "at most {1} shorter" in finding.claim.template
    assert any("watch_model" in sentence.template for sentence in finding.against)
    assert finding.saving is not None
    assert (finding.saving.least_ms, finding.saving.most_ms) == (0.0, 20.0)


def test_a_wait_of_all_ranks_is_certain_without_their_own_times() -> None:
    waiting = {"own_ms": float("nan"), "data_wait_ms": 20.0}
    assert ranking(profile_of(waiting, waiting)).verdict == "problem"


def test_ranks_that_hardly_do_anything_but_wait_for_data_are_not_worlds_apart() -> None:
    waiting = {"data_wait_ms": 50.0}
    check = named(profile_of({"own_ms": 50.0, **waiting}, {"own_ms": 52.0, **waiting}), "communication.slowest_rank")
    assert check.status == "clean"
    assert check.support[0].facts[0].value == pytest.approx(4.0)


def test_a_profiler_that_always_runs_is_told_and_its_cost_is_not_made_up() -> None:
    check = named(profile_of({}, {}, levels={"profiler_active": 1.0}), "cpu.profiling_overhead")
    (finding,) = check.findings
    assert finding.cause == "profiling_overhead"
    assert finding.impact_ms == 0.0
    assert finding.claim.facts[0].value == 100.0


def test_a_variable_of_the_environment_file_is_seen_without_a_trace() -> None:
    profile = profile_of({}, {})
    run = replace(profile.run, variables={"NCCL_DEBUG": "TRACE"})
    (finding,) = named(Profile(run), "cpu.environment").findings
    assert finding.hints == {"variable": "NCCL_DEBUG"}
    assert finding.ranks == (0, 1)


def test_two_recorded_runs_are_compared_by_their_step_time() -> None:
    before, after = profile_of({}), untraced_profile(records_of([step_rows(0, [80.0] * STEPS)]))
    comparison = compare(before, after)
    assert comparison.step.delta == pytest.approx(-20.0)
    assert comparison.parts == ()
    assert any("assumed" in note for note in comparison.notes)


def test_recorded_runs_of_other_ranks_are_not_compared() -> None:
    two = profile_of({}, {})
    with pytest.raises(NotComparableError, match=r"world size.*records of other ranks"):
        compare(profile_of({}), two)
    bare = Profile(replace(two.run, records=None, layout=Layout()))
    with pytest.raises(NotComparableError, match="no records or step log"):
        compare(two, bare)


def test_settings_of_the_monitor_are_read_as_with_a_trace() -> None:
    steps = [step_rows(0, [WALL_MS] * STEPS)]
    records = records_of(steps, environments=(environment_of(0, variables={"PYTHONDEVMODE": "1"}),))
    (finding,) = named(untraced_profile(records), "cpu.environment").findings
    assert finding.mechanism == "debug_variable"

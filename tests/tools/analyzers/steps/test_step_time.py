"""The coarse tests of a series of step times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.asked import STEP_TIME, asking
from tests.collective_runs import late_run
from tests.synthetic import RankBuilder, profile_of
from tools.errors import UsageError
from tools.findings import Check
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.coarse import step_series
from tools.views.steps.shape import StepSeries

analyze = asking(*STEP_TIME)

NOISE = np.random.default_rng(7).normal(0.0, 0.5, 60)


def steps_of(*ms: float) -> Profile:
    rank = RankBuilder(0)
    start = 0.0
    for number, length in enumerate(ms):
        rank.kernel("sgemm", start + 20, 500, call_us=start + 10)
        rank.step(number, start, start + 1e3 * length)
        start += 1e3 * length
    return profile_of(rank)


def answers(profile: Profile) -> dict[str, Check]:
    return {check.name.removeprefix("step_time."): check for check in analyze(profile)}


def series(*ms: float) -> StepSeries:
    return StepSeries(np.arange(len(ms)), np.array(ms, dtype=np.float64))


def test_a_steady_series_is_clean_and_what_it_is_too_short_for_is_said() -> None:
    checks = answers(steps_of(*[100.0] * 5))
    status = {name: check.status for name, check in checks.items()}
    assert status == {
        "level": "clean",
        "fluctuation": "clean",
        "trend": "cannot_answer",
        "change_point": "cannot_answer",
        "periodicity": "cannot_answer",
        "slowest_rank": "cannot_answer",
    }
    assert checks["level"].support[0].facts[0].value == 100.0


def test_a_spike_is_named_with_the_part_that_grew() -> None:
    check = answers(steps_of(10, 10, 16, 10, 10))["fluctuation"]
    assert (check.status, check.findings) == ("found", ())
    assert check.support[0].facts[1].value == 1
    assert check.support[1].template.startswith("step 2 ")
    assert [fact.value for fact in check.support[1].facts] == pytest.approx([6.0, 6.0])
    assert dict(check.support[1].facts[1].arguments)["part"] == "host"


def test_a_spike_names_the_rank_that_took_longer_and_not_those_that_waited_for_it() -> None:
    profile = late_run(lambda rank, step: 6000.0 if (rank, step) == (2, 3) else 0.0, how="host")
    sentence = answers(profile)["fluctuation"].support[1]
    assert sentence.template.startswith("step 3 ")
    arguments = dict(sentence.facts[1].arguments)
    assert (arguments["rank"], arguments["part"]) == (2, "host")


def test_a_recording_without_steps_is_not_called_a_usual_step() -> None:
    profile = steps_of(10.0)
    window = replace(profile.run.ranks[0], step_origin="window")
    (check, *_) = analyze(Profile(replace(profile.run, ranks=(window,))))
    assert check.support[0].template.startswith("No steps are marked")


def test_a_device_that_begins_behind_the_host_is_said_to_lengthen_the_mean() -> None:
    rank = RankBuilder(0)
    rank.kernel("of a step before", -50, 1550)
    for number in range(3):
        rank.kernel("sgemm", 1500 + 1000 * number, 1000, call_us=1000 * number + 10)
        rank.annotation(f"ProfilerStep#{number}", 1000 * number, 1000)
        rank.step(number, 1000 * number, 4500 if number == 2 else 1000 * (number + 1), marked=False)
    level = answers(profile_of(rank))["level"]
    assert [sentence.facts[0].value for sentence in level.support] == pytest.approx([1.0, 1.5])


def test_a_device_that_begins_with_the_host_has_no_backlog() -> None:
    assert measure(steps_of(10, 10, 10), "device_backlog_ms", rank=0).value == 0


def test_ten_percent_over_the_usual_step_is_the_limit() -> None:
    assert series(100, 100, 100, 109.9).fluctuating(10.0).tolist() == []
    assert series(100, 120, 100, 100, 111).fluctuating(10.0).tolist() == [1, 4]


def test_work_left_in_the_queue_does_not_make_the_last_step_a_spike() -> None:
    rank = RankBuilder(0)
    for number in range(4):
        rank.kernel("sgemm", 1000 * number + 20, 900, call_us=1000 * number + 10)
        rank.annotation(f"ProfilerStep#{number}", 1000 * number, 1000)
        rank.step(number, 1000 * number, 1000 * (number + 1) + (5000 if number == 3 else 0), marked=False)
    profile = profile_of(rank)
    assert profile.step_ms.max() == 6.0
    assert step_series(profile).ms.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert answers(profile)["fluctuation"].status == "clean"


def test_a_drift_is_a_trend_and_not_a_jump() -> None:
    ms = 100.0 + np.arange(40) + NOISE[:40]
    checks = answers(steps_of(*ms))
    assert checks["trend"].status == "found"
    drift, first, last = checks["trend"].support[0].facts
    assert drift.value == pytest.approx(100.0 * 39 / np.median(ms), rel=0.05)
    assert (first.value, last.value) == pytest.approx((np.median(ms[:10]), np.median(ms[-10:])))
    assert checks["change_point"].status == "clean"


def test_a_jump_is_a_change_of_level_and_not_a_trend() -> None:
    ms = np.where(np.arange(30) < 18, 100.0, 130.0) + NOISE[:30]
    checks = answers(steps_of(*ms))
    assert checks["change_point"].status == "found"
    assert "step 18" in checks["change_point"].support[0].template
    assert checks["change_point"].support[0].facts[0].value == pytest.approx(30.0, abs=1.0)
    assert checks["trend"].status == "clean"


def test_noise_alone_is_neither_trend_nor_jump_nor_rhythm() -> None:
    checks = answers(steps_of(*(100.0 + NOISE)))
    assert {checks[name].status for name in ("fluctuation", "trend", "change_point", "periodicity")} == {"clean"}


@pytest.mark.parametrize("period", [4, 7, 10])
def test_long_steps_at_equal_distance_are_a_rhythm_with_its_period(period: int) -> None:
    ms = np.where(np.arange(60) % period == 3, 150.0, 100.0) + NOISE
    check = answers(steps_of(*ms))["periodicity"]
    assert check.status == "found"
    assert check.support[0].facts[0].value == period


def test_long_steps_at_random_are_no_rhythm() -> None:
    ms = np.where(np.isin(np.arange(60), [4, 9, 11, 26, 33, 55]), 150.0, 100.0) + NOISE
    assert answers(steps_of(*ms))["periodicity"].status == "clean"


def test_a_constant_series_has_neither_change_point_nor_rhythm() -> None:
    checks = answers(steps_of(*[100.0] * 30))
    assert (checks["change_point"].status, checks["periodicity"].status) == ("clean", "clean")
    with pytest.raises(UsageError, match="change point"):
        measure(steps_of(*[100.0] * 30), "level_shift_pct")


def test_the_slowest_rank_is_found_although_all_walls_are_equal() -> None:
    profile = late_run(lambda rank, step: 2000.0 if rank == 3 else 0.0)
    assert measure(profile, "rank_spread_pct", of="wall").value == 0.0
    check = answers(profile)["slowest_rank"]
    assert check.status == "found"
    assert "rank 3" in check.support[0].template
    own = 20 + 4000 + 100
    assert check.support[0].facts[0].value == pytest.approx((own + 2000) / 1e3)
    assert check.support[0].facts[1].value == pytest.approx(100.0 * 2000 / (own + 500))


def test_equal_ranks_are_clean() -> None:
    assert answers(late_run(lambda rank, step: 0.0))["slowest_rank"].status == "clean"


def test_an_unknown_step_or_part_is_a_usage_error() -> None:
    profile = steps_of(10, 10, 10)
    with pytest.raises(UsageError, match="no step 9"):
        measure(profile, "step_excess_ms", step=9)
    with pytest.raises(UsageError, match="no part 'lunch'"):
        measure(profile, "step_part_excess_ms", part="lunch", step=0, rank=0)

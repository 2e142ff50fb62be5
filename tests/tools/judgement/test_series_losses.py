"""Losses of the series next to the causes of a problem: seen, counted once, left out where a cause is what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hermes_agent.report.opening import opening
from tests.recorded_runs import environment_of, records_of, step_rows, untraced_profile
from tools.judgement.lead import Lead
from tools.judgement.ranking import Ranking, ranking
from tools.judgement.series_losses import series_losses
from tools.views.profile import Profile

STEPS, SETTLING = 130, 10


def _loading(walls_ms: Sequence[float], waits_ms: Sequence[float], **columns: Any) -> Profile:  # noqa: ANN401 (columns)
    """One rank whose loader is waited for so long in each step; the thread computes in the rest."""
    cpu = np.asarray(walls_ms) - np.asarray(waits_ms)
    steps = step_rows(0, walls_ms, data_wait_ms=waits_ms, thread_cpu_ms=cpu.tolist(), fetches=1, **columns)
    return untraced_profile(records_of([steps], environments=[environment_of(0)]))


def _found(profile: Profile) -> tuple[Ranking, list[Lead]]:
    found = ranking(profile)
    assert found.verdict == "problem"
    assert found.causes[0].finding.family == "io"
    return found, [each for each in found.leads if each.loss]


def _usual(length_ms: float = 100.0) -> list[float]:
    return [length_ms + step % 3 for step in range(STEPS)]


def test_a_longer_level_next_to_a_problem_is_a_lead_with_what_it_adds_to_the_mean_step() -> None:
    walls = [wall + (60.0 if step >= 70 else 0.0) for step, wall in enumerate(_usual())]
    found, (lead,) = _found(_loading(walls, [40.0] * STEPS))
    assert (lead.place.steps, lead.loss) == ("from step 70 on", "longer steps from step 70 on")
    assert lead.impact_ms == pytest.approx(60.0 * 60 / (STEPS - SETTLING), rel=0.02)
    assert lead in found.leads


def test_a_longer_level_in_which_the_data_come_later_is_the_cause_itself() -> None:
    waits = [40.0 + (60.0 if step >= 70 else 0.0) for step in range(STEPS)]
    walls = [wall + wait for wall, wait in zip(_usual(60.0), waits, strict=True)]
    assert not _found(_loading(walls, waits))[1]


def test_half_of_a_longer_level_that_no_cause_holds_stays_a_lead() -> None:
    waits = [40.0 + (20.0 if step >= 70 else 0.0) for step in range(STEPS)]
    pairs = zip(_usual(60.0), waits, strict=True)
    walls = [wall + wait + (40.0 if step >= 70 else 0.0) for step, (wall, wait) in enumerate(pairs)]
    (lead,) = _found(_loading(walls, waits))[1]
    assert lead.impact_ms == pytest.approx(60.0 * 60 / (STEPS - SETTLING), rel=0.02)


def test_steady_growth_next_to_a_problem_is_a_lead_and_growing_waits_are_none() -> None:
    grown = [wall + step for step, wall in enumerate(_usual())]
    (lead,) = _found(_loading(grown, [40.0] * STEPS))[1]
    assert lead.loss == "steps that get steadily longer"
    assert lead.impact_ms == pytest.approx((STEPS - SETTLING - 1) / 2, rel=0.05)
    waits = [40.0 + step for step in range(STEPS)]
    assert not _found(_loading([60.0 + step % 3 + wait for step, wait in enumerate(waits)], waits))[1]


LONG = (17, 31, 44, 59, 83, 96, 121)  # no rhythm


def test_single_long_steps_are_a_lead_with_their_number_and_cost() -> None:
    walls = [wall + (300.0 if step in LONG else 0.0) for step, wall in enumerate(_usual())]
    (lead,) = _found(_loading(walls, [40.0] * STEPS))[1]
    assert [fact.value for fact in lead.claim.facts[:2]] == pytest.approx([7, 300.0], rel=0.01)
    assert lead.impact_ms == pytest.approx(7 * 300.0 / (STEPS - SETTLING), rel=0.01)
    assert "garbage_collection" not in [each.cause for each in lead.candidates], "the monitor records collections"


def test_single_long_steps_that_wait_for_data_and_cheap_ones_are_none() -> None:
    waits = [340.0 if step in LONG else 40.0 for step in range(STEPS)]
    assert not _found(_loading([60.0 + step % 3 + wait for step, wait in enumerate(waits)], waits))[1]
    cheap = [wall + (60.0 if step in LONG else 0.0) for step, wall in enumerate(_usual())]
    assert not _found(_loading(cheap, [40.0] * STEPS))[1]


def test_long_steps_at_one_distance_of_which_only_the_length_is_known_are_a_lead_next_to_a_problem() -> None:
    walls = [wall + (300.0 if step % 10 == 9 else 0.0) for step, wall in enumerate(_usual())]
    found, (lead,) = _found(untraced_profile(records_of([step_rows(0, walls, data_wait_ms=[40.0] * STEPS, fetches=1)])))
    assert (lead.place.steps, lead.loss) == ("every 10th step", "long steps every 10 steps")
    assert lead.impact_ms == pytest.approx(30.0, rel=0.01)
    assert "checkpoint_stall" not in [each.finding.cause for each in found.causes]


def test_the_opening_of_a_problem_names_the_other_loss_with_its_cost_and_lead() -> None:
    walls = [wall + (60.0 if step >= 70 else 0.0) for step, wall in enumerate(_usual())]
    profile = _loading(walls, [40.0] * STEPS)
    found, (lead,) = _found(profile)
    said = [each for each in opening(profile, found) if each.template.startswith("Also seen")]
    assert [each.template for each in said] == [
        "Also seen: longer steps from step 70 on, which add {0} to the mean step (lead 1)."
    ]
    assert said[0].facts[0].value == lead.impact_ms
    healthy = replace(found, verdict="inconclusive")
    assert not [each for each in opening(profile, healthy) if each.template.startswith("Also seen")]


def _contended(share: float) -> tuple[str, list[Lead]]:
    """The first cause and the losses of steps that get longer half-way, waiting for a core for so much of each."""
    walls = [wall + (60.0 if step >= 70 else 0.0) for step, wall in enumerate(_usual())]
    steps = step_rows(0, walls, thread_cpu_ms=[wall * (1.0 - share) for wall in walls])
    rates = {"training_run_delay_us": 1e6 * share, "cpu_idle_ticks": 0.0, "process_cpu_us": 1e6 * (1.0 - share)}
    found = ranking(untraced_profile(records_of([steps], rates={0: rates}, environments=[environment_of(0)])))
    assert found.verdict == "problem"
    return found.causes[0].finding.cause, [each for each in found.leads if each.loss]


def test_waiting_for_a_core_explains_longer_steps_as_far_as_samples_show_it_there() -> None:
    cause, (lead,) = _contended(0.3)
    assert cause == "cpu_contention"
    assert "is not recorded" not in lead.claim.template
    assert _contended(0.6) == ("cpu_contention", [])


def test_a_cause_whose_time_no_step_records_is_named_as_open() -> None:
    walls = [wall + (60.0 if step >= 70 else 0.0) for step, wall in enumerate(_usual())]
    profile = _loading(walls, [40.0] * STEPS)
    (first, *others) = ranking(profile).causes
    unseen = replace(first, finding=replace(first.finding, cause="operator_dispatch"))
    (lead,) = series_losses(profile, [unseen, *others])
    assert lead.claim.template.endswith("({3}). Whether cause 1 makes them long is not recorded.")
    assert lead.loss == "longer steps from step 70 on (perhaps part of cause 1)"
    occasional = replace(first, finding=replace(first.finding, cause="operator_compilation"))
    assert not series_losses(profile, [occasional, *others]), "it makes some steps long itself"


def test_single_long_steps_are_left_out_where_an_uneven_cause_of_unknown_share_may_make_them() -> None:
    walls = [wall + (300.0 if step in LONG else 0.0) for step, wall in enumerate(_usual())]
    profile = _loading(walls, [40.0] * STEPS)
    (first, *others) = ranking(profile).causes
    for cause, seen in (("slow_link", 0), ("operator_dispatch", 0), ("underutilization", 1)):
        unseen = replace(first, finding=replace(first.finding, cause=cause))
        assert len(series_losses(profile, [unseen, *others])) == seen, cause

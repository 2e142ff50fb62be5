"""A few committed runs, diagnosed with everything and with some of their sources; the evaluation does so with all."""

from __future__ import annotations

import pytest

from evals.results.source_table import by_sources
from evals.suite.carry_out import Conditions, carry_out
from evals.suite.labels import recorded_cases
from evals.suite.outcome import CaseResult
from evals.suite.run_places import RECORDED, Places

RUNS = ("lab-heap-one-rank-images-strong", "lab-narrow-link-images-strong")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[CaseResult]:
    if not RECORDED.is_dir():
        pytest.skip("the recordings of the lab are not in this checkout")
    places = Places(tmp_path_factory.mktemp("none"), (RECORDED,))
    conditions = Conditions(places, tmp_path_factory.mktemp("cache"))
    cases = [case for case in recorded_cases((RECORDED,), "lab") if case.tags.run in RUNS]
    return [carry_out(case, conditions) for case in cases]


def test_a_right_answer_stays_right_or_open_when_sources_are_added_or_removed(answers: list[CaseResult]) -> None:
    assert {r.id: r.reason for r in answers if r.status == "failed"} == {}
    assert len(answers) == 7 * len(RUNS)
    assert by_sources(answers).contradictions == []


def test_with_everything_these_runs_are_answered_right(answers: list[CaseResult]) -> None:
    assert {r.standing for r in answers if r.tags.sources == "all"} == {"right"}


def test_no_lead_asks_for_what_the_run_holds(answers: list[CaseResult]) -> None:
    scores = [r.scores["lead_observation"] for r in answers if "lead_observation" in r.scores]
    assert scores
    assert min(scores) == 1.0

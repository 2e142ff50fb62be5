from __future__ import annotations

from typing import Any

import pytest

from evals.scorers import leads, two_causes
from evals.scorers.misses import misses
from evals.scorers.registry import score
from evals.scorers.standing import standing
from evals.suite.case_schema import Measured
from hermes_agent.model.diagnosis import Diagnosis
from tests.evals.scored import case, diagnosis, outcome

COLLECTION = {"any_of": ["garbage_collection"], "ranks": [1], "some_steps": True}


def _lead(*candidates: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 (fields of any record)
    place = {"part": "host", "ranks": [1], "steps": "2 of 5 steps", **fields.pop("place", {})}
    named = [{"cause": name, "likelihood": 0.3, "why": ""} for name in candidates]
    return {
        "id": "L1", "place": place, "impact_ms_per_step": 20.0, "impact_pct": 20.0, "claim": "", "candidates": named,
        "decide_by": "the same steps with `with_stack=True`", "evidence": [], **fields,
    }  # fmt: skip


def _inconclusive(*found: dict[str, Any]) -> Diagnosis:
    return diagnosis("inconclusive", leads=list(found))


def test_a_lead_at_the_labelled_place_with_the_cause_among_its_first_two_is_right() -> None:
    right = outcome(case(expected=COLLECTION), _inconclusive(_lead("operator_dispatch", "garbage_collection")))
    assert (leads.lead_given(right), leads.lead_place(right), leads.lead_candidate(right)) == (1.0, 1.0, 1.0)
    third = outcome(case(expected=COLLECTION), _inconclusive(_lead("straggler", "data_skew", "garbage_collection")))
    assert leads.lead_candidate(third) == 0.0


@pytest.mark.parametrize("place", [{"ranks": [0]}, {"steps": "every step"}, {"part": "exposed_memcpy"}])
def test_another_rank_other_steps_or_another_part_is_another_place(place: dict[str, Any]) -> None:
    found = outcome(case(expected=COLLECTION), _inconclusive(_lead("garbage_collection", place=place)))
    assert leads.lead_place(found) == 0.0


def test_where_the_cause_is_asserted_its_leads_are_about_the_rest() -> None:
    named = diagnosis("problem", ("garbage_collection", 0.9, 30.0), leads=[_lead("straggler")])
    assert leads.lead_place(outcome(case(expected=COLLECTION), named)) is None
    assert leads.lead_place(outcome(case("healthy", expected={"verdict": ["healthy"]}), _inconclusive(_lead()))) is None


def test_inconclusive_without_a_lead_is_a_miss_of_a_faulty_run() -> None:
    found = outcome(case(expected=COLLECTION), _inconclusive())
    assert standing(found) == "no_lead"
    assert "lead_given: inconclusive without a lead" in misses(found, score(found))


def test_an_observation_that_the_run_holds_already_is_a_miss() -> None:
    asks = _inconclusive(
        _lead("garbage_collection"), _lead("straggler", decide_by="`hermes_agent.monitor` on all ranks")
    )
    known = outcome(case(expected=COLLECTION), asks, present=frozenset({"stacks"}))
    assert leads.lead_observation(known) == 0.5
    assert any(line.startswith("lead_observation: asks for what the run holds") for line in misses(known, score(known)))
    assert leads.lead_observation(outcome(case(expected=COLLECTION), asks)) == 1.0


@pytest.mark.parametrize(
    ("verdict", "cause", "said"),
    [
        ("problem", "garbage_collection", "right"),
        ("problem", "straggler", "wrong"),
        ("healthy", "garbage_collection", "wrong"),
    ],
)
def test_a_faulty_run_is_answered_right_by_its_cause_and_never_by_healthy(verdict: str, cause: str, said: str) -> None:
    assert standing(outcome(case(expected=COLLECTION), diagnosis(verdict, (cause, 0.9, 20.0)))) == said


def test_a_run_that_cannot_be_read_is_no_answer_and_no_miss_where_it_may_abstain() -> None:
    of = case(expected={**COLLECTION, "verdict": ["problem", "inconclusive"], "may_abstain": True})
    refused = outcome(of, None, refused="no trace there", refusal="unreadable")
    assert standing(refused) == "cannot_answer"
    assert misses(refused, score(refused)) == []


def test_a_healthy_run_may_be_called_a_problem_only_for_what_its_label_admits() -> None:
    of = case("healthy", expected={"verdict": ["healthy"], "only_causes": ["cpu_contention"]})
    admitted = outcome(of, diagnosis("problem", ("cpu_contention", 0.9, 15.0)))
    both = outcome(of, diagnosis("problem", ("cpu_contention", 0.9, 15.0), ("straggler", 0.9, 10.0)))
    assert (standing(admitted), misses(admitted, score(admitted))) == ("right", [])
    assert standing(both) == "wrong"
    assert misses(both, score(both))


TWO = {"all_of": ["garbage_collection", "checkpoint_stall"]}
PAIR = Measured(before_ms=100.0, after_ms=60.0)


def test_of_two_causes_both_have_to_be_asserted() -> None:
    one = diagnosis("problem", ("garbage_collection", 0.9, 20.0), ("checkpoint_stall", 0.3, 15.0))
    both = diagnosis("problem", ("garbage_collection", 0.9, 20.0), ("checkpoint_stall", 0.6, 15.0))
    assert two_causes.both_named(outcome(case(expected=TWO), one)) == 0.0
    assert two_causes.both_named(outcome(case(expected=TWO), both)) == 1.0


def test_two_causes_together_promise_no_more_than_was_measured_for_both() -> None:
    def promising(*impacts: float) -> float | None:
        named = zip((*TWO["all_of"], "straggler"), impacts, strict=False)
        found = diagnosis("problem", *((cause, 0.9, impact) for cause, impact in named))
        return two_causes.shared_honestly(outcome(case(expected=TWO), found, measured=PAIR))

    assert promising(25.0, 20.0) == 1.0  # 45 % of measured 40 %, within the error of a prediction
    assert promising(30.0, 20.0) == 0.0
    assert promising(25.0, 20.0, 60.0) == 0.0, "all listed causes promise more than the step"

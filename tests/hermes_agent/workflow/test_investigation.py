"""The investigation ends, judges by figures, and says so in state, events and diagnosis."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from hermes_agent.model.events import Event, HypothesisJudged
from hermes_agent.report.compose import Findings, compose
from hermes_agent.report.sections import sections
from hermes_agent.workflow import investigation
from hermes_agent.workflow.investigation import Inquiry, investigate, restored
from tests.tools.judgement.test_leads import pausing
from tools.judgement.hypotheses import by_status, with_hypotheses
from tools.judgement.ranking import ranking


def test_every_candidate_of_a_lead_is_judged_once_tests_end() -> None:
    profile = pausing(200.0)
    stored = investigate(Inquiry(profile))
    assert json.loads(json.dumps(stored)) == stored
    hypotheses = restored(stored)
    assert {(each.lead, each.cause) for each in hypotheses} >= {
        (number, each.cause) for number, lead in enumerate(ranking(profile).leads, 1) for each in lead.candidates
    }
    assert all(each.test is None for each in hypotheses)
    assert all(each.status != "supported" for each in hypotheses)  # a pause without records has no cause to be seen


def test_a_test_that_breaks_leaves_its_hypothesis_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(investigation, "outcome_of", broken)
    assert {each.status for each in restored(investigate(Inquiry(pausing(200.0))))} <= {"untestable", "open"}


def test_no_round_begins_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(investigation, "MOST_ROUNDS", 0)
    assert all(each.tried == 0 for each in restored(investigate(Inquiry(pausing(200.0)))))


def test_a_model_may_propose_and_never_judges() -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def proposer(lead: str, known: Sequence[str]) -> Sequence[str]:
        asked.append((lead, known))
        return ["profiling_overhead", "it is the network", "garbage_collection"]

    found = restored(investigate(Inquiry(pausing(200.0), proposer=proposer)))
    by_model = [each for each in found if each.proposed_by == "model"]
    assert [each.cause for each in by_model][:1] == ["profiling_overhead"]
    assert "it is the network" not in {each.cause for each in found}
    assert all(each.status in ("open", "untestable") for each in by_model)
    assert len(asked) == 1


def test_the_diagnosis_cites_the_figures_that_decided() -> None:
    profile = pausing(200.0)
    found = by_status(restored(investigate(Inquiry(profile))))
    diagnosis = compose(Findings(profile, [], with_hypotheses(ranking(profile), found), {}, hypotheses=found))
    assert [each.id for each in diagnosis.hypotheses] == [f"H{each.number}" for each in found]
    known = {each.id for each in diagnosis.evidence}
    for each in diagnosis.hypotheses:
        assert set(each.evidence) | set(each.evidence_against) <= known
        assert (each.status in ("supported", "refuted")) <= bool(each.judged_by)
        assert bool(each.next_test) == (each.status in ("open", "untestable"))
    listed = sections(diagnosis)["hypotheses"]
    assert [item.mark for item in listed.items] == [each.id for each in diagnosis.hypotheses]


def test_events_carry_the_whole_record_without_citations() -> None:
    heard: list[Event] = []
    investigate(Inquiry(pausing(200.0), heard.append))
    judged = [event.hypothesis for event in heard if isinstance(event, HypothesisJudged)]
    assert {each.id for each in judged} >= {"H1", "H2"}
    assert all("[" not in each.judged_by and not each.evidence for each in judged)

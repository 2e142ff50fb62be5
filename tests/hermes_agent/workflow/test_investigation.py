"""The investigation ends, judges by figures, and says so in state, events and diagnosis."""

from __future__ import annotations

import json

import pytest

from hermes_agent.model.events import Event, HypothesisJudged
from hermes_agent.report.compose import Findings, compose
from hermes_agent.report.sections import sections
from hermes_agent.workflow import investigation, proposals
from hermes_agent.workflow.investigation import Inquiry, investigate, restored
from tests.hermes_agent.workflow.test_ask import recorded_pausing
from tests.tools.judgement.test_leads import pausing
from tools.judgement.hypotheses import by_status, with_hypotheses
from tools.judgement.ranking import ranking


def test_every_candidate_of_a_lead_is_judged_once_tests_end() -> None:
    profile = pausing(200.0)
    stored = investigate(Inquiry(profile))
    assert json.loads(json.dumps(stored)) == stored
    hypotheses = restored(stored)
    assert len(hypotheses) > 2
    assert {(each.lead, each.cause) for each in hypotheses} >= {
        (number, each.cause) for number, lead in enumerate(ranking(profile).leads, 1) for each in lead.candidates
    }
    assert all(each.test is None for each in hypotheses)
    assert all(each.status != "supported" for each in hypotheses)  # a pause without records has no cause to be seen


def test_a_test_that_breaks_leaves_its_hypothesis_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(proposals, "outcome_of", broken)
    found = restored(investigate(Inquiry(pausing(200.0))))
    assert {each.status for each in found} == {"untestable"}
    assert any(each.tried for each in found)


def test_no_round_begins_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(investigation, "MOST_ROUNDS", 0)
    found = restored(investigate(Inquiry(pausing(200.0))))
    assert [each.tried for each in found] == [0] * len(found) != []


def test_the_diagnosis_cites_the_figures_that_decided() -> None:
    profile = recorded_pausing(200.0)
    found = by_status(restored(investigate(Inquiry(profile))))
    diagnosis = compose(Findings(profile, [], with_hypotheses(ranking(profile), found), {}, hypotheses=found))
    assert [each.id for each in diagnosis.hypotheses] == [f"H{each.number}" for each in found]
    known = {each.id for each in diagnosis.evidence}
    assert {"supported"} < {each.status for each in diagnosis.hypotheses}
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

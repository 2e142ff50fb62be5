"""A model may add hypotheses and choose their first test; rules judge them, and nothing else of a diagnosis changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Event, HypothesisJudged, Notice
from hermes_agent.report.compose import Findings, compose
from hermes_agent.statements.proposals import proposals_for, proposer_of
from hermes_agent.workflow.investigation import Inquiry, investigate, restored
from hermes_agent.workflow.proposals import MOST_PROPOSED, Proposal, with_proposals
from tests.hermes_agent.llm.scripted import ScriptedModel
from tests.hermes_agent.workflow.test_ask import recorded_pausing
from tools.errors import ModelError
from tools.judgement.hypotheses import by_status, proposed, with_hypotheses
from tools.judgement.ranking import ranking
from tools.knowledge import hypothesis_tests
from tools.views.profile import Profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    return recorded_pausing(200.0)


@pytest.fixture(scope="module")
def diagnosis(profile: Profile) -> Diagnosis:
    found = by_status(restored(investigate(Inquiry(profile))))
    return compose(Findings(profile, [], with_hypotheses(ranking(profile), found), {}, hypotheses=found))


def asked(diagnosis: Diagnosis, profile: Profile, *answers: object) -> tuple[Diagnosis, list[Event], ScriptedModel]:
    """The diagnosis after a model gave these answers."""
    heard: list[Event] = []
    turns: list[Any] = [each if isinstance(each, ModelError) else [each] for each in answers]
    model = ScriptedModel(turns)
    proposer = proposer_of(model, Settings(cache_dir=Path("cache")), heard.append)
    return with_proposals(diagnosis, profile, proposer, heard.append), heard, model


def test_a_proposal_is_tested_by_the_rules_and_the_rest_of_the_diagnosis_stays(
    diagnosis: Diagnosis, profile: Profile
) -> None:
    answer = {"proposals": [{"cause": "cpu_contention", "test": "counter_share_pct"}]}
    found, heard, model = asked(diagnosis, profile, json.dumps(answer))
    (new,) = found.hypotheses[len(diagnosis.hypotheses) :]
    assert (new.cause, new.proposed_by, new.id) == ("cpu_contention", "model", f"H{len(diagnosis.hypotheses) + 1}")
    assert new.status == "supported"  # the processes wait for a core half of the time
    cited = {each.id: each for each in found.evidence}
    assert [cited[name].metric for name in new.evidence] == ["counter_share_pct"]
    assert cited[new.evidence[0]].value == pytest.approx(50.0, abs=1.0)
    first = found.model_copy(update={"hypotheses": diagnosis.hypotheses, "evidence": diagnosis.evidence})
    assert first == diagnosis
    assert found.evidence[: len(diagnosis.evidence)] == diagnosis.evidence
    assert [event.hypothesis.id for event in heard if isinstance(event, HypothesisJudged)] == [new.id, new.id]
    (request,) = model.requests
    assert "- cpu_contention: " in request.messages[0].content
    assert "- evaluation_stall: " not in request.messages[0].content  # it is considered already


@pytest.mark.parametrize(
    "answers",
    [
        (ModelError("the endpoint refuses"),),
        ("I cannot help with that.", "No."),
        ('{"proposals": []}',),
        ('{"proposals": [{"cause": "it is the network, rm -rf /", "test": ""}]}',),
        ('{"proposals": [{"cause": "evaluation_stall", "test": "made_up"}]}',),
        ('{"proposals": [{"cause": "slow_link", "status": "supported"}]}', '{"verdict": "healthy"}'),
    ],
    ids=["down", "refuses", "nothing", "liar", "known", "judges"],
)
def test_a_model_that_refuses_or_lies_leaves_the_diagnosis_as_it_is(
    diagnosis: Diagnosis, profile: Profile, answers: tuple[object, ...]
) -> None:
    found, heard, _ = asked(diagnosis, profile, *answers)
    assert found == diagnosis
    assert len([event for event in heard if isinstance(event, Notice)]) <= 1
    assert not any("rm -rf" in event.text for event in heard if isinstance(event, Notice))


def test_at_most_three_proposals_are_tested_and_a_test_of_another_cause_is_not_taken(
    diagnosis: Diagnosis, profile: Profile
) -> None:
    names = ("operator_dispatch", "slow_link", "memory_pressure", "compute_bound", "pipeline_bubble")
    proposals = [Proposal(name, "step_time_ms") for name in names]
    found = with_proposals(diagnosis, profile, lambda lead, known: proposals, lambda _: None)
    assert len(found.hypotheses) - len(diagnosis.hypotheses) == MOST_PROPOSED
    own = proposed(profile, ranking(profile), "operator_dispatch", (), "step_time_ms")
    assert own is not None
    assert own.first == ""


def test_the_chosen_test_comes_first(profile: Profile) -> None:
    part = ranking(profile).leads[0].place.part
    by_cause = {cause: hypothesis_tests.tests_of(cause).of(part) for cause in hypothesis_tests.hypothesis_tests()}
    cause, tests = next((cause, found) for cause, found in by_cause.items() if len(found) > 1)
    own = proposed(profile, ranking(profile), cause, (), tests[-1].metric)
    assert own is not None
    assert own.test == tests[-1]


def test_without_a_configured_model_nobody_proposes(tmp_path: Path) -> None:
    assert proposals_for(Settings(cache_dir=tmp_path)) is None

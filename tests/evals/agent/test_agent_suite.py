"""The questions to the agent: the file holds together, the scorers tell a liar from a competent model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from evals.agent.__main__ import factory, main
from evals.agent.profiles import POLICIES, policy_model
from evals.agent.questions import question_file, questions
from evals.agent.real_model import RECORDED, REPLIES, SUBSET
from evals.agent.report import report
from evals.agent.suite import PROFILES, ModelFactory, Scored, run_suite
from hermes_agent.statements.question import DIAGNOSIS_TOOLS
from tools.agent_tools.registry import BY_NAME
from tools.errors import InputError, UsageError

SMOKE = ("01-demo", "11-demo", "19-demo", "25-demo")
LEAST_QUESTIONS = 100


@lru_cache(maxsize=1)
def results() -> Sequence[Scored]:
    chosen = [each for each in questions() if each.id in SMOKE]
    assert len(chosen) == len(SMOKE)
    found, skipped = run_suite(chosen, PROFILES, factory)
    assert skipped == []
    return found


def of_profile(profile: str) -> list[Scored]:
    return [each for each in results() if each.profile == profile]


def test_there_are_enough_questions_of_every_kind_and_their_tools_exist() -> None:
    asked = list(questions())
    assert len(asked) >= LEAST_QUESTIONS
    assert len({each.id for each in asked}) == len(asked)
    tools = {*BY_NAME, *(tool.name for tool in DIAGNOSIS_TOOLS)}
    assert {name for each in asked for name in each.asked.tools_any_of} <= tools
    assert {each.asked.tag for each in asked} >= {"cause", "figure", "abstain", "injected", "healthy"}
    assert all(each.causes or label != "demo" for label, each in question_file().runs.items())


def test_a_competent_model_finds_the_cause_by_what_it_reads() -> None:
    cause, *_ = of_profile("competent")
    assert cause.own["both"] == 1.0
    assert {each.by for each in of_profile("competent")} == {"model"}


@pytest.mark.parametrize("profile", ["liar", "listing", "parrot", "refusing"])
def test_a_profile_that_fakes_scores_nothing(profile: str) -> None:
    assert [each.own["right"] for each in of_profile(profile)] == [0.0] * len(SMOKE)


def test_everything_false_of_a_liar_is_found() -> None:
    assert all(each.own_false for each in of_profile("liar"))


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_false_is_shown_whoever_answers(profile: str) -> None:
    assert [each.shown_false for each in of_profile(profile)] == [()] * len(SMOKE)


def test_a_model_that_refuses_leaves_the_answer_from_templates() -> None:
    shown = [each.shown["right"] for each in of_profile("refusing")]
    assert shown == [each.shown["right"] for each in of_profile("template")]


def test_the_report_has_a_row_for_each_profile() -> None:
    text = report(results(), [])
    for profile in PROFILES:
        assert f"| {profile} | {len(SMOKE)} | shown |" in text
    lost = {each.question.id for each in results() if not each.understood}
    assert f"{len(SMOKE)} questions, {len(lost)} of them not understood" in text


def test_a_suite_that_asks_nothing_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="a suite of nothing has failed"):
        run_suite([], PROFILES, factory)
    assert main(["--only", "no such question"]) != 0
    assert "no question was asked" in capsys.readouterr().err


def test_a_recorded_model_is_replayed_with_the_same_scores(tmp_path: Path) -> None:
    chosen = [each for each in questions() if each.id == SMOKE[1]]
    models = {
        "record": ModelFactory("record", tmp_path, policy_model("competent")),
        "replay": ModelFactory("replay", tmp_path),
    }
    recorded, replayed = run_suite(chosen, ["record", "replay"], models.__getitem__)[0]
    assert [path.name for path in tmp_path.iterdir()] == [f"{SMOKE[1]}.jsonl"]
    assert replayed.own == recorded.own
    assert (recorded.by, replayed.by) == ("model", "model")
    assert replayed.text == recorded.text


def test_the_replies_of_a_real_model_are_played_without_it_and_show_nothing_false() -> None:
    assert {path.stem for path in RECORDED.glob("*.jsonl")} == {*SUBSET}
    chosen = [each for each in questions() if each.id in (SUBSET[0], SMOKE[1])]
    found, _ = run_suite(chosen, [REPLIES], factory)
    assert [each.question.id for each in found] == [each.id for each in chosen if each.id in SUBSET]
    assert [each.shown_false for each in found] == [()] * len(found)
    assert found[0].own_text.strip()


def test_a_profile_has_to_exist() -> None:
    assert {*POLICIES} < {*PROFILES}
    with pytest.raises(UsageError, match="there is no profile 'wise'; use template, competent"):
        factory("wise")

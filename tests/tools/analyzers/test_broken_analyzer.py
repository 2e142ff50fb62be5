"""A check that broke leaves an open question, and takes nothing else with it."""

from __future__ import annotations

from tests.synthetic_runs import host_bound
from tools.analyzers.registry import all_checks, answer_instead
from tools.findings import Check
from tools.judgement.ranking import ranking


def test_the_open_question_stands_in_for_the_check_everywhere() -> None:
    profile = host_bound(10.0)
    question = Check("step_time.level", "cannot_answer", reason="the check stopped with IndexError", needs="a report")

    answer_instead(profile, question)

    assert [check for check in all_checks(profile) if check.name == "step_time.level"] == [question]
    assert ranking(profile).verdict in ("problem", "healthy", "inconclusive")

"""An analyzer that broke leaves an open question, and takes nothing else with it."""

from __future__ import annotations

from tests.synthetic_runs import host_bound
from tools.analyzers.registry import all_checks, answer_instead
from tools.findings import cannot_answer
from tools.judgement.ranking import ranking


def test_the_open_question_stands_in_for_the_analyzer_everywhere() -> None:
    profile = host_bound(10.0)
    question = cannot_answer("parallel.step_time", "the analyzer stopped with IndexError", "a report")

    answer_instead(profile, "step_time", (question,))

    assert [check for check in all_checks(profile) if check.name.startswith(("parallel.step_time", "step_time."))] == [
        question
    ]
    assert ranking(profile).verdict in ("problem", "healthy", "inconclusive")

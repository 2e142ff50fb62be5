"""Answers made to please a scorer: each scores near nothing on what it fakes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evals.agent.assertions import Assertion, of_model, of_statements, of_template
from evals.agent.questions import Question, questions
from evals.agent.scorers import Answered, abstained, answer_fact, both, false_claims, grounded_path, right, tool_choice
from evals.agent.suite import DiagnosedRun, diagnosed
from evals.suite.run_places import Places
from hermes_agent.evidence.index import evidence_index
from hermes_agent.statements.record import Statement
from tools.findings import Fact

CAUSE, WAIT, RETRANSMITTED, ADVICE = "01-demo", "11-demo", "25-demo", "19-demo"


@pytest.fixture(scope="module")
def run() -> Iterator[DiagnosedRun]:
    with tempfile.TemporaryDirectory() as cache:
        for found, _ in diagnosed([asked(CAUSE)], Places.from_environment({}), Path(cache)):
            yield found


def asked(name: str) -> Question:
    return next(each for each in questions() if each.id == name)


def figure(run: DiagnosedRun, metric: str, **arguments: object) -> str:
    found = (each for each in run.diagnosis.evidence if each.metric == metric)
    return next(each.id for each in found if all(each.arguments.get(k) == v for k, v in arguments.items()))


def answered(run: DiagnosedRun, name: str, said: Sequence[Statement] | str, by: str = "model") -> Answered:
    question, index = asked(name), evidence_index(run.diagnosis)
    assertions: tuple[Assertion, ...]
    if isinstance(said, str):
        read = of_model if by == "model" else of_template
        assertions = read(said, run.diagnosis, index)
    else:
        assertions = of_statements(said, run.diagnosis, index)
    facts = []
    for same in question.facts:
        fact = same[0]
        record = index.evidence[figure(run, fact.metric, **fact.arguments)]
        facts.append([Fact(fact.metric, tuple(fact.arguments.items()), record.value, record.unit)])
    return Answered(question, run.label, assertions, (), facts, run.diagnosis, index)


def measured(text: str) -> Statement:
    return Statement(kind="measured", text=text)


def causal(cause: str, ranks: list[int], part: str | None, evidence: list[str], claim: str = "present") -> Statement:
    return Statement.model_validate(
        {"kind": "causal", "cause": cause, "claim": claim, "ranks": ranks, "part": part, "evidence": evidence}
    )


def test_a_right_and_grounded_answer_has_it_all(run: DiagnosedRun) -> None:
    wait = figure(run, "part_ms", part="data_wait", rank=1)
    of_rank = answered(run, WAIT, [measured(f"{{rank:1}} waits {{{wait}}} per step for data.")])
    assert (both(of_rank), false_claims(of_rank)) == (1.0, [])
    of_cause = answered(run, CAUSE, [causal("slow_data_processing", [1], "data_wait", [wait])])
    assert (both(of_cause), grounded_path(of_cause), false_claims(of_cause)) == (1.0, 1.0, [])


def test_the_right_figure_on_the_wrong_rank_is_wrong_and_false(run: DiagnosedRun) -> None:
    wait = figure(run, "part_ms", part="data_wait", rank=1)
    answer = answered(run, WAIT, [measured(f"{{rank:0}} waits {{{wait}}} per step for data.")])
    assert (answer_fact(answer), right(answer)) == (0.0, 0.0)
    assert false_claims(answer) == [f"puts {wait} of rank 1 on rank 0"]
    prose = answered(run, WAIT, "Rank 0 waits 60.0 ms per step for data.")
    assert answer_fact(prose) == 0.0


def test_the_right_figure_of_another_quantity_is_wrong_and_false(run: DiagnosedRun) -> None:
    wait, cost = figure(run, "part_ms", part="data_wait", rank=1), figure(run, "cause_impact_ms")
    assert false_claims(answered(run, WAIT, [measured(f"Packets are resent for {{{wait}}}.")]))
    assert false_claims(answered(run, WAIT, [measured(f"The step takes {{{cost}}}.")]))


def test_the_right_cause_by_the_wrong_evidence_is_not_grounded(run: DiagnosedRun) -> None:
    wait = figure(run, "part_ms", part="data_wait", rank=1)
    other = figure(run, "bus_bandwidth", kind="all_reduce")
    for evidence in ([other], [], [wait, other, figure(run, "message_bytes")]):
        answer = answered(run, CAUSE, [causal("slow_data_processing", [1], "data_wait", evidence)])
        assert (grounded_path(answer), both(answer)) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("ranks", "part"), [([0], "data_wait"), ([0, 1], "data_wait"), ([1], "host"), ([], "data_wait")]
)
def test_the_right_cause_in_the_wrong_place_is_not_grounded(run: DiagnosedRun, ranks: list[int], part: str) -> None:
    wait = figure(run, "part_ms", part="data_wait", rank=1)
    answer = answered(run, CAUSE, [causal("slow_data_processing", ranks, part, [wait])])
    assert both(answer) == 0.0
    assert bool(false_claims(answer)) is (ranks != [])


def test_who_blames_everything_blames_nothing(run: DiagnosedRun) -> None:
    wait = figure(run, "part_ms", part="data_wait", rank=1)
    others = ("slow_link", "garbage_collection", "cpu_contention")
    made = [causal(name, [1], None, [wait]) for name in ("slow_data_processing", *others)]
    assert right(answered(run, CAUSE, made)) == 0.0
    assert false_claims(answered(run, CAUSE, made)) == [f"blames {name}" for name in others]


def test_who_states_every_figure_states_none(run: DiagnosedRun) -> None:
    ids = [each.id for each in run.diagnosis.evidence]
    one_by_one = answered(run, WAIT, [measured(f"Data and steps and ranks take {{{name}}}.") for name in ids])
    at_once = answered(run, WAIT, [measured("Data wait: " + " ".join(f"{{{name}}}" for name in ids))])
    by_rank = answered(run, WAIT, " ".join(f"Rank {rank} waits {10 * rank + 50} ms for data." for rank in range(8)))
    assert [answer_fact(each) for each in (one_by_one, at_once, by_rank)] == [0.0, 0.0, 0.0]


def test_who_clears_the_cause_or_what_was_not_checked_is_false(run: DiagnosedRun) -> None:
    for name in ("slow_data_processing", "garbage_collection"):
        assert false_claims(answered(run, CAUSE, [causal(name, [], None, [], "absent")])) == [f"clears {name}"]
    assert false_claims(answered(run, CAUSE, [causal("moe_imbalance", [], None, [], "absent")])) == []


def test_a_refusal_names_the_check_that_is_open_and_not_all_of_them(run: DiagnosedRun) -> None:
    fitting = Statement(kind="unknown", text="The check is {open:communication.retransmission}.")
    checks = [each.analyzer for each in run.diagnosis.checks if each.status == "cannot_answer"]
    everything = [Statement(kind="unknown", text=f"The check is {{open:{name}}}.") for name in checks]
    other = Statement(kind="unknown", text="The check is {open:memory.peak}.")
    assert both(answered(run, RETRANSMITTED, [fitting])) == 1.0
    assert [abstained(answered(run, RETRANSMITTED, made)) for made in ([other], everything, [])] == [0.0, 0.0, 0.0]
    for words in ("It needs more data; this cannot be answered.", "There is no answer: the run has no data."):
        assert abstained(answered(run, RETRANSMITTED, words)) == 0.0
        assert abstained(answered(run, RETRANSMITTED, words, "template")) == 0.0


def test_what_was_not_understood_is_never_right(run: DiagnosedRun) -> None:
    text = "The run has no samples of the monitor."
    answer = answered(run, RETRANSMITTED, text, "template")
    assert abstained(answer) == 1.0
    assert abstained(replace(answer, understood=False)) == 0.0
    assert right(replace(answer, understood=False)) == 0.0


@pytest.mark.parametrize("name", [CAUSE, WAIT, RETRANSMITTED, ADVICE])
@pytest.mark.parametrize("by", ["model", "template"])
def test_a_question_that_is_repeated_is_no_answer(run: DiagnosedRun, name: str, by: str) -> None:
    assert right(answered(run, name, asked(name).asked.ask, by)) == 0.0


def test_calling_every_tool_is_no_choice(run: DiagnosedRun) -> None:
    answer = answered(run, WAIT, [])
    wanted = answer.question.asked.tools_any_of
    assert tool_choice(replace(answer, tools=wanted[:1])) == 1.0
    assert tool_choice(replace(answer, tools=(*wanted, *(f"other{n}" for n in range(12))))) == 0.0


def test_advice_is_of_the_cause_and_not_made_up(run: DiagnosedRun) -> None:
    assert both(answered(run, ADVICE, [Statement(kind="advice", text="First, {A1}.")])) == 1.0
    made_up = answered(run, ADVICE, [Statement(kind="advice", text="Replace the network.")])
    assert right(made_up) == 0.0
    assert false_claims(made_up) == ["advises what the analyzers do not"]

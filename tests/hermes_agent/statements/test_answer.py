"""The diagnosis in a model's words: what stands reaches the reader, what does not is replaced by the template's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.model import Cancelled, Reply, Usage
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import cause_title
from hermes_agent.model.run_record import SourceRecord
from hermes_agent.questions.prose import capital
from hermes_agent.report.markdown import render_markdown
from hermes_agent.report.text import render_text
from hermes_agent.statements.answer import Written, answer_tokens, facts_chars, write_answer, writer_for
from hermes_agent.statements.facts import answer_facts, hosts_of
from hermes_agent.statements.record import Statement, introduction, without_words, words_of_model
from tests.hermes_agent.llm.fake_endpoint import Answer, refused, said, serving, text_chunk
from tests.hermes_agent.llm.scripted import ScriptedModel, Turn
from tests.hermes_agent.statements.slow_loader import (
    Listener,
    answer_of,
    diagnosis,
    id_of,
    scripted,
    settings_of,
    statement,
)
from tools.errors import ModelError

CAUSE = "slow_data_processing"
COST = id_of("cause_impact_ms", cause="slow_data_processing")
WAIT = id_of("part_ms", part="data_wait", rank=0)
STEP = id_of("step_time_ms", statistic="mean")
GAIN = id_of("predicted_speedup", cause="slow_data_processing")
TRUE = (
    statement("The loader keeps the device waiting.", "causal", CAUSE, "present", COST),
    statement(f"First, {{A1}}: a step would run {{{GAIN}}} faster.", "advice"),
    statement("", "unknown", "operator_compilation"),
)
GOOD = answer_of(*TRUE)
TITLE = capital(cause_title(CAUSE, "too_few_workers"))
OPEN = capital(cause_title("operator_compilation", None))
PARAGRAPHS = [
    f"Cause 1: {TITLE} on rank 0 (40.0 ms [{COST}] of each 100 ms [{STEP}] step). "
    f"The loader keeps the device waiting (see [{COST}]).",
    f"First, load batches in worker processes [A1]: a step would run 1.67x [{GAIN}] faster.",
]
INTRODUCTION = "In the words of little-llm (figures checked against the evidence; the wording is the model's):"
WRONG = answer_of(*TRUE, statement(f"The loader takes 45.0 ms {{{COST}}} per step."))


def written(model: ScriptedModel, listener: Listener | None = None, budget: Budget | None = None) -> Written:
    return write_answer(diagnosis(), model, budget or Budget(), listener or Listener())


def assert_template_stays(result: Diagnosis) -> None:
    assert result.answer == diagnosis().answer
    assert (result.answer_by, result.answer_model) == ("template", "")


def test_statements_that_pass_are_shown_and_kept_with_who_made_them() -> None:
    listener = Listener()
    result, note = written(scripted(GOOD), listener)
    assert listener.streamed.split("\n\n") == [*words_of_model(result), ""]
    assert listener.rejections == []
    assert result.answer == [*diagnosis().answer, INTRODUCTION, *words_of_model(result)]
    assert words_of_model(result)[:2] == PARAGRAPHS
    assert words_of_model(result)[2].startswith(f"{OPEN}: could not be checked (")
    assert without_words(result) == diagnosis()
    assert (result.answer_by, result.answer_model) == ("model", "little-llm")
    assert result.headline == diagnosis().headline
    assert "filled in from the evidence" in note


def test_a_statement_that_fails_is_sent_back_and_the_others_are_shown_at_once() -> None:
    listener = Listener()
    right = answer_of(statement(f"{{rank:0}} waits {{{WAIT}}} for data."))
    model = scripted(WRONG, right)
    result, note = written(model, listener)
    assert words_of_model(result)[:2] == PARAGRAPHS
    assert words_of_model(result)[3] == f"Rank 0 waits 40.0 ms [{WAIT}] for data."
    assert "45" not in listener.streamed
    assert (listener.rejections, "left out" in note) == ([], False)
    complaint = model.requests[1].messages[-1]
    assert complaint.role == "user"
    assert "a digit stands in the text" in complaint.content
    assert model.requests[1].messages[-2].content == WRONG


def test_what_fails_twice_is_dropped_and_the_rest_stays() -> None:
    listener = Listener()
    result, note = written(scripted(WRONG, WRONG, "never asked"), listener)
    assert len(words_of_model(result)) == 3
    assert "A statement of the model was left out: a digit stands in the text" in note


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (statement("The loader takes {E999} per step."), "there is no id 'E999'"),
        (statement("The loader takes 40.0 ms per step."), "a digit"),
        (statement("The loader takes long."), "needs the slot of a figure"),
        (statement(f"The loader takes twice {{{WAIT}}}."), "figure in words"),
        (statement(f"The network is fine, {{{WAIT}}}."), "blames or clears"),
        (statement("", "causal", "slow_link", "present"), "did not find slow_link"),
        (statement("", "causal", "operator_compilation", "absent"), "could not be checked"),
        (statement("", "causal", CAUSE, "absent"), "found slow_data_processing"),
        (statement(f"The run is healthy, a step takes {{{STEP}}}."), "blames or clears"),
        (statement(f"See https://evil.example for the step of {{{STEP}}}."), "addresses"),
        (statement("Bananas are great."), "not in the vocabulary"),
        (
            statement("Could the batches be read ahead?", "unknown"),
            "cites nothing of this run",
        ),
    ],
)
def test_a_statement_that_does_not_stand_does_not_reach_the_reader(made: Statement, complaint: str) -> None:
    listener, text = Listener(), answer_of(made)
    result, note = written(scripted(text, text), listener)
    assert_template_stays(result)
    assert complaint in note
    assert (listener.streamed, len(listener.rejections)) == ("", 1)


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (ModelError("The endpoint is down."), "The endpoint is down."),
        (ModelError("The answer broke off in the middle; ask again."), "broke off"),
    ],
)
def test_a_model_that_fails_leaves_the_template(turn: Turn, reason: str) -> None:
    listener = Listener()
    result, note = written(scripted(turn), listener)
    assert_template_stays(result)
    assert reason in note
    assert len(listener.rejections) == 1


@pytest.mark.parametrize("text", ["The data loader is slow.", '{"statements": [{"kind": "song"}]}', "  ", GOOD[:60]])
def test_an_answer_of_another_form_twice_leaves_the_template(text: str) -> None:
    result, note = written(scripted(text, text))
    assert_template_stays(result)
    assert "even after one repair" in note


def test_a_budget_that_does_not_reach_for_the_repair_keeps_what_passed() -> None:
    model = scripted(Reply(WRONG, usage=Usage(90, 20)), GOOD)
    result, note = written(model, budget=Budget(max_tokens=100))
    assert words_of_model(result)[:2] == PARAGRAPHS
    assert len(model.requests) == 1
    assert "110 of 100 tokens" in note


def test_a_person_who_breaks_it_off_gets_no_answer_at_all() -> None:
    with pytest.raises(Cancelled):
        write_answer(diagnosis(), scripted(GOOD), Budget(), Listener(), cancelled=lambda: True)


def test_no_tool_is_offered_while_the_diagnosis_is_put_into_words() -> None:
    model = scripted(GOOD)
    written(model)
    assert model.requests[0].tools == ()


def chars(facts: dict[str, str]) -> int:
    return sum(map(len, facts.values()))


def test_the_facts_hold_every_id_that_they_name_and_fit_into_the_window() -> None:
    facts = answer_facts(diagnosis(), 30_000)
    assert f"\n{COST}: 40.0 ms = cause_impact_ms(" in facts["evidence"]
    assert "cpu.operator_compilation: " in facts["not_checked"]
    short = answer_facts(diagnosis(), chars(facts) - 1)
    assert chars(short) < chars(facts)
    assert "Cause 1, slow_data_processing:too_few_workers: " in short["diagnosis"]


def test_a_small_window_leaves_room_for_the_answer() -> None:
    assert facts_chars(None) == 30_000
    assert facts_chars(4096) == (4096 - 2000) * 3
    assert facts_chars(512) == 2_000
    assert answer_tokens(4096) == 1024
    assert answer_tokens(None) == 8_000


def test_host_names_in_the_names_of_trace_files_are_known_to_the_mask() -> None:
    source = {"format": "kineto", "ranks": [0], "status": "complete"}
    run = diagnosis().run.model_dump() | {"sources": [{"path": "/data/node17_4242.1699.pt.trace.json.gz", **source}]}
    named = Diagnosis.model_validate(diagnosis().model_dump(by_alias=True) | {"run": run})
    assert hosts_of(named) == ("node17",)
    assert hosts_of(diagnosis()) == ()


def test_hosts_of_traces_and_of_records_are_known_to_the_mask() -> None:
    recorded = {"ranks": [0], "steps": [], "hosts": ["gpu-b", "gpu-a"]}
    run = diagnosis().run.model_dump() | {"hosts": ["gpu-a"], "recorded": recorded}
    named = Diagnosis.model_validate(diagnosis().model_dump(by_alias=True) | {"run": run})
    assert hosts_of(named) == ("gpu-a", "gpu-b")


def settings_for(folder: Path, url: str, **env: str) -> Settings:
    return settings_of(
        folder, HERMES_DX_LLM_BASE_URL=url, HERMES_DX_LLM_MODEL="tiny", HERMES_DX_LLM_MAX_RETRIES="0", **env
    )


def test_without_a_configured_model_there_is_no_writer(tmp_path: Path) -> None:
    assert writer_for(settings_of(tmp_path)) is None
    assert writer_for(settings_for(tmp_path, "http://127.0.0.1:1/v1").without_model()) is None


def test_an_endpoint_writes_the_answer_and_its_cost_is_noted(tmp_path: Path) -> None:
    with serving(said(GOOD, prompt=900, completion=60)) as endpoint:
        writer = writer_for(settings_for(tmp_path, endpoint.url))
        assert writer is not None
        result = writer(diagnosis(), Listener())
    assert (result.answer_by, result.answer_model) == ("model", "tiny")
    assert "tiny: 1 call, 960 tokens" in result.notes[-1]
    assert "Cause 1, slow_data_processing:too_few_workers: " in endpoint.bodies[0]["messages"][1]["content"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(chunks=[text_chunk("The data")], done=False), "broke off"),
        (Answer(chunks=[text_chunk("The data")], done=False, cut=True), "broke off"),
        (refused(500, "boom"), "failed on its side"),
        (refused(401, "no"), "refused the API key"),
    ],
)
def test_an_endpoint_that_fails_is_one_line_in_the_notes(tmp_path: Path, answer: Answer, reason: str) -> None:
    with serving(answer) as endpoint:
        writer = writer_for(settings_for(tmp_path, endpoint.url))
        assert writer is not None
        result = writer(diagnosis(), Listener())
    assert_template_stays(result)
    assert len(result.notes) == len(diagnosis().notes) + 1
    assert reason in result.notes[-1]


def test_an_endpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    writer = writer_for(settings_for(tmp_path, "http://127.0.0.1:9/v1"))
    assert writer is not None
    result = writer(diagnosis(), Listener())
    assert_template_stays(result)
    assert "http://127.0.0.1:9/v1 cannot be reached" in result.notes[-1]


def test_the_verdict_of_the_templates_comes_first_in_every_report() -> None:
    result, _ = written(scripted(GOOD))
    source = {"path": "trace.json", "format": "kineto", "ranks": [0], "status": "complete"}
    run = result.run.model_copy(update={"sources": [SourceRecord.model_validate(source)]})
    result = result.model_copy(update={"run": run})
    for text in (" ".join(render_text(result).split()), " ".join(render_markdown(result).split())):
        places = [text.index(each) for each in (result.headline, INTRODUCTION, PARAGRAPHS[0])]
        assert places == sorted(places)
        assert text[: places[0]].upper().count("PROBLEM") == 1


def test_a_name_of_a_model_cannot_carry_markup() -> None:
    assert introduction("<b>x</b> [E1](http://evil)") == (
        "In the words of bx/b E1http://evil (figures checked against the evidence; the wording is the model's):"
    )
    assert introduction("\n").startswith("In the words of the model (")


def test_no_draft_reaches_a_reader_before_it_passed_nor_in_the_reason_why_it_did_not() -> None:
    listener = Listener()
    draft = answer_of(
        statement("To remedy this, run {name:rm -rf / now please}."), statement("Run {sudo reboot the node}.")
    )
    _, note = written(scripted("Run rm -rf / first.", draft, draft), listener)
    shown = f"{listener.streamed} {note} {listener.rejections}"
    for part in ("rm -rf", "sudo", "reboot"):
        assert part not in shown
    assert "left out" in note or "no usable answer" in note

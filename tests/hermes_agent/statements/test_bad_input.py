"""Whatever goes wrong with a model is one clear sentence, and the answer from the analyzers stands next to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.llm.model import Cancelled
from hermes_agent.questions.intents import Answer as Given
from tests.hermes_agent.llm.fake_endpoint import (
    Answer,
    Body,
    call_chunk,
    end_chunk,
    refused,
    said,
    serving,
    text_chunk,
)
from tests.hermes_agent.statements.slow_loader import Listener, statement
from tests.hermes_agent.statements.test_question import OPEN, OfflineSession, session_with

QUESTION = "Why is it slow?"
REFUSAL = "I'm sorry, but I can't help with that."
HOSTILE = (
    ("run_shell", '{"command": "rm -rf /"}'),
    ("evidence", '{"id": "../../etc/passwd"}'),
    ("series", '{"limit": 1e308}'),
    ("find_events", '{"rank": 0, "name": "\\u0000\\u001b[2J"}'),
    ("series", "not JSON at all"),
    ("measure", json.dumps({"metric": "x" * 50_000})),
)


def template(folder: Path) -> str:
    with OfflineSession(folder) as alone:
        return alone.ask(QUESTION, Listener()).text


def assert_useful(answer: Given, folder: Path) -> None:
    """The answer of the templates, with its figures, and one note that says what happened."""
    assert (answer.by, answer.text) == ("template", template(folder))
    assert cited_ids(answer.text) != []
    assert len(answer.notes) == 1
    assert answer.notes[0].startswith("Answered without the model: ")


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([refused(401, "Incorrect API key provided.")], "refused the API key"),
        ([refused(403, "No access.")], "refused the API key"),
        ([refused(404, "model not found", "model_not_found")], "knows no model 'tiny'"),
        ([refused(500, "boom")], "failed on its side"),
        ([refused(429, "later", Retry_After="3600")], "HTTP 429"),
        ([Answer(chunks=[text_chunk("The da")], done=False)], "broke off"),
        ([Answer(chunks=[text_chunk("The da")], done=False, cut=True)], "broke off"),
        ([Answer(200, document="<html>", content_type="text/html")], "instead of a stream"),
        ([said(REFUSAL)], "gave no usable answer"),
        ([said("")], "gave no usable answer"),
        ([said("{" * 5_000)], "gave no usable answer"),
    ],
)
def test_a_failing_model_is_one_sentence_and_the_analyzers_answer(
    tmp_path: Path, answers: Sequence[Answer], reason: str
) -> None:
    with serving(*answers) as endpoint, session_with(tmp_path, endpoint.url) as session:
        answer = session.ask(QUESTION, Listener())
    assert_useful(answer, tmp_path)
    assert reason in answer.notes[0]
    assert "Traceback" not in answer.notes[0]


def test_an_endpoint_that_is_down_is_named(tmp_path: Path) -> None:
    with session_with(tmp_path, "http://127.0.0.1:9/v1") as session:
        answer = session.ask(QUESTION, Listener())
    assert_useful(answer, tmp_path)
    assert "http://127.0.0.1:9/v1 cannot be reached" in answer.notes[0]


def test_without_a_key_the_endpoint_that_wants_one_is_told_apart(tmp_path: Path) -> None:
    no_key = refused(401, "You didn't provide an API key.")
    with serving(no_key) as endpoint, session_with(tmp_path, endpoint.url) as session:
        answer = session.ask(QUESTION, Listener())
    assert_useful(answer, tmp_path)
    assert "HERMES_DX_API_KEY" in answer.notes[0]


@pytest.mark.parametrize(("name", "arguments"), HOSTILE)
def test_hostile_arguments_reach_no_tool_and_the_model_may_still_answer(
    tmp_path: Path, name: str, arguments: str
) -> None:
    def asks(_: Body) -> Answer:
        return Answer(chunks=[call_chunk(0, arguments, "c1", name), end_chunk("tool_calls")])

    with serving(asks, said(OPEN)) as endpoint, session_with(tmp_path, endpoint.url) as session:
        answer = session.ask(QUESTION, Listener())
    assert answer.by == "model"
    shown = endpoint.bodies[1]["messages"][-1]["content"]
    assert "Failed: " in shown
    assert "Try: " in shown
    assert "\x1b" not in shown


def test_a_window_of_4096_tokens_is_enough_for_an_answer(tmp_path: Path) -> None:
    with serving(said(OPEN)) as endpoint:
        env = {"HERMES_DX_LLM_PROFILE_CONTEXT_WINDOW": "4096", "HERMES_DX_LLM_BASE_URL": endpoint.url}
        with OfflineSession(tmp_path, HERMES_DX_LLM_MODEL="tiny", **env) as session:
            assert session.ask(QUESTION, Listener()).by == "model"


def test_a_prompt_that_the_server_finds_too_long_says_what_to_do(tmp_path: Path) -> None:
    long = refused(400, "This model's maximum context length is 4096 tokens", "context_length_exceeded")
    with serving(long) as endpoint, session_with(tmp_path, endpoint.url) as session:
        answer = session.ask(QUESTION, Listener())
    assert_useful(answer, tmp_path)
    assert "context" in answer.notes[0]


def test_a_cancelled_question_leaves_the_session_ready_for_the_next(tmp_path: Path) -> None:
    with serving(said(OPEN)) as endpoint, session_with(tmp_path, endpoint.url) as session:
        with pytest.raises(Cancelled):
            session.ask(QUESTION, Listener(), lambda: True)
        assert session.turns == ()
        assert session.ask(QUESTION, Listener()).by == "model"


def test_what_is_asserted_without_evidence_is_not_shown(tmp_path: Path) -> None:
    lie = statement("", "causal", "slow_link", "present")
    made = json.dumps({"statements": [json.loads(lie.model_dump_json())]})
    with serving(said(made)) as endpoint, session_with(tmp_path, endpoint.url) as session:
        answer = session.ask(QUESTION, Listener())
    assert_useful(answer, tmp_path)

"""Spans of calls: names of the conventions, private, bounded, without content unless asked for."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.llm import spans
from hermes_agent.llm.endpoint import span_log
from hermes_agent.llm.model import Message, ModelRequest, Reply, ToolCall, Usage
from hermes_agent.llm.spans import SpanLog, SpannedModel
from hermes_agent.model.events import ToolCalled, ignore
from hermes_agent.model.turn import ToolCallRecord
from tests.hermes_agent.llm.scripted import ScriptedModel, Turn
from tools.errors import ModelError

REQUEST = ModelRequest((Message("user", "a secret question"),), max_tokens=50)
CALL = ToolCallRecord(handle="R1", name="series", arguments={"rank": 3}, by="model", seconds=0.25, size=9)


def ask(path: Path, turn: Turn, content: bool = False) -> SpannedModel:
    model = SpannedModel(ScriptedModel([turn], "tiny"), SpanLog(path, content), "http://127.0.0.1:8080/v1")
    model.complete(REQUEST, lambda: False)
    return model


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_call_is_a_span_with_the_names_of_the_conventions_and_no_content(tmp_path: Path) -> None:
    path = tmp_path / "state" / "spans.jsonl"
    ask(path, Reply("an answer", (ToolCall("c1", "series", "{}"),), usage=Usage(11, 3)))
    (span,) = lines(path)
    assert (span["name"], span["kind"], span["status"]) == ("chat tiny", "CLIENT", "OK")
    assert span["attributes"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.output.type": "text",
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 3,
        "server.address": "127.0.0.1",
        "server.port": 8080,
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_content_is_kept_where_it_was_asked_for(tmp_path: Path) -> None:
    ask(tmp_path / "spans.jsonl", "an answer", content=True)
    text = (tmp_path / "spans.jsonl").read_text()
    assert "a secret question" in text
    assert "an answer" in text


def test_a_failed_call_is_a_span_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        ask(tmp_path / "spans.jsonl", ModelError("The endpoint is down."))
    (span,) = lines(tmp_path / "spans.jsonl")
    assert span["status"] == "ERROR"
    assert isinstance(span["attributes"], dict)
    assert span["attributes"]["error.type"] == "ModelError"


def test_tool_calls_of_a_question_share_its_trace(tmp_path: Path) -> None:
    log = SpanLog(tmp_path / "spans.jsonl")
    for error in ("", "the run has no rank 3"):
        log.listening(ignore)(ToolCalled(CALL.model_copy(update={"error": error})))
    log.begin()
    log.tool_called(CALL)
    first, failed, other = lines(log.path)
    assert first["name"] == "execute_tool series"
    assert first["attributes"] == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "series",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "R1",
    }
    assert int(str(first["end_time_unix_nano"])) - int(str(first["start_time_unix_nano"])) >= 250_000_000
    assert (failed["status"], failed["trace_id"] == first["trace_id"]) == ("ERROR", True)
    assert other["trace_id"] != first["trace_id"]


def test_the_file_is_bounded_and_a_full_one_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "MOST_BYTES", 1_000)
    log = SpanLog(tmp_path / "spans.jsonl")
    for _ in range(20):
        log.tool_called(CALL)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"spans.jsonl", "spans.jsonl.1"}
    assert max(sizes.values()) <= 1_000


def test_a_link_is_not_followed_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "spans.jsonl").symlink_to(tmp_path / "elsewhere")
    SpanLog(tmp_path / "spans.jsonl").tool_called(CALL)
    assert (tmp_path / "elsewhere").read_text() == ""


def test_a_file_that_others_can_read_is_closed_to_them_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text("")
    path.chmod(0o644)
    SpanLog(path, content=True).tool_called(CALL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(lines(path)) == 1


@pytest.mark.parametrize("read", [False, True])
def test_a_pipe_neither_blocks_nor_is_written(tmp_path: Path, read: bool, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "spans.jsonl"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if read else None
    SpanLog(path).tool_called(CALL)
    assert "could not be written" in caplog.text
    if reader is not None:
        assert os.read(reader, 1) == b""
        os.close(reader)


def test_a_file_of_another_user_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text("")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    SpanLog(path).tool_called(CALL)
    assert path.read_text() == ""


def test_spans_are_off_unless_the_user_turns_them_on(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert span_log(Settings.load(tmp_path, env)) is None
    turned_on = span_log(Settings.load(tmp_path, env | {"HERMES_DX_LLM_SPANS": "on"}))
    assert turned_on == SpanLog(
        tmp_path / ".local/state/hermes-dx/spans.jsonl", trace_id=turned_on.trace_id if turned_on else ""
    )
    (tmp_path / "project").mkdir()
    (tmp_path / "project/hermes-dx.toml").write_text('[llm]\nspans = "content"\n')
    settings = Settings.load(tmp_path / "project", env)
    assert span_log(settings) is None
    assert any("llm.spans is not taken from a project file" in note for note in settings.notes)

"""Exchanges with a model, kept and played again."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from hermes_agent.llm.model import Message, ModelRequest, Reply, ResponseSchema, ToolCall, ToolSpec, Usage
from hermes_agent.llm.recording import RecordingModel, ReplayModel, request_key
from tests.hermes_agent.llm.scripted import ScriptedModel, Turn
from tools.errors import InputError, ModelError

ASK = ModelRequest((Message("user", "why?"),), (ToolSpec("steps", "Steps.", {"type": "object"}),), max_tokens=9)
OTHER = ModelRequest((Message("user", "why not?"),))


def play(model: RecordingModel | ReplayModel | ScriptedModel, request: ModelRequest) -> Reply:
    return model.complete(request, lambda: False)


def test_a_recording_plays_the_same_events_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "exchanges.jsonl"
    turns: list[Turn] = [
        Reply("Step 5\n", (ToolCall("a1", "steps", '{"rank": 1}'),), reasoning="hm", usage=Usage(3, 4)),
        Reply("other", reason="length"),
    ]
    recorder = RecordingModel(ScriptedModel(turns, name="tiny"), path)
    first, second = play(recorder, ASK), play(recorder, OTHER)
    replay = ReplayModel(path)
    assert replay.name == "tiny"
    assert play(replay, OTHER) == second
    assert play(replay, ASK) == first
    assert replay.left == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_request_that_was_not_recorded_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    play(RecordingModel(ScriptedModel(["a"]), path), ASK)
    with pytest.raises(ModelError, match=r"does not hold this request .*record it again"):
        play(ReplayModel(path), OTHER)


def test_each_exchange_is_played_once_and_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    recorder = RecordingModel(ScriptedModel(["first", "second"]), path)
    expected = [play(recorder, ASK), play(recorder, ASK)]
    replay = ReplayModel(path)
    assert [play(replay, ASK), play(replay, ASK)] == expected
    with pytest.raises(ModelError, match="only 2 times"):
        play(replay, ASK)


def test_a_failure_is_part_of_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    with pytest.raises(ModelError):
        play(RecordingModel(ScriptedModel([ModelError("It broke off.")]), path), ASK)
    with pytest.raises(ModelError, match=r"^It broke off\.$"):
        play(ReplayModel(path), ASK)


def test_the_key_depends_on_every_part_of_a_request() -> None:
    schema = ResponseSchema("v", {"type": "object"})
    requests = [
        ASK,
        OTHER,
        ModelRequest(ASK.messages, ASK.tools, max_tokens=10),
        ModelRequest(ASK.messages, ASK.tools, max_tokens=9, tool_choice="none"),
        ModelRequest(ASK.messages, ASK.tools, schema, max_tokens=9),
        ModelRequest((Message("system", "why?"),), ASK.tools, max_tokens=9),
    ]
    assert len({request_key(request) for request in requests}) == len(requests)
    assert request_key(ASK) == request_key(ModelRequest(ASK.messages, ASK.tools, max_tokens=9))


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "{}",
        json.dumps({"schema": "hermes-dx/exchange/3", "key": "", "model": "", "request": {}}),
        json.dumps(
            {
                "schema": "hermes-dx/exchange/2",
                "key": "k",
                "model": "m",
                "request": {},
                "reply": {"usage": {"prompt_tokens": "many"}},
            }
        ),
    ],
)
def test_a_damaged_recording_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "exchanges.jsonl"
    play(RecordingModel(ScriptedModel(["a"]), path), ASK)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match=r"exchanges\.jsonl:2 is no recorded exchange"):
        ReplayModel(path)


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl cannot be read"):
        ReplayModel(tmp_path / "none.jsonl")


def test_a_script_that_is_too_short_shows() -> None:
    model = ScriptedModel(["one"])
    play(model, ASK)
    with pytest.raises(ModelError, match="ended after 1 turns"):
        play(model, OTHER)
    assert model.requests == [ASK, OTHER]

"""The adapter against a server that behaves and misbehaves as real ones do."""

from __future__ import annotations

import gzip
import itertools
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from hermes_agent.llm.budget import Budget, Limits, take_turn
from hermes_agent.llm.capabilities import Capabilities, Endpoint, RetryPolicy
from hermes_agent.llm.endpoint import EndpointModel
from hermes_agent.llm.model import (
    Message,
    ModelRequest,
    Reply,
    ResponseSchema,
    ToolCall,
    ToolSpec,
    Usage,
)
from tests.hermes_agent.llm.fake_endpoint import (
    Answer,
    FakeEndpoint,
    call_chunk,
    dripping,
    end_chunk,
    raw_server,
    refused,
    said,
    serving,
    text_chunk,
    usage_chunk,
)
from tools.errors import ModelError

ASK = ModelRequest((Message("user", "why is it slow?"),))
TOOL = ToolSpec("steps", "Lists steps.", {"type": "object", "properties": {"rank": {"type": "integer"}}})
FORM = ResponseSchema("verdict", {"type": "object", "properties": {"cause": {"type": "string"}}})


def never() -> bool:
    return False


class Sleeps:
    """A clock that only adds up."""

    def __init__(self) -> None:
        self.total_s = 0.0

    def __call__(self, seconds: float) -> None:
        self.total_s += seconds


def model_at(
    endpoint: FakeEndpoint | str,
    capabilities: Capabilities | None = None,
    sleep: Callable[[float], None] | None = None,
    api_key: str | None = None,
    timeout_s: float = 5.0,
    temperature: float | None = None,
) -> EndpointModel:
    url = endpoint if isinstance(endpoint, str) else endpoint.url
    where = Endpoint(url, "tiny", api_key, timeout_s, temperature, loopback=True)
    return EndpointModel(where, capabilities or Capabilities(), RetryPolicy(2, sleep or Sleeps()))


def reply_of(model: EndpointModel, request: ModelRequest = ASK) -> Reply:
    return model.complete(request, never)


def test_text_in_pieces_is_one_reply_with_the_endpoints_token_counts() -> None:
    answer = Answer(chunks=[text_chunk("The loader"), text_chunk(" waits."), end_chunk(), usage_chunk(21, 5)])
    with serving(answer) as endpoint:
        reply = reply_of(model_at(endpoint))
    assert reply == Reply("The loader waits.", usage=Usage(21, 5))
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.bodies[0]["model"] == "tiny"
    assert endpoint.bodies[0]["stream_options"] == {"include_usage": True}


def test_tool_calls_split_over_chunks_are_put_together() -> None:
    chunks = [
        call_chunk(0, '{"ra', "a1", "steps"),
        call_chunk(1, "", "b2", "steps"),
        call_chunk(0, 'nk": 3}'),
        call_chunk(1, '{"rank": 4}'),
        end_chunk("tool_calls"),
    ]
    with serving(Answer(chunks=chunks)) as endpoint:
        reply = reply_of(model_at(endpoint), ModelRequest(ASK.messages, (TOOL,)))
    assert reply.calls == (ToolCall("a1", "steps", '{"rank": 3}'), ToolCall("b2", "steps", '{"rank": 4}'))
    assert endpoint.bodies[0]["tools"][0]["function"]["name"] == "steps"


def test_tool_calls_without_an_index_and_with_an_object_as_arguments_are_understood() -> None:
    chunks = [call_chunk(None, {"rank": 3}, "a1", "steps"), call_chunk(None, {"rank": 4}, "b2", "steps")]
    with serving(Answer(chunks=[*chunks, end_chunk("stop")])) as endpoint:
        reply = reply_of(model_at(endpoint), ModelRequest(ASK.messages, (TOOL,)))
    assert [(call.id, call.arguments_json) for call in reply.calls] == [("a1", '{"rank": 3}'), ("b2", '{"rank": 4}')]


def test_only_the_first_call_counts_where_parallel_calls_are_off() -> None:
    chunks = [call_chunk(0, "{}", "a1", "steps"), call_chunk(1, "{}", "b2", "steps"), end_chunk("tool_calls")]
    with serving(Answer(chunks=chunks)) as endpoint:
        model = model_at(endpoint, Capabilities(parallel_calls=False))
        reply = reply_of(model, ModelRequest(ASK.messages, (TOOL,)))
    assert [call.id for call in reply.calls] == ["a1"]
    assert endpoint.bodies[0]["parallel_tool_calls"] is False


def test_a_missing_usage_is_estimated_and_says_so() -> None:
    with serving(Answer(chunks=[text_chunk("x" * 40), end_chunk()])) as endpoint:
        budget = Budget()
        take_turn(model_at(endpoint), ASK, Limits(), budget, never, lambda _: None)
    spent = budget.spent
    assert (spent.prompt_tokens, spent.completion_tokens, spent.estimated) == (8, 10, True)


def test_a_strict_schema_falls_back_rung_by_rung_and_what_worked_is_remembered() -> None:
    def picky(body: dict[str, Any]) -> Answer:
        if "response_format" in body:
            return refused(400, f"response_format {body['response_format']['type']} is unavailable now")
        if "tool_choice" in body:
            return refused(400, "tool_choice is not supported by this model")
        return said('{"cause": "x"}')

    with serving(picky) as endpoint:
        model = model_at(endpoint)
        request = ModelRequest(ASK.messages, response_schema=FORM)
        reply = reply_of(model, request)
        tried = len(endpoint.bodies)
        reply_of(model, request)
    assert reply.text == '{"cause": "x"}'
    assert [each.detail.split()[-1] for each in reply.degraded] == [
        "forced_tool",
        "json_object",
        "plain",
    ]
    assert tried == 4
    assert len(endpoint.bodies) == 5
    assert '"cause"' in endpoint.bodies[4]["messages"][0]["content"]


def test_a_forced_tool_gives_its_arguments_as_the_text_of_the_answer() -> None:
    chunks = [call_chunk(0, '{"cause": ', "a1", "verdict"), call_chunk(0, '"x"}'), end_chunk("tool_calls")]
    with serving(refused(400, "json_schema is unsupported"), Answer(chunks=chunks)) as endpoint:
        reply = reply_of(model_at(endpoint), ModelRequest(ASK.messages, response_schema=FORM))
    assert reply.text == '{"cause": "x"}'
    assert (reply.calls, reply.reason) == ((), "stop")
    assert endpoint.bodies[1]["tool_choice"]["function"]["name"] == "verdict"


def test_an_endpoint_without_tools_gets_the_conversation_in_words() -> None:
    request = ModelRequest(
        (
            *ASK.messages,
            Message("assistant", "", (ToolCall("a1", "steps", '{"rank": 3}'),)),
            Message("tool", "step 5 took longest", tool_call_id="a1"),
        ),
        (TOOL,),
    )
    with serving(refused(500, "tools param requires --jinja flag"), said("Step 5.")) as endpoint:
        model = model_at(endpoint)
        reply = reply_of(model, request)
    assert reply.text == "Step 5."
    assert not model.capabilities.tools
    sent = endpoint.bodies[1]
    assert "tools" not in sent
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert "step 5 took longest" in sent["messages"][2]["content"]
    assert 'steps({"rank": 3})' in sent["messages"][1]["content"]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        ("Unsupported value: 'temperature' does not support 0.2", "temperature"),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "max_tokens"),
    ],
)
def test_a_refused_parameter_is_left_out_of_the_next_attempt(message: str, field: str) -> None:
    with serving(refused(400, message), said("ok")) as endpoint:
        reply = reply_of(model_at(endpoint, temperature=0.2), ModelRequest(ASK.messages, max_tokens=50))
    assert reply.text == "ok"
    assert field in endpoint.bodies[0]
    assert field not in endpoint.bodies[1]
    assert len(endpoint.bodies) == 2


def test_when_nothing_helps_the_first_refusal_is_reported_and_nothing_is_remembered() -> None:
    with serving(refused(400, "json_schema: first"), refused(400, "tool_choice: second")) as endpoint:
        model = model_at(endpoint)
        with pytest.raises(ModelError, match=r"did not accept the request \(HTTP 400: .*first"):
            reply_of(model, ModelRequest(ASK.messages, response_schema=FORM))
    assert model.capabilities == Capabilities()


def test_a_refused_key_is_one_sentence_without_the_key() -> None:
    with (
        serving(refused(401, "Incorrect API key provided: s3cret.", "invalid_api_key")) as endpoint,
        pytest.raises(ModelError, match=r"refused the API key .*HERMES_DX_API_KEY") as caught,
    ):
        reply_of(model_at(endpoint, api_key="s3cret"))
    assert "s3cret" not in str(caught.value)
    assert endpoint.headers[0]["authorization"] == "Bearer s3cret"


def test_an_unknown_model_is_named() -> None:
    with (
        serving(refused(404, "model not found", "model_not_found")) as endpoint,
        pytest.raises(ModelError, match="knows no model 'tiny'"),
    ):
        reply_of(model_at(endpoint))
    assert len(endpoint.bodies) == 1


def test_a_rate_limit_is_waited_out_as_long_as_the_server_asks() -> None:
    sleeps = Sleeps()
    with serving(refused(429, "slow down", Retry_After="7"), said("ok")) as endpoint:
        assert reply_of(model_at(endpoint, sleep=sleeps)).text == "ok"
    assert sleeps.total_s == pytest.approx(7.0)


def test_retries_are_bounded_and_their_end_is_reported() -> None:
    sleeps = Sleeps()
    with (
        serving(refused(429, "slow down")) as endpoint,
        pytest.raises(ModelError, match="rate-limited or out of quota"),
    ):
        reply_of(model_at(endpoint, sleep=sleeps))
    assert len(endpoint.bodies) == 3
    assert sleeps.total_s == pytest.approx(0.5 + 1.0)


@pytest.mark.parametrize(
    "answer", [refused(429, "no money", "insufficient_quota"), refused(429, "later", Retry_After="3600")]
)
def test_a_limit_that_will_not_pass_soon_is_not_waited_for(answer: Answer) -> None:
    sleeps = Sleeps()
    with serving(answer) as endpoint, pytest.raises(ModelError, match="HTTP 429"):
        reply_of(model_at(endpoint, sleep=sleeps))
    assert (len(endpoint.bodies), sleeps.total_s) == (1, 0.0)


def test_a_failing_server_is_tried_again_and_then_reported() -> None:
    with serving(refused(500, "boom"), said("ok")) as endpoint:
        assert reply_of(model_at(endpoint)).text == "ok"
    with serving(refused(503, "boom")) as endpoint, pytest.raises(ModelError, match=r"failed on its side \(HTTP 503"):
        reply_of(model_at(endpoint))
    assert len(endpoint.bodies) == 3


@pytest.mark.parametrize("cut", [True, False])
def test_a_stream_that_ends_in_the_middle_is_an_error(cut: bool) -> None:
    answer = Answer(chunks=[text_chunk("The loader")], done=False, cut=cut)
    with serving(answer) as endpoint, pytest.raises(ModelError, match="broke off in the middle"):
        reply_of(model_at(endpoint))
    assert len(endpoint.bodies) == 1


def test_an_error_inside_of_a_stream_is_reported_in_its_own_words() -> None:
    answer = Answer(chunks=[text_chunk("The"), {"error": {"message": "out of memory\x1b[31m"}}])
    with serving(answer) as endpoint, pytest.raises(ModelError, match=r"reported an error .*: out of memory; ask"):
        reply_of(model_at(endpoint))


@pytest.mark.parametrize("line", ["{not json", "[" * 100_000, "5", '"words"', "null"])
def test_chunks_that_make_no_sense_end_in_a_sentence(line: str) -> None:
    with serving(Answer(chunks=[line])) as endpoint, pytest.raises(ModelError, match="no chunk of an answer"):
        reply_of(model_at(endpoint))


def test_a_web_page_instead_of_a_stream_points_at_the_base_url() -> None:
    page = Answer(document="<html>hello</html>", content_type="text/html")
    with serving(page) as endpoint, pytest.raises(ModelError, match=r"text/html instead .*ends in /v1"):
        reply_of(model_at(endpoint))


def test_a_compressed_answer_is_refused_before_it_is_unpacked() -> None:
    bomb = Answer(document="not gzip at all", headers={"Content_Encoding": "gzip"})
    with serving(bomb) as endpoint, pytest.raises(ModelError, match="compressed its answer"):
        reply_of(model_at(endpoint))
    assert endpoint.headers[0]["accept-encoding"] == "identity"


@pytest.mark.parametrize("answer", [refused(400, "x" * 3000), Answer(chunks=["x" * 3000])])
def test_an_answer_that_does_not_end_is_not_read_to_its_end(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MAX_BODY_BYTES", "MAX_STREAM_BYTES"):
        monkeypatch.setattr(f"case_library.endpoint_client.{bound}", 2000)
    with serving(answer) as endpoint, pytest.raises(ModelError, match="larger than 2,000 bytes"):
        reply_of(model_at(endpoint))


def test_a_reply_compressed_eight_hundred_times_is_not_expanded() -> None:
    expanded_bytes = 50 << 20
    packed = gzip.compress(b"data: " + bytes(expanded_bytes))
    assert len(packed) < expanded_bytes / 800
    with raw_server(b"Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", [packed]) as url:
        tracemalloc.start()
        with pytest.raises(ModelError, match="compressed its answer"):
            reply_of(model_at(url))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < expanded_bytes / 4


@pytest.mark.parametrize("start", [b"data: ", b'data: {"choices": [{"delta": {"content": "', b": ", b""])
def test_one_endless_line_is_broken_off(start: bytes) -> None:
    endless = itertools.chain([start], itertools.repeat(b"x" * (1 << 16)))
    too_long = pytest.raises(ModelError, match=r"A line of the answer of .* is longer than 4,194,304 bytes")
    with raw_server(b"Content-Type: text/event-stream\r\n", endless) as url, too_long:
        reply_of(model_at(url))


def test_an_event_of_endless_lines_is_broken_off() -> None:
    endless = itertools.repeat(b"data: " + b"x" * 60_000 + b"\n")
    too_large = pytest.raises(ModelError, match="is larger than 67,108,864 bytes")
    with raw_server(b"Content-Type: text/event-stream\r\n", endless) as url, too_large:
        reply_of(model_at(url))


@pytest.mark.parametrize("piece", [b"data: a\n", b": wait\n\n", b"x"])
def test_a_stream_without_a_word_ends_with_the_budget_and_so_does_its_thread(piece: bytes) -> None:
    began = time.monotonic()
    with raw_server(b"Content-Type: text/event-stream\r\n", dripping(piece, 0.01)) as url:
        reply = model_at(url).complete(ASK, lambda: time.monotonic() - began > 0.3)
        assert (reply.text, reply.reason) == ("", "cancelled")
        for thread in [each for each in threading.enumerate() if each.name == "hermes-model-stream"]:
            thread.join(5)
            assert not thread.is_alive()


def test_a_refusal_that_breaks_off_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise httpx2.ReadError("reset")

    monkeypatch.setattr(httpx2.Response, "read", broken)
    with serving(refused(500, "no")) as endpoint, pytest.raises(ModelError, match="broke off its refusal"):
        reply_of(model_at(endpoint))


def test_a_redirect_is_not_followed() -> None:
    with serving(said("stolen")) as other:
        away = Answer(307, document="", headers={"location": f"{other.url}/chat/completions"})
        with serving(away) as endpoint, pytest.raises(ModelError, match=r"redirects to http://127.*llm.base_url"):
            reply_of(model_at(endpoint))
        assert other.bodies == []


def test_a_server_that_says_nothing_runs_into_the_timeout() -> None:
    with (
        serving(Answer(chunks=[text_chunk("late"), end_chunk()], hold=-1)) as endpoint,
        pytest.raises(ModelError, match=r"sent nothing for 0\.2 s"),
    ):
        reply_of(model_at(endpoint, timeout_s=0.2))


def test_an_endpoint_that_is_down_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelError, match=rf"http://127.0.0.1:{port}/v1 cannot be reached"):
        reply_of(model_at(f"http://127.0.0.1:{port}/v1"))


@pytest.mark.parametrize("hold", [-1, 1])
def test_the_user_can_break_off_while_the_server_is_silent(hold: int) -> None:
    asked = threading.Event()
    answer = Answer(chunks=[text_chunk("The"), text_chunk(" end"), end_chunk()], hold=hold)
    with serving(answer) as endpoint:
        threading.Timer(0.5, asked.set).start()
        start = time.monotonic()
        reply = model_at(endpoint, timeout_s=30.0).complete(ASK, asked.is_set)
        waited_s = time.monotonic() - start
    assert reply == Reply("" if hold == -1 else "The", reason="cancelled")
    assert waited_s < 10


def test_a_rate_limit_wait_can_be_broken_off() -> None:
    sleeps = Sleeps()
    with serving(refused(429, "slow down", Retry_After="20")) as endpoint:
        model = model_at(endpoint, sleep=sleeps)
        reply = model.complete(ASK, lambda: sleeps.total_s > 1.0)
    assert reply == Reply(reason="cancelled")
    assert sleeps.total_s < 2.0


def test_reasoning_is_kept_apart_and_handed_back_with_tool_calls_where_it_is_wanted() -> None:
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_content": "hmm"}, "finish_reason": None}]}
    with serving(Answer(chunks=[thinking, text_chunk("Yes."), end_chunk()])) as endpoint:
        model = model_at(endpoint, Capabilities(reasoning_echo=True))
        reply = reply_of(model)
        called = Message("assistant", "", (ToolCall("a1", "steps", "{}"),), reasoning="hmm")
        silent = Message("assistant", "", (ToolCall("a2", "steps", "{}"),))
        answer = Message("assistant", "Yes.", reasoning="x")
        reply_of(model, ModelRequest((*ASK.messages, called, silent, answer), (TOOL,)))
    assert (reply.reasoning, reply.text) == ("hmm", "Yes.")
    sent = endpoint.bodies[1]["messages"]
    assert [message.get("reasoning_content") for message in sent] == [None, "hmm", "", None]


def test_reasoning_is_not_sent_to_endpoints_that_did_not_ask_for_it() -> None:
    called = Message("assistant", "", (ToolCall("a1", "steps", "{}"),), reasoning="hmm")
    with serving(said("ok")) as endpoint:
        reply_of(model_at(endpoint), ModelRequest((*ASK.messages, called), (TOOL,)))
    assert "reasoning_content" not in endpoint.bodies[0]["messages"][1]


def test_thinking_written_into_the_answer_is_no_answer() -> None:
    chunks = [text_chunk("<thi"), text_chunk("nk>\nmaybe 42 ms</th"), text_chunk("ink>\n\nIt waits."), end_chunk()]
    with serving(Answer(chunks=chunks)) as endpoint:
        reply = reply_of(model_at(endpoint))
    assert reply.text == "It waits."
    assert reply.reasoning == "\nmaybe 42 ms"


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_sent() -> None:
    with (
        serving(said("ok")) as endpoint,
        pytest.raises(ModelError, match=r"needs about 1,004 tokens and 'tiny' takes 1,000"),
    ):
        reply_of(model_at(endpoint, Capabilities(context_window=1000)), ModelRequest((Message("user", "a" * 4000),)))
    assert endpoint.bodies == []


def test_a_prompt_that_the_server_finds_too_long_is_not_mistaken_for_a_missing_feature() -> None:
    message = "This model's maximum context length is 4096 tokens, reduce max_tokens or tools"
    with serving(refused(400, message)) as endpoint, pytest.raises(ModelError, match="too long for 'tiny'"):
        reply_of(model_at(endpoint), ModelRequest(ASK.messages, (TOOL,)))
    assert len(endpoint.bodies) == 1


def test_nothing_meant_for_openai_is_sent_to_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for-openai-only")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-mine")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with serving(said("ok")) as endpoint:
        assert reply_of(model_at(endpoint)).text == "ok"
    sent = " ".join(f"{name}={value}" for name, value in endpoint.headers[0].items())
    assert "for-openai-only" not in sent
    assert "org-of-mine" not in sent
    assert "project-of-mine" not in sent

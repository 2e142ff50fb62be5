"""Calls of tools: checked, timed, stored and reported, failures as well."""

from __future__ import annotations

import pytest

from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.events import Event, ToolCalled
from hermes_agent.model.turn import ToolCallRecord
from hermes_agent.tool_calls import ToolCaller
from tests.synthetic import RankBuilder, profile_of
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import tool_of
from tools.errors import UsageError


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def store() -> ResultStore:
    return ResultStore()


@pytest.fixture
def run() -> RunContext:
    rank = RankBuilder(0)
    for step in range(3):
        start_us = 1_000.0 * step
        rank.kernel("sgemm", start_us + 20, 900, call_us=start_us + 10)
        rank.step(step, start_us, start_us + 1_000)
    return RunContext(profile_of(rank))


@pytest.fixture
def caller(run: RunContext, events: list[Event], store: ResultStore) -> ToolCaller:
    return ToolCaller(run, events.append, store)


def records(events: list[Event]) -> list[ToolCallRecord]:
    return [event.call for event in events if isinstance(event, ToolCalled)]


def test_a_call_gives_the_result_and_is_reported_with_its_handle(
    caller: ToolCaller, events: list[Event], store: ResultStore
) -> None:
    result = caller.call("find_events", {"rank": 0, "kind": "kernel", "limit": 2}, "investigation")
    [record] = records(events)
    assert (result.total, len(result.rows), record.rows) == (3, 2, 2)
    assert (record.handle, record.name, record.by, record.error) == ("R1", "find_events", "investigation", "")
    assert record.arguments == {"rank": 0, "kind": "kernel", "limit": 2}
    assert record.seconds >= 0.0
    assert record.size == len(store.texts["R1"])
    assert "sgemm" in store.texts["R1"]


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("find_event", {"rank": 0}, "find_events"),
        ("find_events", {"rank": "three"}, "rank"),
        ("find_events", {"rank": 7}, "rank"),
    ],
)
def test_a_call_that_fails_is_reported_and_raised(
    caller: ToolCaller, events: list[Event], store: ResultStore, name: str, arguments: dict[str, object], part: str
) -> None:
    with pytest.raises(UsageError, match=part) as failure:
        caller.call(name, arguments)
    [record] = records(events)
    assert record.error == str(failure.value)
    assert store.texts[record.handle] == record.error


def test_nested_arguments_are_recorded_as_json(caller: ToolCaller, events: list[Event]) -> None:
    with pytest.raises(UsageError):
        caller.call("what_if", {"changes": [{"what": "nothing"}]})
    assert records(events)[0].arguments == {"changes": '[{"what": "nothing"}]'}


def test_a_bound_tool_gives_the_text_that_is_stored(
    caller: ToolCaller, run: RunContext, events: list[Event], store: ResultStore
) -> None:
    tool = caller.bound(tool_of("breakdown"), run)
    text = tool.call({"rank": 0})
    [record] = records(events)
    assert (record.by, record.arguments) == ("model", {"rank": 0})
    assert text == store.texts[record.handle]
    assert store.put(text) == record.handle


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ('{"rank": "three"}', {"rank": "three"}),
        ({"rank": -1, "depth": 2}, {"rank": -1, "depth": 2}),
        ('{"rank": NaN}', {"rank": "nan"}),
        ("rank=3", {"arguments": "rank=3"}),
    ],
)
def test_arguments_that_do_not_fit_are_reported_with_the_failure(
    caller: ToolCaller,
    run: RunContext,
    events: list[Event],
    store: ResultStore,
    given: dict[str, object] | str,
    recorded: dict[str, object],
) -> None:
    tool = caller.bound(tool_of("find_events"), run)
    with pytest.raises(UsageError, match="the arguments of find_events do not fit") as failure:
        tool.check(given)
    [record] = records(events)
    assert (record.name, record.by, record.arguments) == ("find_events", "model", recorded)
    assert record.error == str(failure.value) == store.texts[record.handle]

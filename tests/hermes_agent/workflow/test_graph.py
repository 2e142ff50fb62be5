"""The workflow's state holds what nodes learned, and its events say when work began and ended."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import CheckFinished, Event, Stage, StageFinished, StageStarted, ToolCalled
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from hermes_agent.workflow.graph import build, config
from hermes_agent.workflow.workspace import Workspace
from tools.analyzers.registry import CHECKS
from tools.views.profile import Profile


@pytest.fixture(scope="module")
def state(shared_cache: Path) -> dict[str, Any]:
    """The final state of a diagnosis with a baseline."""
    workspace = Workspace(Request((demo_run(),), baseline=(demo_fixed_run(),), cache_dir=shared_cache))
    try:
        found: dict[str, Any] = build().invoke({}, config=config(), context=workspace)
    finally:
        workspace.close()
    return found


@pytest.fixture(scope="module")
def events() -> list[Event]:
    heard: list[Event] = []
    diagnose(Request((demo_run(),)), heard.append)
    return heard


def test_the_state_is_plain_and_refers_to_findings_by_handle(state: dict[str, Any]) -> None:
    assert json.loads(json.dumps(state)) == state
    assert state["run"]["ranks"] == [0, 1]
    assert state["run"]["baseline"]
    assert {each["findings"] for each in state["checks"]} <= {f"checks/{each.name}" for each in CHECKS}
    assert state["causes"][0]["mechanism"] == "heavy_transform"
    assert (state["ranking"], state["recalls"], state["comparison"]) == ("ranking", ["recall/0"], "comparison")


def test_the_diagnosis_says_what_the_state_says(state: dict[str, Any]) -> None:
    diagnosis = Diagnosis.model_validate(state["diagnosis"])
    assert diagnosis.verdict == state["verdict"]
    assert [cause.cause for cause in diagnosis.causes] == [row["cause"] for row in state["causes"]]
    assert sorted(check.analyzer for check in diagnosis.checks) == sorted(row["check"] for row in state["checks"])
    assert diagnosis.comparison is not None


def test_each_stage_begins_before_its_work_and_ends_after_it(events: list[Event]) -> None:
    begun = [event.stage for event in events if isinstance(event, StageStarted)]
    ended = [event.stage for event in events if isinstance(event, StageFinished)]
    assert begun == ended == list(Stage)
    families = {each.name for each in CHECKS if each.stage == "family"}
    first = events.index(StageStarted(Stage.FAMILIES))
    checked = [at for at, event in enumerate(events) if isinstance(event, CheckFinished) and event.analyzer in families]
    finished = next(at for at, e in enumerate(events) if isinstance(e, StageFinished) and e.stage == Stage.FAMILIES)
    assert first < min(checked)
    assert max(checked) < finished


def test_loading_is_timed_from_its_beginning(events: list[Event]) -> None:
    (load,) = [event for event in events if isinstance(event, StageFinished) and event.stage == Stage.LOAD]
    assert load.seconds > 0.01


def test_no_thread_of_a_diagnosis_is_left(events: list[Event]) -> None:
    assert events
    assert [each.name for each in threading.enumerate() if each.name.startswith("hermes-dx")] == []


def test_threads_that_ask_for_different_things_do_not_wait_for_each_other() -> None:
    profile = Profile(Workspace(Request((demo_run(),))).profile().run)
    other_began = threading.Event()
    made: list[str] = []

    def slow() -> str:
        assert other_began.wait(10)
        made.append("slow")
        return "slow"

    first = [threading.Thread(target=profile.memo, args=("slow", slow)) for _ in range(2)]
    for thread in first:
        thread.start()
    profile.memo("quick", other_began.set)
    for thread in first:
        thread.join(10)
    assert made == ["slow"], "each is computed once"


def test_deep_looks_are_taken_where_the_time_is_and_cited(state: dict[str, Any], events: list[Event]) -> None:
    diagnosis = Diagnosis.model_validate(state["diagnosis"])
    taken = {each.look: each for each in diagnosis.routes if each.taken}
    assert {"phases", "shapes"} <= set(taken)
    assert [each["look"] for each in state["routes"]] == [each.look for each in diagnosis.routes]
    known = {each.id: each for each in diagnosis.evidence}
    assert known[taken["shapes"].evidence[0]].metric == "events_ms"
    called = {event.call.name for event in events if isinstance(event, ToolCalled)}
    assert called == {"phases", "find_events"}  # the step waits for data, not for communication
    line = next(e.note for e in events if isinstance(e, StageFinished) and e.stage == Stage.INTER_OPERATOR)
    assert "looks into" in line
    assert "shapes (Compute is" in line

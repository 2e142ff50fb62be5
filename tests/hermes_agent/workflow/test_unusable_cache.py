"""A cache that takes nothing costs the time to begin again, never the answer: it stays as it is, with one line."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Event, NotStored
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose


@contextmanager
def occupied(cache: Path) -> Iterator[None]:
    """The cache is a file."""
    cache.write_text("a file")
    yield


@contextmanager
def full(cache: Path) -> Iterator[None]:
    """The disk takes 1 KB of a file and no more."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.parametrize("made", [occupied, full])
def test_an_unusable_cache_costs_no_answer_and_is_said_once(
    made: Callable[[Path], AbstractContextManager[None]], tmp_path: Path, demo_diagnosis: Diagnosis
) -> None:
    cache, events = tmp_path / "cache", list[Event]()
    with made(cache):
        diagnosis = diagnose(Request((demo_run(),), cache_dir=cache), events.append)
    assert diagnosis.verdict == demo_diagnosis.verdict
    assert [each.impact_ms_per_step for each in diagnosis.causes] == [
        each.impact_ms_per_step for each in demo_diagnosis.causes
    ]
    said = [event.text for event in events if isinstance(event, NotStored)]
    assert said == [f"{cache}: nothing can be stored there; check its permissions and the space left."]
    assert [path for path in tmp_path.rglob("*") if ".part" in path.name] == []

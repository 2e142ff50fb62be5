"""A diagnosis in a process of its own: the same answer, events and errors, and it ends when nobody waits for it."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from case_library.retrieval.embedding_choice import EmbeddingChoice
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.llm.model import Cancelled
from hermes_agent.llm.redact import Redactor
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.events import Event, Notice, SourceWanted, Stage, StageFinished, ToolCalled, ignore
from hermes_agent.model.request import Request
from hermes_agent.session import Session
from hermes_agent.sessions.store import SessionStore
from hermes_agent.workflow.diagnose import diagnose
from hermes_agent.workflow.own_process import OwnProcess
from hermes_agent.workflow.way import Kept
from tests.hermes_agent.workflow.test_ask import write_log
from tools.errors import HermesError, InputError

GONE_WITHIN_S = 20.0
BEFORE = set[psutil.Process]()  # processes that other tests left, such as the tracker of multiprocessing


@pytest.fixture(autouse=True)
def _children_before() -> None:
    BEFORE.clear()
    BEFORE.update(psutil.Process().children(recursive=True))


def own_children() -> list[psutil.Process]:
    """The processes that this one started during the test and that live."""
    return [each for each in psutil.Process().children(recursive=True) if each not in BEFORE]


@pytest.fixture
def process() -> Iterator[OwnProcess]:
    own = OwnProcess()
    yield own
    own.close()


def fresh(cache: Path) -> Request:
    """A request for the bundled run that has no stored diagnosis, while the run and the case index are in the cache."""
    return Request((demo_run(),), cache_dir=cache, thresholds={"confidence": 0.6})


def shown(events: list[Event]) -> list[tuple[str, object]]:
    """What does not depend on time or on the order of branches."""
    kinds = [(type(each).__name__, getattr(each, "stage", getattr(each, "check", ""))) for each in events]
    return sorted(each for each in kinds if each[0] != "StageProgress")


def gone(children: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(children, GONE_WITHIN_S)[1]


def test_diagnosis_events_and_results_are_those_of_this_process(own_cache: Path, process: OwnProcess) -> None:
    here, there = list[Event](), list[Event]()
    kept_here, kept_there = ResultStore(), ResultStore()
    for each in (kept_here, kept_there):
        each.restore({"R1": "of a question before"})
        each.number_after(["R4"])
    expected = diagnose(fresh(own_cache), here.append, results=kept_here)
    shutil.rmtree(own_cache / "diagnoses")
    store = SessionStore(own_cache)
    request = fresh(own_cache)
    kept = Kept(store, store.new(request))
    made = diagnose(request, there.append, kept=kept, results=kept_there, process=process)
    assert made == expected
    assert shown(there) == shown(here)
    assert sorted(kept_there.texts.values()) == sorted(kept_here.texts.values())  # branches end in any order
    assert [each.call.handle for each in there if isinstance(each, ToolCalled)] == ["R5", "R6", "R7"]
    assert store.open(kept.session).pending == ""
    assert not own_children()
    store.close()


def test_a_cancelled_diagnosis_ends_its_process_and_keeps_the_steps_before(
    own_cache: Path, process: OwnProcess
) -> None:
    store, request = SessionStore(own_cache), fresh(own_cache)
    kept = Kept(store, store.new(request))
    children = list[psutil.Process]()

    def listen(event: Event) -> None:
        if isinstance(event, StageFinished) and event.stage == Stage.COARSE:
            children.extend(own_children())
            process.cancelled = lambda: True

    with pytest.raises(Cancelled):
        diagnose(request, listen, kept=kept, process=process)
    assert children
    assert gone(children)
    assert store.pending(kept.session) == SessionStore.UNFINISHED
    process.cancelled = lambda: False
    heard = list[Event]()
    diagnose(request, heard.append, kept=kept, process=process)
    assert Stage.COARSE not in {each.stage for each in heard if isinstance(each, StageFinished)}
    store.close()


def test_a_process_that_is_killed_is_one_sentence(own_cache: Path, process: OwnProcess) -> None:
    def kill(event: Event) -> None:
        for child in own_children():
            child.kill()

    with pytest.raises(HermesError, match="ended before its answer, perhaps for lack of memory"):
        diagnose(fresh(own_cache), kill, process=process)


def test_an_error_of_the_run_and_what_is_logged_arrive_here(
    tmp_path: Path, index_only: Path, process: OwnProcess, caplog: pytest.LogCaptureFixture
) -> None:
    trace = tmp_path / "rank0.pt.trace.json"
    trace.write_text("{}")
    with caplog.at_level(logging.DEBUG), pytest.raises(InputError, match=r"rank0\.pt\.trace\.json"):
        diagnose(Request((trace,), cache_dir=index_only), ignore, process=process)
    assert [each for each in caplog.records if each.process not in (None, os.getpid())]


def test_a_request_with_an_embedding_at_an_endpoint_can_be_handed_over() -> None:
    choice = EmbeddingChoice("endpoint", base_url="https://example.org/v1", mask=Redactor().mask)
    sent = pickle.loads(pickle.dumps(Request((demo_run(),), embedding=choice)))
    assert sent.embedding.mask("/home/me/x") == choice.mask("/home/me/x")  # type: ignore[misc]


def test_a_question_is_answered_where_it_was_asked_and_asked_again_by_a_later_chat(
    index_only: Path, tmp_path: Path
) -> None:
    log, other = tmp_path / "job.out", tmp_path / "other.txt"
    other.write_text("no trace\n")
    write_log(log, 2000.0, 100.0)
    request, settings = Request((log,), cache_dir=index_only), Settings(cache_dir=index_only)

    def asked(session: Session) -> list[SourceWanted]:
        heard = list[Event]()
        session.diagnose(heard.append)
        return [each for each in heard if isinstance(each, SourceWanted)]

    with Session(request, settings, asks=True) as session:
        (wanted,) = asked(session)
        (child,) = own_children()
        notices = list[Event]()
        with pytest.raises(InputError, match="is no profiler trace"):
            session.attach((other,), notices.append)
        assert not [each for each in notices if isinstance(each, StageFinished) and each.stage == Stage.COARSE]
        assert [each for each in notices if isinstance(each, Notice)]
        assert own_children() == [child]
        session.skip()
        assert gone([child])
    with Session(request, settings, asks=True) as later:
        assert asked(later) == [wanted]
        assert not own_children()
        with pytest.raises(InputError, match="is no profiler trace"):
            later.attach((other,), ignore)
    with Session(request, settings) as nobody:
        assert asked(nobody) == []
        assert nobody.diagnosis.source_wanted is not None

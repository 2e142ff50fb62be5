"""A diagnosis whose process is killed goes on after the last finished step, and says the same as without the kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import CheckFinished, Event, Notice, Stage, StageFinished, ignore
from hermes_agent.model.request import Request
from hermes_agent.sessions import store as sessions
from hermes_agent.sessions.store import SessionStore
from hermes_agent.workflow import stored
from hermes_agent.workflow.diagnose import Kept, diagnose

KILLED = """
import os, signal, sys
from pathlib import Path
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import Stage, StageFinished
from hermes_agent.model.request import Request
from hermes_agent.sessions.store import SessionStore
from hermes_agent.workflow.diagnose import Kept, diagnose

def emit(event):
    if isinstance(event, StageFinished) and event.stage == Stage(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

request = Request((demo_run(),), cache_dir=Path(sys.argv[1]))
store = SessionStore(request.cache_dir)
diagnose(request, emit, kept=Kept(store, store.new(request)))
"""


@pytest.fixture(scope="module")
def expected(prepared: Path) -> Diagnosis:
    """The diagnosis of the bundled run, made without a kill."""
    found = stored.find(prepared, stored.key(Request((demo_run(),), cache_dir=prepared)))
    return found or diagnose(Request((demo_run(),)), ignore)


def killed(cache: Path, stage: Stage) -> tuple[SessionStore, str]:
    """The store and session of a diagnosis that was killed when the stage had ended."""
    own = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(cache), stage.value], env=os.environ | own, check=False)
    assert done.returncode == -signal.SIGKILL
    store = SessionStore(cache)
    (row,) = store.sessions()
    return store, row.id


@pytest.mark.parametrize("stage", [Stage.FAMILIES, Stage.PREDICT])
def test_after_a_kill_the_same_answer_is_given_without_the_finished_steps(
    index_only: Path, expected: Diagnosis, stage: Stage
) -> None:
    store, session = killed(index_only, stage)
    assert store.open(session).pending == SessionStore.UNFINISHED
    heard: list[Event] = []
    request = Request((demo_run(),), cache_dir=index_only)
    assert diagnose(request, heard.append, kept=Kept(store, session)) == expected
    assert not [event for event in heard if isinstance(event, CheckFinished)]
    ended = {event.stage for event in heard if isinstance(event, StageFinished)}
    assert ended <= set(list(Stage)[list(Stage).index(stage) :])
    assert Stage.WRITE in ended
    assert store.open(session).pending == ""
    store.close()


@pytest.mark.parametrize("stage", [Stage.LOAD, Stage.COARSE, Stage.WRITE])
def test_a_session_that_is_gone_costs_one_notice_and_not_the_answer(
    own_cache: Path, expected: Diagnosis, stage: Stage
) -> None:
    request = Request((demo_run(),), cache_dir=own_cache, thresholds={"confidence": 0.6})  # none is stored
    store, notices = SessionStore(own_cache), list[str]()
    kept = Kept(store, store.new(request))

    def listen(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)
        if isinstance(event, StageFinished) and event.stage == stage:
            with sqlite3.connect(store.path) as other:  # another process drops it while the diagnosis runs
                other.execute("DELETE FROM sessions")

    made = diagnose(request, listen, kept=kept)
    assert made.causes == expected.causes
    (notice,) = [each for each in notices if "not kept" in each]
    assert notice.startswith("The steps of this diagnosis are not kept: there is no session")
    store.close()


def test_a_locked_file_of_sessions_costs_one_notice_and_not_the_answer(
    own_cache: Path, expected: Diagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "WAIT_S", 0.01)
    store, request = SessionStore(own_cache), Request((demo_run(),), cache_dir=own_cache)
    kept, heard = Kept(store, store.new(request)), list[Event]()
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert diagnose(request, heard.append, kept=kept).causes == expected.causes
    (notice,) = [event.text for event in heard if isinstance(event, Notice) and "not kept" in event.text]
    assert "database is locked" in notice
    other.close()
    store.close()


def test_a_state_of_another_run_is_not_used(index_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, request = SessionStore(index_only), Request((demo_run(),), cache_dir=index_only)
    kept, heard = Kept(store, store.new(request)), list[Event]()

    def stop(event: Event) -> None:
        if isinstance(event, StageFinished) and event.stage == Stage.COARSE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(request, stop, kept=kept)
    monkeypatch.setattr(stored, "code_fingerprint", lambda: "another version")
    diagnose(request, heard.append, kept=kept)
    assert {event.stage for event in heard if isinstance(event, StageFinished)} == set(Stage)
    store.close()

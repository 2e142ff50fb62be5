"""A diagnosis whose process is killed goes on after the last finished step, and says the same as without the kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import CheckFinished, Event, Stage, StageFinished, ignore
from hermes_agent.model.request import Request
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

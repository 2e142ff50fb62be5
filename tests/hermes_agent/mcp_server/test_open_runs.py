"""Runs that clients open: only allowed ones, each for one caller at a time, and no work for a client that has gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest

from hermes_agent.llm.model import Cancelled
from hermes_agent.mcp_server.allowed import AllowedFolders
from hermes_agent.mcp_server.open_runs import OpenRuns
from hermes_agent.mcp_server.work import Heard
from hermes_agent.model.events import Event, Stage, StageProgress, StageStarted, ignore
from hermes_agent.model.request import Request
from hermes_agent.questions.material import never
from hermes_agent.registered_runs import RegisteredRuns
from tests.hermes_agent.mcp_server.served import DEMO, served, settings_of
from tools.errors import InputError, UsageError


@pytest.fixture
def area(tmp_path: Path) -> Path:
    """A folder to allow, with a run in it, next to a run that is not in it."""
    shutil.copytree(DEMO / "slow", tmp_path / "area" / "run")
    shutil.copytree(DEMO / "fixed", tmp_path / "outside")
    return tmp_path / "area"


def test_a_path_inside_is_found_whole_or_relative(area: Path) -> None:
    allowed = AllowedFolders.of([area])
    inside = (area / "run").resolve()
    assert allowed.find("run") == allowed.find(str(area / "run")) == allowed.find("./x/../run") == inside


@pytest.mark.parametrize("text", ["../outside", "run/../../outside", "", "\0", "x" * 5000, "file:///etc", "~root"])
def test_what_lies_outside_or_is_no_path_is_refused(area: Path, text: str) -> None:
    with pytest.raises((UsageError, InputError)):
        AllowedFolders.of([area]).find(text)


def test_links_that_lead_out_are_refused(area: Path) -> None:
    (area / "link").symlink_to(area.parent / "outside")
    (area / "trace.json.gz").symlink_to(next((area.parent / "outside").glob("*.pt.trace.json.gz")))
    allowed = AllowedFolders.of([area])
    for name in ("link", "trace.json.gz"):
        with pytest.raises(UsageError, match="nor inside an allowed folder"):
            allowed.find(name)
    (area / "inner").symlink_to(area / "run")
    assert allowed.find("inner") == (area / "run").resolve()


def test_whether_a_file_outside_exists_is_not_shown(area: Path) -> None:
    allowed = AllowedFolders.of([area])
    sentences = []
    for name in ("outside", "not-there"):
        with pytest.raises(UsageError) as caught:
            allowed.find(f"../{name}")
        sentences.append(str(caught.value).replace(f"../{name}", "NAME"))
    assert sentences[0] == sentences[1]


def test_the_same_run_keeps_its_handle_and_a_part_of_it_has_another(area: Path, own_cache: Path) -> None:
    runs = served(own_cache, area)
    whole = runs.handle("run")
    assert runs.handle(str(area / "run")) == runs.handle(whole) == whole
    part = runs.handle("run", ranks=(1,))
    assert part != whole
    with runs.using(part, ignore, never) as (session, _):
        assert session.diagnosis.run.ranks == [1]
    runs.close()


def test_a_part_of_a_registered_run_goes_with_its_name(area: Path, own_cache: Path) -> None:
    runs = served(own_cache)
    RegisteredRuns.load(runs.settings).add("toy", [area / "run"])
    part = runs.handle("toy", ranks=(1,))
    assert runs.handle(part) == part
    assert list(runs.opened()) == [part]
    RegisteredRuns.load(runs.settings).remove("toy")
    assert runs.opened() == {}
    with pytest.raises(UsageError, match="no registered run toy"):
        runs.handle(part)


def test_a_folder_that_became_a_link_out_is_not_read(area: Path, own_cache: Path) -> None:
    runs = served(own_cache, area)
    handle = runs.handle("run")
    shutil.rmtree(area / "run")
    (area / "run").symlink_to(area.parent / "outside")
    with pytest.raises(UsageError, match="nor inside an allowed folder"), runs.using(handle, ignore, never):
        pass


def test_a_run_is_diagnosed_again_only_where_it_changed(area: Path, own_cache: Path) -> None:
    runs = served(own_cache, area)
    handle = runs.handle("run")
    with runs.using(handle, ignore, never, fresh=True) as (first, _):
        pass
    with runs.using(handle, ignore, never, fresh=True) as (second, _):
        assert second is first
    (area / "run" / "rank1.pt.trace.json.gz").unlink()
    with runs.using(handle, ignore, never) as (third, _):
        assert third is first
    with runs.using(handle, ignore, never, fresh=True) as (fourth, _):
        assert fourth.diagnosis.run.ranks == [0]
    runs.close()


def test_few_sessions_stay_open(shared_cache: Path) -> None:
    settings = settings_of(shared_cache)
    runs = OpenRuns(settings, Request((), cache_dir=shared_cache), AllowedFolders.of([DEMO]), most_open=1)
    opened = []
    for name in ("slow", "fixed", "fixed", "slow"):
        with runs.using(runs.handle(name), ignore, never) as (session, _):
            opened.append(session)
    assert opened[1] is opened[2]
    assert opened[3] is not opened[0]
    runs.close()


def test_a_caller_that_goes_while_it_waits_does_no_work(own_cache: Path) -> None:
    runs, gone, errors = served(own_cache, DEMO), Flag(), list[Exception]()
    handle = runs.handle("slow")

    def wait() -> None:
        try:
            with runs.using(handle, ignore, gone.is_set):
                pass
        except Cancelled as error:
            errors.append(error)

    with runs.using(handle, ignore, never):
        waiting = Thread(target=wait)
        waiting.start()
        gone.set()
        waiting.join(30)
    assert len(errors) == 1
    assert not runs.busy


def test_a_diagnosis_ends_when_its_client_goes(index_only: Path) -> None:
    runs, heard, events = served(index_only, DEMO), Heard(), list[Event]()

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, StageStarted) and event.stage is Stage.INTER_OPERATOR:
            heard.stop.set()
        heard.emit(event)

    with pytest.raises(Cancelled), runs.using(runs.handle("slow"), emit, heard.stop.is_set):
        pass
    assert not runs.busy
    assert not any(isinstance(each, StageStarted) and each.stage is Stage.WRITE for each in events)


def test_progress_only_grows() -> None:
    heard, seen = Heard(), list[float]()
    for event in (
        StageStarted(Stage.LOAD),
        StageProgress(Stage.LOAD, 9, 10, "read a.json"),
        StageProgress(Stage.LOAD, 1, 2, "files a.json"),
        StageProgress(Stage.LOAD, 1, 10, "read b.json\x1b[31m"),
        StageStarted(Stage.COARSE),
    ):
        heard.emit(event)
        seen.append(heard.progress)
        assert heard.message.isprintable()
    assert seen == [0.0, 0.45, 0.75, 0.75, 1.0]

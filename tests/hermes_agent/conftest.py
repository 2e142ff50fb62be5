"""Commands in tests keep their results in a folder of their own and see no configuration of the machine's user.

Building the case index and diagnosing the bundled run cost most of a diagnosis, so both are made once for all workers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the case index and the diagnosis of the bundled run, made once; it is copied, never used."""
    return _once(tmp_path_factory, "prepared", _demo_diagnosis)


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Path:
    """A cache folder that all workers write to, so that a run is read and diagnosed once in a session."""
    return _once(tmp_path_factory, "shared", lambda folder: _copied(prepared, folder))


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Path:
    """The cache folder that the commands of one worker share."""
    return _copied(prepared, tmp_path_factory.mktemp("kept"))


@pytest.fixture
def own_cache(tmp_path: Path, prepared: Path) -> Path:
    """The cache folder of one test, in which the bundled run is diagnosed."""
    return _copied(prepared, tmp_path / "cache")


@pytest.fixture
def index_only(tmp_path: Path, prepared: Path) -> Path:
    """The cache folder of one test, in which no run was read."""
    _copied(prepared / "case-index", tmp_path / "cache" / "case-index")
    return tmp_path / "cache"


@pytest.fixture
def demo_diagnosis(shared_cache: Path) -> Diagnosis:
    """The diagnosis of the bundled run."""
    return _demo_diagnosis(shared_cache)


@pytest.fixture
def commands_cache(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Points the commands at the shared cache and at an empty configuration folder."""
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(kept))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return kept


def _demo_diagnosis(cache: Path) -> Diagnosis:
    return diagnose(Request((demo_run(),), cache_dir=cache), ignore)


def _copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, dirs_exist_ok=True)
    return target


def _once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object]) -> Path:
    """A folder of all workers, filled by the first that asks for it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"{name}-cache"
    folder.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(folder.iterdir()):
            fill(folder)
    return folder

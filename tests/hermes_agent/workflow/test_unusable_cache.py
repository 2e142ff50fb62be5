"""A cache that takes nothing costs the time to begin again, never the answer: it stays as it is, with one line."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Event, NotStored
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose

# In a mount namespace of its own: a tiny file system on the folder, then the rest of the words with it as the cache.
MOUNT_AND_RUN = 'mount -t tmpfs -o "$0" none "$1" && shift && exec "$@"'
MOUNTED = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT_AND_RUN)


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


@pytest.mark.parametrize("mounted", ["size=8k,mode=700", "ro,mode=700"])
def test_a_disk_that_is_full_or_read_only_costs_no_answer(
    mounted: str, tmp_path: Path, demo_diagnosis: Diagnosis
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    on_it = (*MOUNTED, mounted, str(cache))
    if not shutil.which("unshare") or subprocess.run([*on_it, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine permits no mount namespaces")
    program = (sys.executable, "-m", "hermes_agent.cli.main", "diagnose", str(demo_run()), "--json")
    places = {"HERMES_DX_CACHE_DIR": str(cache), "XDG_CONFIG_HOME": str(tmp_path / "config"), "TMPDIR": str(tmp_path)}

    ended = subprocess.run(
        [*on_it, *program], env=os.environ | places, capture_output=True, text=True, timeout=120, check=True
    )

    diagnosis = json.loads(ended.stdout)
    assert diagnosis["verdict"] == demo_diagnosis.verdict
    assert [each["cause"] for each in diagnosis["causes"]] == [each.cause for each in demo_diagnosis.causes]
    said = f"{cache}: nothing can be stored there; check its permissions and the space left."
    assert ended.stderr.count(said) == 1
    assert "Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.rglob("*") if "part" in path.name] == []

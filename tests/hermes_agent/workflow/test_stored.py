"""A stored diagnosis is shown only for what it was made of, and a bad folder costs nothing but time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hermes_agent.model.events import DiagnosisReady, Event
from hermes_agent.model.request import Request
from hermes_agent.workflow import stored
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import span, write_trace

pytestmark = pytest.mark.usefixtures("index_only")


def recorded(path: Path, work_us: int = 800) -> Path:
    steps = [span(f"ProfilerStep#{n}", 1000 * n, 900, "user_annotation") for n in range(4)]
    return write_trace(path, [*steps, *(span("aten::mm", 1000 * n + 10, work_us) for n in range(4))])


def request(path: Path, cache: Path) -> Request:
    return Request(paths=(path,), cache_dir=cache, workers=1)


def cached(wanted: Request) -> bool:
    events: list[Event] = []
    diagnose(wanted, events.append)
    last = events[-1]
    assert isinstance(last, DiagnosisReady)
    return last.cached


def ignore(_: Event) -> None: ...


def test_the_same_request_is_answered_from_the_store_and_another_is_not(tmp_path: Path) -> None:
    trace, cache = recorded(tmp_path / "rank0.json"), tmp_path / "cache"

    assert not cached(request(trace, cache))
    assert cached(request(trace, cache))
    assert not cached(Request(paths=(trace,), cache_dir=cache, steps=(1, 2)))
    assert not cached(Request(paths=(trace,), cache_dir=cache, thresholds={"cause_share_pct": 1.0}))
    recorded(trace, 700)
    assert not cached(request(trace, cache))


def test_what_was_passed_over_in_a_folder_is_part_of_the_key(tmp_path: Path) -> None:
    folder, cache = tmp_path / "run", tmp_path / "cache"
    folder.mkdir()
    recorded(folder / "rank0.json")
    before = stored.key(request(folder, cache))

    (folder / "log.bin").write_text("x")

    assert stored.key(request(folder, cache)) != before


def test_a_diagnosis_of_files_that_changed_meanwhile_is_not_kept(tmp_path: Path) -> None:
    trace, cache = recorded(tmp_path / "rank0.json"), tmp_path / "cache"
    wanted = request(trace, cache)
    name = stored.key(wanted)
    diagnosis = diagnose(Request(paths=(trace,), workers=1), ignore)
    recorded(trace, 700)

    stored.keep(cache, name, wanted, diagnosis)

    assert stored.find(cache, name) is None
    assert stored.latest(cache) is None


def test_a_damaged_or_foreign_entry_is_no_diagnosis(tmp_path: Path) -> None:
    trace, cache = recorded(tmp_path / "rank0.json"), tmp_path / "cache"
    diagnose(request(trace, cache), ignore)
    entry = next((cache / "diagnoses").glob("*.json"))
    good = entry.read_bytes()
    assert stored.find(cache, entry.stem) is not None

    changes = {
        "empty": b"",
        "cut": good[:-10],
        "schema": good.replace(b"hermes-dx/diagnosis/1", b"hermes-dx/diagnosis/0"),
        "field": good[:-1] + b',"unknown":1}',
        "bytes": good[:50] + b"\xff\x00" + good[50:],
    }
    for change, content in changes.items():
        entry.write_bytes(content)
        assert stored.find(cache, entry.stem) is None, change


@pytest.mark.parametrize("text", ["", "[]", '{"key": 1}', "[" * 200_000, "\udcff"])
def test_a_damaged_note_of_the_latest_diagnosis_is_none(tmp_path: Path, text: str) -> None:
    stored.latest_path(tmp_path).parent.mkdir()
    stored.latest_path(tmp_path).write_bytes(text.encode("utf-8", "surrogateescape"))

    assert stored.latest(tmp_path) is None


def test_the_latest_request_comes_back_with_its_baseline(tmp_path: Path) -> None:
    wanted = Request(paths=(tmp_path / "b",), baseline=(tmp_path / "a",), steps=(1, 2), ranks=(0,), cache_dir=tmp_path)

    stored.remember(tmp_path, "name", wanted)

    assert stored.latest(tmp_path) == ("name", wanted)
    assert json.loads(stored.latest_path(tmp_path).read_text())["key"] == "name"


def test_a_folder_that_takes_nothing_does_not_cost_the_diagnosis(tmp_path: Path) -> None:
    trace, cache = recorded(tmp_path / "rank0.json"), tmp_path / "file"
    cache.write_text("in the way")

    assert diagnose(request(trace, cache), ignore).run.ranks == [0]
    assert cache.read_text() == "in the way"


def test_a_name_that_is_no_utf8_can_be_diagnosed_and_stored(tmp_path: Path) -> None:
    trace = recorded(tmp_path / os.fsdecode(b"rank0_\x1b[31m\xff.json"))

    diagnosis = diagnose(request(trace, tmp_path / "cache"), ignore)

    assert diagnosis.run.sources[0].path.isprintable()
    assert cached(request(trace, tmp_path / "cache"))
    assert stored.latest(tmp_path / "cache") is not None

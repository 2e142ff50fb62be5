"""Runs at a URL: what of a run lies there is copied, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from hermes_agent.cli import diagnose, fetch
from hermes_agent.cli.places import RunUrl, local, place
from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli.commands import execute
from tests.tools.sources.test_run_folder import monitored
from tools.errors import InputError, UsageError

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")


@pytest.fixture
def memory() -> Iterator[None]:
    """An empty file system in memory, also afterwards."""
    files = fsspec.filesystem("memory")
    yield
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def put(path: str, data: bytes = b"{}") -> None:
    fsspec.filesystem("memory").pipe_file(f"/{path}", data)


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("text", "is_url"),
    [("s3://bucket/run", True), ("simplecache::s3://b/r", True), ("/data/run", False), ("run:1//x", False)],
)
def test_a_url_is_told_from_a_path(text: str, is_url: bool) -> None:
    assert isinstance(place(text), RunUrl) == is_url


def test_a_local_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert local(tmp_path, None) == tmp_path


@pytest.mark.usefixtures("memory")
def test_only_the_files_of_a_run_are_copied(tmp_path: Path) -> None:
    wanted = {
        *("run/env.json", "run/steps_rank0.jsonl", "run/rank0.pt.trace.json.gz", "run/capture-0001/rank0.json.gz"),
        *(
            "run/monitor/rank00000-1-2.steps",
            "run/monitor/rank00000-1-2.events.jsonl",
            "run/monitor/anomalies-h.jsonl",
            "run/monitor/rank00001-1-2.steps.gz",
        ),
    }
    others = {"run/model.safetensors", "run/monitor/notes.txt", "run/.hidden.json", "run/a/b/deep.json", "run/k.pkl"}
    for name in wanted | others:
        put(name)
    copy = fetch.fetched("memory://run", tmp_path)
    assert {f"run/{name}" for name in names_below(copy)} == wanted
    assert copy.is_relative_to(tmp_path)


@pytest.mark.usefixtures("memory")
def test_a_url_may_name_one_trace(tmp_path: Path) -> None:
    put("run/rank0.pt.trace.json")
    assert names_below(fetch.fetched("memory://run/rank0.pt.trace.json", tmp_path)) == {"rank0.pt.trace.json"}


@pytest.mark.usefixtures("memory")
def test_what_is_gone_at_the_url_is_gone_from_the_copy(tmp_path: Path) -> None:
    put("run/a.json")
    fetch.fetched("memory://run", tmp_path)
    fsspec.filesystem("memory").rm("/run/a.json")
    put("run/b.json")
    assert names_below(fetch.fetched("memory://run", tmp_path)) == {"b.json"}


class Listing:
    """A file system whose listing and content the test makes up."""

    def __init__(self, names: list[str], data: bytes = b"x") -> None:
        self.names = names
        self.data = data

    def exists(self, path: str) -> bool:
        return True

    def isdir(self, path: str) -> bool:
        return True

    def size(self, path: str) -> int:
        return 0

    def ls(self, path: str, detail: bool) -> list[dict[str, object]]:
        return [{"name": f"{path}/{name}", "type": "file", "size": 0} for name in self.names]

    def open(self, path: str, mode: str) -> BytesIO:
        return BytesIO(self.data)


@pytest.mark.parametrize("name", ["..json", "a\\..\\b.json", "a\n.json", "x" * 300 + ".json", "b\x1b[31m.json"])
def test_a_name_that_is_none_of_ours_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(fetch, "_opened", lambda url, shown: (Listing([name, "ok.json"]), "run"))
    assert names_below(fetch.fetched("made://run", tmp_path)) == {"ok.json"}


def test_more_bytes_than_a_listing_told_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_opened", lambda url, shown: (Listing(["a.json"], b"x" * 100), "run"))
    monkeypatch.setattr(fetch, "MOST_BYTES", 99)
    with pytest.raises(InputError, match="too much to be copied"):
        fetch.fetched("made://run", tmp_path)


def test_more_files_than_a_run_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"{number}.json" for number in range(fetch.MOST_FILES + 1)]
    monkeypatch.setattr(fetch, "_opened", lambda url, shown: (Listing(many), "run"))
    with pytest.raises(InputError, match="holds 4097 files"):
        fetch.fetched("made://run", tmp_path)


@pytest.mark.usefixtures("memory")
def test_nothing_of_a_run_and_nothing_at_all_are_told_apart(tmp_path: Path) -> None:
    put("other/model.bin")
    with pytest.raises(InputError, match="holds no trace and no monitor records"):
        fetch.fetched("memory://other", tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        fetch.fetched("memory://none", tmp_path)


def test_an_unknown_protocol_is_refused_without_what_it_signs_in_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        fetch.fetched("nowhere://user:secret@host/run?sig=hidden", tmp_path)
    assert "nowhere://host/run: cannot be opened" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_only_the_last_copies_are_kept(tmp_path: Path) -> None:
    for number in range(fetch.KEPT + 2):
        source = tmp_path / f"run{number}"
        source.mkdir()
        (source / "a.json").write_text("{}")
        fetch.fetched(f"file://{source}", tmp_path / "cache")
    assert len(list((tmp_path / "cache" / "fetched").iterdir())) == fetch.KEPT


@pytest.mark.usefixtures("commands_cache")
def test_a_run_at_a_url_is_diagnosed_like_a_local_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(diagnose, f"file://{demo_run()}", "--json", "--no-llm") == 0
    there = capsys.readouterr()
    assert execute(diagnose, str(demo_run()), "--json", "--no-llm") == 0
    here = json.loads(capsys.readouterr().out)
    assert json.loads(there.out)["headline"] == here["headline"]
    assert "copied" in there.err


@pytest.mark.usefixtures("commands_cache")
def test_records_at_a_url_are_diagnosed_without_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitored(tmp_path, steps=40)
    assert execute(diagnose, f"file://{tmp_path}", "--json", "--no-llm") == 0
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["verdict"] == "inconclusive"
    assert diagnosis["run"]["ranks"] == []
    assert diagnosis["run"]["recorded"]["ranks"] == [0]
    assert diagnosis["breakdown"] == []
    assert "hermes-dx monitor profile" in diagnosis["next_measurements"][0]

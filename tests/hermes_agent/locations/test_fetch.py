"""Runs at a URL: what of a run lies there is copied, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest

from hermes_agent.cli.commands import diagnose, show
from hermes_agent.demo.data import demo_run
from hermes_agent.locations import fetch
from hermes_agent.locations import places as copies
from hermes_agent.locations.places import RunUrl, local, place
from tests.hermes_agent.cli.execution import execute
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

    def isdir(self, path: str) -> bool:
        return True

    def info(self, path: str) -> dict[str, object]:
        return {"name": path, "type": "directory"}

    def ls(self, path: str, detail: bool) -> list[dict[str, object]]:
        return [{"name": f"{path}/{name}", "type": "file", "size": 0} for name in self.names]

    def open(self, path: str, mode: str) -> BytesIO:
        return BytesIO(self.data)


@pytest.mark.parametrize("name", ["..json", "a\\..\\b.json", "a\n.json", "x" * 300 + ".json", "b\x1b[31m.json"])
def test_a_name_that_is_none_of_ours_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(fetch, "opened", lambda url, **_: (Listing([name, "ok.json"]), "run"))
    assert names_below(fetch.fetched("made://run", tmp_path)) == {"ok.json"}


def test_more_bytes_than_a_listing_told_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "opened", lambda url, **_: (Listing(["a.json"], b"x" * 100), "run"))
    monkeypatch.setattr(fetch, "MOST_BYTES", 99)
    with pytest.raises(InputError, match="too much to be copied"):
        fetch.fetched("made://run", tmp_path)


def test_more_files_than_a_run_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"{number}.json" for number in range(fetch.MOST_FILES + 1)]
    monkeypatch.setattr(fetch, "opened", lambda url, **_: (Listing(many), "run"))
    with pytest.raises(InputError, match="holds 4097 files"):
        fetch.fetched("made://run", tmp_path)


@pytest.mark.usefixtures("memory")
def test_nothing_of_a_run_and_nothing_at_all_are_told_apart(tmp_path: Path) -> None:
    put("other/model.bin")
    with pytest.raises(InputError, match="holds nothing that looks like a trace, monitor records, a step log"):
        fetch.fetched("memory://other", tmp_path)
    with pytest.raises(InputError, match="it does not exist, or access was refused"):
        fetch.fetched("memory://none", tmp_path)


def test_an_unknown_protocol_is_refused_without_what_it_signs_in_with(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        fetch.fetched("nowhere://user:secret@host/run?sig=hidden", tmp_path)
    assert "nowhere://host/run: cannot be opened" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)


def run_folder(place: Path) -> Path:
    place.mkdir()
    (place / "a.json").write_text("{}")
    return place


def copies_in(cache: Path) -> list[Path]:
    return [path for path in (cache / "fetched").iterdir() if path.is_dir()]


def test_all_runs_of_one_command_are_there_when_the_last_was_copied(tmp_path: Path) -> None:
    urls = [f"file://{run_folder(tmp_path / f'run{number}')}" for number in range(copies.CACHED + 2)]
    made = [fetch.fetched(url, tmp_path / "cache") for url in urls]
    assert [names_below(copy) for copy in made] == [{"a.json"}] * len(urls)


def test_only_the_last_copies_of_other_commands_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for number in range(copies.CACHED + 2):
        monkeypatch.setattr(copies, "_made", set())
        made.append(fetch.fetched(f"file://{run_folder(tmp_path / f'run{number}')}", tmp_path / "cache"))
        os.utime(made[-1], ns=(number, number))
    assert set(copies_in(tmp_path / "cache")) == set(made[-copies.CACHED :])


def test_a_new_copy_of_a_url_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    url = f"file://{run_folder(tmp_path / 'run')}"
    first = fetch.fetched(url, tmp_path / "cache")
    assert fetch.fetched(url, tmp_path / "cache") == first
    assert copies_in(tmp_path / "cache") == [first]
    assert first.stat().st_mode & 0o777 == 0o700


def test_more_folders_than_can_be_listed_are_refused_rather_than_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MOST_FOLDERS", 2)
    for name in ("capture-0001", "capture-0002", "monitor"):
        run_folder(tmp_path / name)
    with pytest.raises(InputError, match="holds 3 folders, too much"):
        fetch.fetched(f"file://{tmp_path}", None)


def test_links_and_pipes_at_a_url_are_not_followed(tmp_path: Path) -> None:
    outside = run_folder(tmp_path / "outside")
    run = run_folder(tmp_path / "run")
    (run / "linked.json").symlink_to(outside / "a.json")
    (run / "capture-0001").symlink_to(outside)
    os.mkfifo(run / "rank0.json")
    assert names_below(fetch.fetched(f"file://{run}", tmp_path / "cache")) == {"a.json"}


def test_a_trace_behind_a_signed_url_is_told_by_what_stands_before_the_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Signed(Listing):
        def info(self, path: str) -> dict[str, object]:
            return {"name": path, "type": "file", "size": 1}

    root = "http://host/rank0.pt.trace.json.gz?X-Amz-Signature=abc/def"
    monkeypatch.setattr(fetch, "opened", lambda url, **_: (Signed([]), root))
    assert names_below(fetch.fetched(root, tmp_path)) == {"rank0.pt.trace.json.gz"}


class Refusing(BaseHTTPRequestHandler):
    """A server that lets nobody read."""

    def do_GET(self) -> None:
        self.send_error(403)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_a_server_that_refuses_is_not_told_as_an_empty_place(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(InputError, match=r"403|refused"):
            fetch.fetched(f"http://127.0.0.1:{server.server_port}/run", tmp_path)
        server.shutdown()


def test_a_protocol_that_cannot_be_opened_so_is_refused_whatever_it_raises(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reference://x: cannot be opened"):
        fetch.fetched("reference://x", tmp_path)


class Broken(BytesIO):
    """A file that ends in an error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(b"x")
        self.error = error

    def read(self, size: int | None = -1, /) -> bytes:
        if data := super().read(size):
            return data
        raise self.error


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "no space"), "the disk for the copy is full"),
        (ValueError("odd"), "cannot be read"),
        (KeyboardInterrupt("stopped"), "stopped"),
    ],
)
def test_nothing_stays_of_a_copy_that_was_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str, cached: bool
) -> None:
    class Ending(Listing):
        def open(self, path: str, mode: str) -> BytesIO:
            return Broken(error)

    monkeypatch.setattr(fetch, "opened", lambda url, **_: (Ending(["a.json"]), "run"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises((InputError, KeyboardInterrupt), match=told):
        fetch.fetched("made://run", tmp_path / "cache" if cached else None)
    assert names_below(tmp_path) == set()
    assert [path for path in tmp_path.rglob("*") if path.name != "cache" and path.name != "fetched"] == []


def test_a_copy_that_nothing_keeps_goes_with_an_interrupt(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from hermes_agent.locations.fetch import fetched; "
        "from hermes_agent.cli.terminal import leave_at_once; leave_at_once(); "
        "print(fetched(sys.argv[1], None), flush=True); os.kill(os.getpid(), signal.SIGINT); signal.pause()"
    )
    url = f"file://{run_folder(tmp_path / 'run')}"
    kept = run_folder(tmp_path / "temporary")
    environment = {**os.environ, "TMPDIR": str(kept)}
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, env=environment)
    assert done.returncode == 130
    assert done.stdout.startswith(str(kept))
    assert names_below(kept) == {"a.json"}
    assert not Path(done.stdout.strip()).exists()


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


@pytest.mark.usefixtures("commands_cache")
def test_what_stands_behind_an_id_can_be_shown_for_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"file://{demo_run()}"
    assert execute(show, "E1", url, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["agrees"] is True
    assert shown["lines"][-1].endswith(f"is a copy of {url}")


def test_a_copy_that_is_gone_is_told_by_its_url(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(own_cache))
    url = f"file://{demo_run()}"
    execute(diagnose, url, "--no-llm")
    shutil.rmtree(copies_in(own_cache)[0])
    with pytest.raises(UsageError, match=rf"the copy of {url} that was diagnosed is gone; name the URL"):
        execute(show, "E1")

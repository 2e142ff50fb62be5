"""Reading a run folder in which anybody may have put pipes, devices, folders and links."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket as socketlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.monitor.format import RECORD, STEPS_MAGIC, Description, Workload
from tests.hermes_agent.monitor.monitored import record
from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.errors import InputError
from tools.sources import inventory
from tools.sources.inventory import take_inventory
from tools.sources.load import load_run
from tools.sources.options import Limits
from tools.sources.plain_files import open_plain

KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a loop of links": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("/nowhere/at/all"),
    "a link out of the run": lambda path: path.symlink_to("/etc/hostname"),
    "a folder": lambda path: path.mkdir(),
    "a device": lambda path: os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5)),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The records of ranks 0 and 1, of 30 steps each."""
    records = tmp_path / "run" / "monitor"
    records.mkdir(parents=True)
    for rank in (0, 1):
        about = Description(rank, 2, None, "host", 7, 1_000_000_000, 16, Workload())
        rows = b"".join(RECORD.pack(*record(step, 10.0 + step % 3)) for step in range(30))
        (records / f"{about.stem}.steps").write_bytes(about.pack(STEPS_MAGIC) + rows)
        (records / f"{about.stem}.events.jsonl").touch()
    return tmp_path / "run"


def put(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    try:
        KINDS[kind](path)
    except PermissionError:
        pytest.skip(f"this user cannot make {kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("monitor/rank00000-1000-7.steps", {1}),
        ("monitor/rank00000-1000-7.events.jsonl", {0, 1}),
        ("monitor/anomalies-x.jsonl", {0, 1}),
        ("env.json", {0, 1}),
        ("steps_rank0.jsonl", {0, 1}),
        ("rank0.pt.trace.json", {0, 1}),
        ("capture-²", {0, 1}),
    ],
)
def test_what_is_no_file_of_the_run_is_left_out_and_the_rest_is_read(
    run: Path, kind: str, name: str, left: set[int]
) -> None:
    put(kind, run / name)
    read = load_run([run])
    assert read.records is not None
    assert set(read.records.steps["rank"]) == left
    if name.endswith("events.jsonl"):
        assert any(name.removeprefix("monitor/") in note for note in read.notes)


def socket(path: Path) -> None:
    with socketlib.socket(socketlib.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


@pytest.mark.parametrize("made", [os.mkfifo, socket, KINDS["a device"]])
def test_a_pipe_a_socket_or_a_device_among_traces_is_a_source_that_was_not_read(
    tmp_path: Path, made: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    write_trace(tmp_path / "rank0.json", [span("aten::mm", 10, 5)], distributedInfo=rank_info(0))
    path = tmp_path / "rank1.json"
    try:
        made(path)
    except PermissionError:
        pytest.skip("this user cannot make a device")
    reason = f"{path}: is a pipe, a socket or a device and not a file; it was not read"

    read = load_run([tmp_path])

    assert [(source.path.name, source.status) for source in read.sources] == [
        ("rank0.json", "complete"),
        ("rank1.json", "excluded"),
    ]
    assert read.sources[1].note == reason
    (tmp_path / "rank0.json").unlink()
    with pytest.raises(InputError, match=re.escape(reason)):
        load_run([tmp_path])


@pytest.mark.parametrize("target", ["monitor", "../elsewhere"])
def test_a_records_folder_that_leads_elsewhere_is_not_followed(run: Path, target: str) -> None:
    shutil.move(run / "monitor", run.parent / "elsewhere")
    (run / "monitor").symlink_to(target)
    with pytest.raises(InputError, match="or monitor records") as refused:
        load_run([run])
    assert ("leads out of the run folder" in str(refused.value)) == (target != "monitor")


@pytest.mark.parametrize("name", ["train.log", "logs", "env.json"])
def test_a_link_that_leads_out_of_the_folder_is_left_out_with_a_line(run: Path, name: str) -> None:
    elsewhere = run.parent / "elsewhere"
    if "." in name:
        elsewhere.write_text("{}", encoding="utf-8")
    else:
        elsewhere.mkdir()
    (run / name).symlink_to(elsewhere)
    said = [note for note in load_run([run]).notes if note.startswith(f"{name}: is a link that leads out")]
    assert len(said) == 1


def test_a_file_that_is_no_trace_does_not_hide_the_records(run: Path) -> None:
    (run / os.fsdecode(b"\xff\x1b[31m.json")).write_text("{}", encoding="utf-8")
    read = load_run([run])
    assert read.records is not None
    assert any("no profiler trace" in note for note in read.notes)
    with pytest.raises(InputError, match="no profiler trace"):
        load_run([run / os.fsdecode(b"\xff\x1b[31m.json")])


def test_a_folder_that_may_not_be_listed_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "closed").mkdir()
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert any("closed: cannot be listed" in note for note in load_run([run]).notes)


def test_of_very_many_files_only_so_many_are_looked_at(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "MOST_ENTRIES", 50)
    for number in range(60):
        (run / f"x{number}.bin").touch()
    found = take_inventory([run], Limits())
    assert any("holds more than 50 files and folders" in note for note in found.notes)
    assert len(found.records) == 1


def test_files_that_vanish_or_turn_into_loops_after_they_were_listed_are_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "rank0.pt.trace.json").write_text("{}", encoding="utf-8")
    real = inventory._records

    def changed(*arguments: Any) -> Any:  # noqa: ANN401 - whatever the real one takes and gives
        found = real(*arguments)
        put("a loop of links", run / "rank0.pt.trace.json")
        for path in (run / "monitor").glob("rank00000*"):
            path.unlink()
        return found

    monkeypatch.setattr(inventory, "_records", changed)
    read = load_run([run])
    assert read.records is not None
    assert set(read.records.steps["rank"]) == {1}


def test_a_trace_that_became_a_loop_of_links_while_it_was_listed_is_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "rank0.pt.trace.json").write_text("{}", encoding="utf-8")
    real = inventory._in_folder

    def changed(*arguments: Any) -> Any:  # noqa: ANN401
        found = real(*arguments)
        put("a loop of links", run / "rank0.pt.trace.json")
        return found

    monkeypatch.setattr(inventory, "_in_folder", changed)
    assert load_run([run]).records is not None


def test_a_file_that_looks_plain_and_waits_for_content_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``/proc/kmsg`` is one, which waits only while the kernel says nothing."""
    waiting = tmp_path / "kmsg"
    waiting.write_text("")

    def without_content(*_: int) -> bytes:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "pread", without_content)
    with pytest.raises(OSError, match="kmsg"):
        open_plain(waiting)

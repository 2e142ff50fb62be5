from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_agent.monitor import Monitor
from tests.hermes_agent.monitor.monitored import options
from tools.errors import UsageError
from tools.sources.monitor.reader import read_monitor

pytest.importorskip("fsspec", reason="fsspec is not installed")

from hermes_agent.locations.places import error_text, without_credentials
from hermes_agent.watch.left_out import LeftOut
from hermes_agent.watch.view import Publisher


def test_records_and_traces_are_copied_once_and_again_when_they_grow(run_folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "shared"
    publisher = Publisher(run_folder, f"file://{target}")
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        monitor.step()
    trace = run_folder / "capture-0001" / "rank0.pt.trace.json.gz"
    trace.parent.mkdir()
    trace.write_bytes(b"trace")
    (trace.parent / "rank0.pt.trace.json.part").write_bytes(b"half")
    assert publisher.publish() == 3
    assert publisher.publish() == 0
    assert list(read_monitor(target).steps["step"]) == [0]
    assert [path.name for path in (target / "capture-0001").iterdir()] == [trace.name]
    with Monitor(run_folder, rank=1, options=options()) as monitor:
        monitor.step()
    assert publisher.publish() == 2
    assert set(read_monitor(target).steps["rank"]) == {0, 1}


def test_it_is_due_once_a_minute(run_folder: Path, tmp_path: Path) -> None:
    publisher = Publisher(run_folder, str(tmp_path))
    assert [publisher.due(now) for now in (5.0, 6.0, 66.0)] == [True, False, True]


def test_an_unknown_kind_of_url_is_refused(run_folder: Path) -> None:
    with pytest.raises(UsageError, match="nowhere://x"):
        Publisher(run_folder, "nowhere://x")


def test_what_a_url_signs_in_with_is_not_shown(run_folder: Path) -> None:
    assert without_credentials("sftp://user:pa@ss@host/run?token=t#x") == "sftp://host/run"
    with pytest.raises(UsageError) as refused:
        Publisher(run_folder, "nowhere://user:secret@host/x?sig=hidden")
    assert "nowhere://host/x" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ftp://user:se/cret@127.0.0.1:1/x", "ftp://...@127.0.0.1:1/x"),
        ("ftp://user:p#w0rd@host/x", "ftp://..."),
        ("ftp://user:se?cret@host/x", "ftp://..."),
        ("https://host/x?token=secret@more", "https://..."),
        ("zip://a.json::ftp://user:pw@host/x", "zip://...@host/x"),
        ("s3://bucket/run", "s3://bucket/run"),
        ("/data/run", "/data/run"),
    ],
)
def test_no_part_of_a_password_is_shown_whatever_signs_it_holds(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_an_error_that_may_repeat_a_password_is_told_by_its_kind_only() -> None:
    assert error_text(ValueError("no p#w0rd"), "ftp://user:p#w0rd@host") == "ValueError"
    assert error_text(ValueError("no such place"), "s3://bucket") == "no such place"


def test_a_linked_capture_folder_is_not_copied(run_folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "private.gz").write_bytes(b"private")
    (run_folder / "capture-0001").symlink_to(elsewhere)
    assert Publisher(run_folder, f"file://{tmp_path / 'shared'}").publish() == 0


def test_what_is_no_plain_file_of_the_run_is_not_copied_and_said_once(run_folder: Path, tmp_path: Path) -> None:
    private = tmp_path / "private.steps"
    private.write_bytes(b"private")
    records = run_folder / "monitor"
    records.mkdir()
    (records / "rank00000-1-1.steps").symlink_to(private)
    (records / "rank00001-1-1.steps").hardlink_to(private)
    os.mkfifo(records / "rank00002-1-1.steps")
    (records / "rank00003-1-1.steps").write_bytes(b"steps")
    left_out = LeftOut()
    publisher = Publisher(run_folder, f"file://{tmp_path / 'shared'}", left_out)
    assert [publisher.publish(), publisher.publish()] == [1, 0]
    assert [path.name for path in (tmp_path / "shared" / "monitor").iterdir()] == ["rank00003-1-1.steps"]
    said = left_out.take()
    assert [each.rpartition("/")[2].partition(",")[0].rstrip(")") for each in said] == [
        "rank00000-1-1.steps: is not copied (is a link",
        "rank00001-1-1.steps: is not copied (has a second name",
        "rank00002-1-1.steps: is not copied (is no plain file",
    ]

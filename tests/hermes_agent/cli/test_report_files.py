"""``diagnose --html``, ``--png`` and ``--svg``: whole files, one sentence where they cannot be written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.report.files import write_report
from hermes_agent.report.pictures import offer
from tools.errors import UsageError

DIAGNOSE = ["diagnose", str(demo_run()), "--no-llm"]


pytestmark = pytest.mark.usefixtures("commands_cache")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_forms_are_written_and_nothing_else_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.html").write_text("an older one")
    assert main([*DIAGNOSE, "--html", "report.html", "--png", "a.png", "--svg", "a.svg", "--picture", "series"]) == 0
    assert capsys.readouterr().out.startswith("rank0.pt.trace.json.gz")
    text = (tmp_path / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "Step time" in (tmp_path / "a.svg").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "a.png", "a.svg"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--html", "folder"], "folder is a folder; name a file to write"),
        (["--html", "missing/report.html"], "there is no folder missing"),
        (["--picture", "series"], "add one of them"),
        (["--png", "a.png", "--picture", "roofline"], "A roofline needs operators with recorded shapes"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    assert main([*DIAGNOSE, *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"folder"}


def test_a_pipe_and_a_file_of_the_run_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is no plain file"):
        write_report(tmp_path / "pipe", b"", Request((demo_run(),)))
    assert (tmp_path / "pipe").is_fifo()
    run, link = shutil.copytree(demo_run(), tmp_path / "run"), tmp_path / "link.html"
    shutil.copytree(demo_run().parent / "fixed", tmp_path / "before")
    (run / "monitor").mkdir()
    record = run / "monitor" / "rank00000-1795316330670-13263.steps"
    record.write_text("{}\n")
    trace = run / "rank1.pt.trace.json.gz"
    link.symlink_to(trace)
    request = Request((run,), baseline=(tmp_path / "before",), ranks=(0,))
    for target in (trace, link, run / "steps_rank1.jsonl", record, tmp_path / "before" / "rank0.pt.trace.json.gz"):
        before = target.read_bytes()
        with pytest.raises(UsageError, match="is a file of this run, which is never overwritten"):
            write_report(target, b"", request)
        assert target.read_bytes() == before


def test_without_the_extra_the_command_to_install_it_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(offer, "DRAWN_BY", ("a_package_that_nobody_has",))
    assert main([*DIAGNOSE, "--html", "report.html"]) == 2
    assert "pip install 'hermes-dx[report]'" in capsys.readouterr().err

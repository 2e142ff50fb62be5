"""The registry of commands, completion, reports and the status line: without any screen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.tui.commands import COMMANDS
from hermes_agent.tui.messages import ASCII
from hermes_agent.tui.panel import StatusLine
from hermes_agent.tui.sections import rank_table as ranks
from hermes_agent.tui.sections import step_table as steps
from hermes_agent.tui.writing import write_report, write_whole
from tests.hermes_agent.tui.fake_session import diagnosis, row
from tools.errors import UsageError


def test_commands_have_different_names_and_say_what_they_do() -> None:
    assert len({command.name for command in COMMANDS}) == len(COMMANDS) >= 15
    assert all(command.help for command in COMMANDS)


def test_a_report_reads_back_as_the_diagnosis_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a report.json"
    assert write_report(diagnosis(), str(target)) == f"Wrote {target}."
    assert Diagnosis.model_validate_json(target.read_bytes()) == diagnosis()


def test_a_markdown_report_begins_with_the_verdict(tmp_path: Path) -> None:
    write_report(diagnosis(), str(tmp_path / "report.md"))
    assert (tmp_path / "report.md").read_text().startswith("# Problem\n")


@pytest.mark.parametrize(
    ("name", "said"), [("x.txt", "has to end in .md"), ("none/x.md", "cannot be written"), ("", "has to end in .md")]
)
def test_a_report_that_cannot_be_written_says_why(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        write_report(diagnosis(), str(tmp_path / name))


def test_a_report_needs_no_hard_links_and_replaces_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")  # as on FAT and many network file systems

    monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "report.md"
    write_report(diagnosis(), str(target))
    (tmp_path / "theirs.md").write_text("theirs")
    with pytest.raises(UsageError, match="exists and was not replaced"):
        write_whole(tmp_path / "theirs.md", "ours", overwrite=False, command="report")
    assert (tmp_path / "theirs.md").read_text() == "theirs"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.md", "theirs.md"]


def test_the_table_of_steps_shows_the_slowest_rank_of_each() -> None:
    rows = [row(0, 3, 94.0, 0.0), row(1, 3, 34.0, 70.0), row(0, 4, 95.0, 0.0), row(1, 4, 34.0, 0.0)]
    view = steps(diagnosis().model_copy(update={"breakdown": rows}))
    assert [cells[:3] for cells in view.rows] == [("3", "1", "110.00"), ("4", "0", "101.00")]


def test_the_table_of_ranks_shows_the_means_only() -> None:
    view = ranks(diagnosis())
    assert [cells[:3] for cells in view.rows] == [("0", "100.00", "94.00"), ("1", "100.00", "34.00")]
    assert all(len(cells) == len(view.columns) for cells in view.rows)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_status_line_fits_and_never_loses_what_goes_on(width: int) -> None:
    status = StatusLine(ASCII)
    status.run_title, status.verdict, status.model = "r" * 60, "problem", "m"
    status.doing, status.elapsed_s = "diagnosing", 12.3
    line = status.line(width)
    assert line.cell_length <= width
    assert "diagnosing"[: width - 5] in line.plain


def test_opening_the_chat_imports_neither_the_workflow_engine_nor_the_analysis() -> None:
    program = (
        "import sys; from hermes_agent.cli.commands import chat; from hermes_agent.tui.app import HermesChat; "
        "heavy = ('langgraph', 'chromadb', 'pandas', 'numpy', 'openai', 'pydantic', 'hermes_agent.session'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

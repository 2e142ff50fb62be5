"""``hermes-dx cases check`` and ``cases export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from case_library.library import CaseError, load_cases
from hermes_agent.cli.commands import cases
from tests.case_library.own_cases import draft, public_fields, put
from tests.hermes_agent.cli.execution import execute
from tools.errors import ExitCode


@pytest.fixture(autouse=True)
def own_folder(commands_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one private case."""
    folder = tmp_path / "own"
    monkeypatch.setenv("HERMES_DX_CASES_DIR", str(folder))
    put(folder, {"id": "our-backup", "source": {"kind": "internal"}, **draft()})
    return folder


def test_the_cases_are_all_right_and_counted_by_cause_and_confidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(cases, "check") == 0
    out = capsys.readouterr().out
    library = load_cases()
    high = sum(case.confidence == "high" for case in library) + 1
    low = sum(case.confidence == "low" for case in library)
    total = next(line.split() for line in out.splitlines() if line.startswith("all "))
    count = len(library) + 1
    assert total[1:] == [str(each) for each in (high, count - high - low, low, count, count - low, 1)]
    assert f"{count} cases, no faults" in out


def test_a_faulty_case_is_named_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "others"
    put(folder, public_fields("fine"))
    (folder / "broken.yaml").write_text("id: [", encoding="utf-8")
    assert execute(cases, "check", str(folder)) == ExitCode.INPUT
    printed = capsys.readouterr()
    assert "broken.yaml is not valid YAML" in printed.err
    assert "1 case, 1 fault" in printed.out


def test_a_fault_of_a_private_case_counts_as_well(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(own_folder, {"id": "twice", "source": {"kind": "internal"}, **draft()})
    assert execute(cases, "check") == ExitCode.INPUT
    assert "our-backup and twice say nearly the same" in capsys.readouterr().err


def test_a_folder_without_cases_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="holds no case file"):
        execute(cases, "check", str(tmp_path))


def test_private_cases_are_exported_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "export", "--cause", "cpu_contention")
    printed = capsys.readouterr()
    ids = [case["id"] for case in json.loads(printed.out)["cases"]]
    assert ids == [case.id for case in load_cases() if case.cause == "cpu_contention"]
    assert "1 private case left out" in printed.err
    execute(cases, "export", "--cause", "cpu_contention", "--private")
    exported = json.loads(capsys.readouterr().out)["cases"]
    assert [case["id"] for case in exported if case["private"]] == ["our-backup"]


def test_an_export_that_filters_all_cases_away_is_an_error() -> None:
    with pytest.raises(CaseError, match="widen the filters"):
        execute(cases, "export", "--cause", "slow_link", "--framework", "no such framework")


def test_the_export_is_csv_when_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "export", "--format", "csv", "--cause", "small_packet")
    assert capsys.readouterr().out.startswith("id,title,family,cause,")

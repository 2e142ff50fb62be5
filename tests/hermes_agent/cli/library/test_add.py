"""``hermes-dx cases add``: from a draft, a questionnaire, or a confirmed diagnosis."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest

from case_library.library import CaseError, load_private
from hermes_agent.cli.commands import cases, diagnose
from hermes_agent.cli.library.questionnaire import Questionnaire
from hermes_agent.demo.data import demo_run
from tests.case_library.own_cases import draft, put
from tests.hermes_agent.cli.execution import execute
from tools.errors import UsageError

ANSWERS = (
    "Loader on the far socket",
    "Step 200 ms, of which 80 ms wait for data.",
    "loader bound to the far socket",
    "data wait on odd ranks only",
    "",
    "observed",
    "slow_data_processing",
    "process_binding",
    "pytorch 2.6",
    "8x H100",
    "",
    "",
    "numastat on the workers",
    "Bound each loader to the socket of its device.",
    "Step 200 -> 125 ms.",
    "high",
    "measured on three nodes",
    "http://tracker/T-9",
    "2026",
)


class Typist:
    """Answers in order and keeps the questions."""

    def __init__(self, answers: Iterable[str]) -> None:
        self._answers = list(answers)
        self.questions: list[str] = []

    def __call__(self, question: str) -> str:
        self.questions.append(question)
        return self._answers.pop(0)

    @property
    def left(self) -> int:
        return len(self._answers)


@pytest.fixture(autouse=True)
def own_folder(commands_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that cases are added to; it does not exist yet."""
    monkeypatch.setenv("HERMES_DX_CASES_DIR", str(tmp_path / "own"))
    return tmp_path / "own"


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))


def test_a_draft_file_becomes_a_private_case(
    tmp_path: Path, own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(cases, "add", "--file", str(put(tmp_path, draft(), "draft"))) == 0
    (case,) = load_private(own_folder).cases
    assert capsys.readouterr().out.strip() == str(own_folder / f"{case.id}.yaml")
    assert (case.cause, case.private) == ("cpu_contention", True)


def test_the_same_draft_is_not_added_twice(tmp_path: Path, own_folder: Path) -> None:
    path = put(tmp_path, draft(id="our-backup"), "draft")
    execute(cases, "add", "--file", str(path))
    with pytest.raises(CaseError, match="there is a case 'our-backup' already"):
        execute(cases, "add", "--file", str(path))
    assert len(list(own_folder.iterdir())) == 1


def test_a_draft_with_a_fault_writes_nothing(tmp_path: Path, own_folder: Path) -> None:
    path = put(tmp_path, draft(family="io"), "draft")
    with pytest.raises(CaseError, match="belongs to family 'cpu', not 'io'"):
        execute(cases, "add", "--file", str(path))
    assert not own_folder.exists()


def test_the_questionnaire_asks_for_every_field(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, *ANSWERS)
    assert execute(cases, "add") == 0
    (case,) = load_private(own_folder).cases
    assert case.id == "loader-on-the-far-socket"
    assert case.signals == ["loader bound to the far socket", "data wait on odd ranks only"]
    assert (case.family, case.cause, case.mechanism) == ("io", "slow_data_processing", "process_binding")
    assert (case.setting.hardware, case.setting.scale) == ("8x H100", "unknown")
    assert (case.source.url, case.source.year) == ("http://tracker/T-9", 2026)
    assert case.confidence_reason == "measured on three nodes"


def test_an_answer_that_cannot_be_taken_is_asked_for_again() -> None:
    answers = list(ANSWERS)
    answers[6:7] = ["slow_everything", "slow_data_processing"]
    answers[0:1] = ["", "x" * 2001, "Loader on the far socket"]
    typist = Typist(answers)
    fields = Questionnaire(typist, {}).draft()
    assert typist.left == 0
    assert (fields["title"], fields["cause"]) == ("Loader on the far socket", "slow_data_processing")
    assert "at least 1 character" in typist.questions[1]
    assert "at most 2000 characters" in typist.questions[2]


def test_a_case_without_a_signal_cannot_be_answered_past() -> None:
    answers = list(ANSWERS)
    answers[2:2] = ["", "ab"]
    typist = Typist(answers)
    assert Questionnaire(typist, {}).draft()["signals"] == list(ANSWERS[2:4])
    assert typist.left == 0


def test_answers_that_end_early_write_nothing(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, *ANSWERS[:8])
    with pytest.raises(UsageError, match="the answers ended"):
        execute(cases, "add")
    assert not own_folder.exists()


def test_answers_that_cannot_be_added_are_not_lost(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, *ANSWERS[:-5], "Unknown.", *ANSWERS[-4:])
    with pytest.raises(CaseError, match="effect says nothing"):
        execute(cases, "add")
    kept = tmp_path / "kept.yaml"
    kept.write_text(capsys.readouterr().out.replace("Unknown.", "Step 200 -> 125 ms."), encoding="utf-8")
    assert execute(cases, "add", "--file", str(kept)) == 0
    assert [case.id for case in load_private(own_folder).cases] == ["loader-on-the-far-socket"]


def test_without_a_diagnosis_there_is_nothing_to_confirm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="diagnose the run first"):
        execute(cases, "add", "--from-diagnosis")


def test_a_confirmed_diagnosis_fills_the_case_and_asks_for_what_was_done(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(diagnose, str(demo_run()), "--json")
    capsys.readouterr()
    offered = [""] * 11  # all that the diagnosis filled in, Enter each
    typed(monkeypatch, "1", *offered, "Decoded once and stored.", "Step 108 -> 49 ms.", "", "measured", "", "2026")
    assert execute(cases, "add", "--from-diagnosis") == 0
    (case,) = load_private(own_folder).cases
    assert (case.cause, case.mechanism) == ("slow_data_processing", "heavy_transform")
    assert "single-process loader" in case.signals
    assert "ms per step" in case.symptom
    assert "[E" not in case.symptom + case.diagnosis
    assert (case.optimization, case.effect) == ("Decoded once and stored.", "Step 108 -> 49 ms.")
    assert case.confidence == "high"


def test_a_diagnosis_that_was_not_confirmed_becomes_no_case(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(diagnose, str(demo_run()), "--json")
    typed(monkeypatch, "perhaps", "none")
    with pytest.raises(UsageError, match="no cause was confirmed"):
        execute(cases, "add", "--from-diagnosis")
    assert not own_folder.exists()

from __future__ import annotations

import pytest

from evals.fuzz import killed_trainings, watch_folders


def test_the_watcher_survives_hostile_changes_of_a_run_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert watch_folders.main(["--executions", "160", "--seed", "11"]) == 0
    assert "160 executions in 4 folders (seed 11), 0 failures" in capsys.readouterr().out


def test_what_killed_trainings_recorded_is_whole_and_the_next_start_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert killed_trainings.main(["--kills", "2", "--seed", "3"]) == 0
    assert "2 kills (seed 3), 0 failures" in capsys.readouterr().out


def test_a_look_that_changes_a_file_outside_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(folder: watch_folders.Folder, agent: object, counts: object) -> None:
        (folder.outside / "canary.txt").write_text("changed", encoding="utf-8")

    monkeypatch.setattr(watch_folders, "_look", look)
    assert watch_folders.main(["--executions", "3", "--seed", "1"]) == 1
    assert "a file outside of the run was changed" in capsys.readouterr().err


def test_a_look_that_raises_is_a_failure_with_the_changes_that_led_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(folder: object, agent: object, counts: object) -> None:
        raise ValueError("no such number")

    monkeypatch.setattr(watch_folders, "_look", look)
    assert watch_folders.main(["--executions", "1", "--seed", "1"]) == 1
    printed = capsys.readouterr().err
    assert "seed 1, folder 1: after " in printed
    assert "no such number" in printed

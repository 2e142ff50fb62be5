"""A command that is killed leaves nothing that the next one trips over; the search for such faults finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.fuzz.interruptions import SEARCH, Setting, killed, kills, summary


def test_the_case_index_survives_kills_while_it_is_built() -> None:
    said: list[str] = []
    found = kills(SEARCH, 1, seed=3, tell=said.append)
    assert said == []
    assert len(found) == 1
    assert "1 kills" in summary("case index", found)


def test_a_wrong_answer_and_half_written_files_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(tmp_path)
    answer = Setting.answer

    def disturbed(self: Setting, words: tuple[str, ...]) -> bytes:
        self.cache.mkdir()
        (self.cache / "diagnosis.json.0.part").write_text("half")
        return answer(self, words)

    monkeypatch.setattr(Setting, "answer", disturbed)
    found = killed(setting, ("--version",), 30.0, b"another answer")
    assert found.ended_before
    assert found.faults == ("the next answer differs", "half-written: cache/diagnosis.json.0.part")

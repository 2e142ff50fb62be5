"""What people said of answers, as the evaluation counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.feedback import Row, main, rows_of, table
from hermes_agent.bot.feedback import Feedback, add_feedback


def line(user: str, cause: str, confidence: float | None, right: bool, actual: str = "") -> Feedback:
    return Feedback(
        run="r", diagnosis="d", verdict="problem" if cause else "healthy", cause=cause, confidence=confidence,
        platform="slack", thread="C1/1", user=user, right=right, actual=actual,
    )  # fmt: skip


def test_answers_are_counted_by_cause_with_confidence_next_to_the_share_that_was_right() -> None:
    lines = [
        line("U1", "straggler", 0.9, True),
        line("U2", "straggler", 0.7, False, "slow_link"),
        line("U3", "straggler", 0.8, False, "slow_link"),
        line("U1", "", None, True),
    ]
    rows = rows_of(lines)
    assert [(row.named, row.answers, row.right, row.instead) for row in rows] == [
        ("straggler", 3, 1, (("slow_link", 2),)),
        ("healthy", 1, 1, ()),
    ]
    assert rows[0].confidence is not None
    assert abs(rows[0].confidence - 0.8) < 1e-12
    assert "| straggler | 3 | 1 | 0.33 | 0.80 | slow_link (2) |" in table(rows)
    assert table([Row("healthy", 1, 1, None, ())]).endswith("| healthy | 1 | 1 | 1.00 |  |  |")


def test_the_command_reads_the_named_file_and_its_help_says_where_the_usual_one_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "feedback.jsonl"
    add_feedback(file, line("U1", "straggler", 0.9, True))
    monkeypatch.setattr("sys.argv", ["feedback", str(file)])
    main()
    assert "| straggler | 1 | 1 | 1.00 | 0.90 |  |" in capsys.readouterr().out
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setattr("sys.argv", ["feedback", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "/data/hermes-dx/feedback.jsonl" in " ".join(capsys.readouterr().out.split())

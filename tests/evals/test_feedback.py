"""What people said of answers, as the evaluation counts it."""

from __future__ import annotations

from evals.feedback import Row, rows_of, table
from hermes_agent.bot.feedback import Feedback


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

"""The first screen: at most forty lines, the largest saving first, the rest behind ``-v``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.text import SCREEN_LINES, render_text
from hermes_agent.workflow.diagnose import diagnose


@pytest.fixture(scope="module")
def compared(shared_cache: Path) -> Diagnosis:
    return diagnose(Request((demo_run(),), (demo_fixed_run(),), cache_dir=shared_cache), lambda _: None)


def crowded(diagnosis: Diagnosis, causes: int, ranks: int) -> Diagnosis:
    """The same diagnosis with many causes, ranks, sentences and cases."""
    (first, *_), (change, *_) = diagnosis.causes, diagnosis.advice
    row = next(row for row in diagnosis.breakdown if row.step is None)
    many = [
        first.model_copy(update={"impact_pct": 50.0 - place, "masked_by": [1], "where": "step 3, `aten::item`"})
        for place in range(causes)
    ]
    return diagnosis.model_copy(
        update={
            "causes": many,
            "advice": [change] * causes,
            "answer": diagnosis.answer * 4,
            "cases": diagnosis.cases * 4,
            "breakdown": [row.model_copy(update={"rank": rank}) for rank in range(ranks)],
        }
    )


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(("causes", "ranks"), [(0, 0), (1, 2), (4, 8), (12, 64)])
def test_the_first_screen_has_at_most_forty_lines(compared: Diagnosis, causes: int, ranks: int, width: int) -> None:
    lines = render_text(crowded(compared, causes, ranks), width).splitlines()
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= width


def test_the_comparison_and_the_causes_come_first_and_the_rest_is_counted(compared: Diagnosis) -> None:
    screen = render_text(compared, 80)
    lines = screen.splitlines()
    assert next(place for place, line in enumerate(lines) if line.startswith("Against the baseline: ")) <= 10
    assert "1. Heavy data transforms" in screen
    assert "Where: rank 1" in screen
    assert "Fix A1: Move heavy transforms out of the training loop (hours). Predicted step: " in " ".join(
        screen.split()
    )
    unanswered = sum(check.status == "cannot_answer" for check in compared.checks)
    assert f"Not assessable from this data: {unanswered} of {len(compared.checks)} checks" in screen
    assert "similarity" not in screen


def _flat(text: str) -> str:
    return " ".join(text.split())


def test_a_masked_cause_says_what_it_saves_after_the_other_fix(compared: Diagnosis) -> None:
    cause = compared.causes[0].model_copy(update={"masked_by": [1], "then_ms_per_step": 13.2})
    screen = render_text(compared.model_copy(update={"causes": [compared.causes[0], cause]}))
    assert "Masked by cause 1; saves 13.2 ms after that fix." in screen


def test_everything_is_behind_the_verbose_form(compared: Diagnosis) -> None:
    text = _flat(render_text(compared, verbose=True))
    cause = compared.causes[0]
    assert all(_flat(detail) in text for detail in cause.details)
    assert "(slow_data_processing/heavy_transform)" in text
    assert all(re.search(rf" {re.escape(check.analyzer)}[:,] ", text) for check in compared.checks)
    assert all(case.url in text for case in compared.cases)
    assert all(item.how.split()[0] in text for item in compared.advice)

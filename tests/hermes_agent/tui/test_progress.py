"""The progress record: what each event adds, and what a stored diagnosis shows."""

from __future__ import annotations

from functools import reduce

from hermes_agent.model.events import CheckFinished, DiagnosisReady, Stage
from hermes_agent.tui.messages import ASCII, UNICODE, glyphs_for
from hermes_agent.tui.panel import Progress, advance, hierarchy, ranked
from tests.hermes_agent.tui.fake_session import HOSTILE, diagnosis, first_half, second_half


def test_half_way_the_finished_stages_are_done_and_the_families_run() -> None:
    progress = reduce(advance, first_half(), Progress())
    states = [progress.state(stage) for stage in Stage]
    assert states == ["done", "done", "done", "running", "waiting", "waiting", "waiting", "waiting"]
    assert [(check.stage, check.status) for check in progress.checks] == [
        (Stage.COARSE, "clean"),
        (Stage.FAMILIES, "found"),
        (Stage.FAMILIES, "cannot_answer"),
    ]


def test_at_the_end_every_stage_is_done_and_the_causes_are_those_of_the_diagnosis() -> None:
    progress = reduce(advance, [*first_half(), *second_half(), DiagnosisReady(diagnosis(), 1.0)], Progress())
    assert all(progress.state(stage) == "done" for stage in Stage)
    assert progress.over
    assert not progress.stored
    assert [(cause.cause, cause.impact_ms) for cause in progress.causes] == [("slow_data_processing", 60.0)]


def test_a_stored_diagnosis_says_so_and_shows_its_checks() -> None:
    progress = advance(Progress(), DiagnosisReady(diagnosis(), 0.1, cached=True))
    assert progress.stored
    drawn = hierarchy(progress, ASCII).plain.splitlines()
    assert drawn[0] == "Hierarchy (from the cache)"
    assert "  ! data loader" in drawn
    assert "  + step time" in drawn
    assert "  ? transfer" in drawn


def test_no_cause_is_called_none_only_when_the_ranking_is_over() -> None:
    assert "not ranked yet" in ranked(Progress()).plain
    healthy = diagnosis().model_copy(update={"causes": [], "verdict": "healthy"})
    assert "none found" in ranked(advance(Progress(), DiagnosisReady(healthy, 0.1))).plain


def test_a_check_named_like_markup_is_drawn_as_it_is() -> None:
    progress = advance(Progress(), CheckFinished("io", "io", f"io.{HOSTILE}", "found"))
    drawn = hierarchy(progress, UNICODE).plain
    assert "[bold red]x[/] red" in drawn
    assert "\x1b" not in drawn


def test_ascii_signs_are_ascii_and_chosen_where_the_terminal_has_no_more() -> None:
    assert "".join(vars(ASCII).values()).isascii()
    assert glyphs_for("utf-8", {"TERM": "xterm-256color"}) is UNICODE
    assert glyphs_for("utf-8", {"TERM": "dumb"}) is ASCII
    assert glyphs_for("ANSI_X3.4-1968", {}) is ASCII
    assert glyphs_for(None, {}) is ASCII
    assert glyphs_for("UTF-8", {"HERMES_DX_ASCII": "1"}) is ASCII

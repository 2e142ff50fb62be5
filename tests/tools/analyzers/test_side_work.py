"""Evaluations and saves that a job's output names: which step lines hold them, and what they cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.analyzers.test_job_output import answer, profile_of
from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import check_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure

SIDE_WORK = "step_time.side_work"


def stamped(every: int, took_s: int, words: str, steps: int = 60) -> str:
    """Lines of ten steps each, 20 s apart, with ``words`` before every ``every``-th, which comes ``took_s`` later."""
    seconds, lines = 0, []
    for place in range(1, steps + 1):
        held = place % every == 0
        seconds += 20 + (took_s if held else 0)
        stamp = f"2024-05-01 {10 + seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        lines += [f"{stamp} INFO {words}"] if held else []
        lines.append(f"{stamp} INFO Iters: {10 * place}/{10 * steps} || Lr: 0.01 || Loss: 0.5")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "words", ["Start validation, Total sample: 250", "{'eval_loss': 1.2}", "Test: [ 10/40] acc 0.9"]
)
def test_lines_with_an_evaluation_between_them_cost_what_they_take_longer(tmp_path: Path, words: str) -> None:
    """Every tenth line of ten steps takes 40 s longer: 4 s a step in a tenth of the lines, 0.4 s of 2.4 s a step."""
    profile = profile_of(tmp_path, stamped(10, 40, words))
    (finding,) = answer(profile, SIDE_WORK).findings
    lines, each, cost, share = (fact.value for fact in finding.claim.facts)
    assert finding.cause == "evaluation_stall"
    assert lines == 6
    assert each == pytest.approx(40_000)
    assert cost == pytest.approx(6 * 40_000 / (len(profile.series.usual) * 10))  # type: ignore[union-attr]
    assert share == pytest.approx(100 * cost / measure(profile, "series_step_ms").value)
    assert measure(profile, "side_work_free_ms").value == pytest.approx(2000)


def means(held_ms: int, words: str = "begin validation on dev subset") -> str:
    """Lines of fairseq, each with the mean over the 20 updates since the line before, every fifth after ``words``."""
    lines = []
    for place in range(1, 61):
        held = place % 5 == 0
        update_ms = (held_ms if held else 500) + place % 3
        lines += [f"| INFO | fairseq_cli.train | {words}"] if held else []
        lines.append(
            f"| INFO | train_inner | epoch 001: {20 * place:6d} / 9000 loss=9.1, wps=9000, ups={1e3 / update_ms:.4f},"
            f" wpb=4500, bsz=80, num_updates={20 * place}, lr=1e-05"
        )
    return "\n".join(lines) + "\n"


def test_a_mean_since_the_line_before_holds_the_evaluation_between_them_where_it_takes_longer(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, means(700)), SIDE_WORK)
    (finding,) = check.findings
    assert (finding.cause, finding.claim.facts[0].value) == ("evaluation_stall", 11)  # one in the start-up
    assert finding.claim.facts[1].value == pytest.approx(20 * 200, rel=0.01)
    assert [fact.value for fact in finding.details[0].facts] == [pytest.approx(501, rel=0.01)]


def test_means_that_take_no_longer_hold_no_evaluation(tmp_path: Path) -> None:
    assert check_of(profile_of(tmp_path, means(500)), SIDE_WORK) is None


def test_lines_that_hold_saves_are_not_among_what_is_unexplained(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, stamped(20, 600, "Saving model to out/model.pt, step 1"))
    (finding,) = answer(profile, SIDE_WORK).findings
    assert (finding.cause, finding.mechanism) == ("checkpoint_stall", "synchronous_save")
    assert not [lead for lead in ranking(profile).leads if "whether the work of the steps" in lead.claim.template]


def test_a_small_cost_is_stated_and_is_no_cause(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, stamped(10, 8, "Start validation")), SIDE_WORK)
    assert check.status == "clean"
    assert [fact.metric for fact in check.support[-1].facts] == ["side_work_free_ms"]


@pytest.mark.parametrize("words", ["validation set: data/val.json", "eval_batch_size=8", "skipping validation"])
def test_settings_and_skipped_evaluations_hold_no_work(tmp_path: Path, words: str) -> None:
    assert check_of(profile_of(tmp_path, stamped(10, 40, words)), SIDE_WORK) is None


def test_work_at_lines_that_do_not_stand_out_costs_nothing(tmp_path: Path) -> None:
    assert check_of(profile_of(tmp_path, stamped(10, 0, "Start validation")), SIDE_WORK) is None


def test_saves_and_evaluations_of_one_run_each_have_their_own_cost(tmp_path: Path) -> None:
    """Of 240 printed steps of 1 s every 30th evaluates for 3 s and every 50th saves for 8 s, at step 150 both."""
    text = ""
    for step in range(1, 241):
        wall_ms = 1000.0 + step % 2 + (3000.0 if step % 30 == 0 else 0.0) + (8000.0 if step % 50 == 0 else 0.0)
        text += megatron((step, wall_ms))
        text += f" validation loss at iteration {step} | lm loss value: 2.3E+00 |\n" if step % 30 == 0 else ""
        text += f"saving checkpoint at iteration {step} to /ckpt in torch format\n" if step % 50 == 0 else ""
    profile = profile_of(tmp_path, text)
    steps = {finding.cause: finding.steps for finding in answer(profile, SIDE_WORK).findings}
    assert steps["evaluation_stall"] == (30, 60, 90, 120, 150, 180, 210, 240)
    assert steps["checkpoint_stall"] == (50, 100, 200)
    assert not answer(profile, "storage.periodic_stall").findings
    assert measure(profile, "side_work_each_ms", work="save").value == pytest.approx(8000, abs=1)
    assert measure(profile, "both_works_lines").value == 1
    assert [lead.loss for lead in ranking(profile).leads] == []


def test_evaluations_that_the_step_times_do_not_hold_are_held_against_all_steps(tmp_path: Path) -> None:
    """20 steps of 1 s, and after every fifth an evaluation of 4 s: 16 s of 36 s."""
    text = "".join(
        megatron((step, 1000.0)) + ("Validation took 4.0 s\n" if step % 5 == 0 else "") for step in range(1, 21)
    )
    profile = profile_of(tmp_path, text)
    (finding,) = answer(profile, SIDE_WORK).findings
    assert finding.unpriced
    assert [fact.value for fact in finding.claim.facts] == [4, 16, pytest.approx(100 * 16 / 36)]

"""The wait for data that a job's own step lines state: how much of a step, how sure, and what it would save."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tools.analyzers.registry import check_of
from tools.errors import UsageError
from tools.findings import Check, Finding
from tools.judgement.ranking import ranking
from tools.judgement.what_if import answered, changed_speedup, changed_step_ms
from tools.knowledge.taxonomy import causes, known_mechanism, optimizations
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

Row = tuple[int, float, float]  # iteration, seconds of a step, seconds of wait in it


def profile_of(folder: Path, *rows: Row) -> Profile:
    """Lines of YOLOX every ten iterations."""
    text = "".join(
        f"2026-01-01 10:00:00 | INFO | trainer:1 - epoch: 1/9, iter: {n}/900, mem: 90Mb, iter_time: {step_s:.3f}s, "
        f"data_time: {wait_s:.3f}s, total_loss: 5.1, lr: 1e-3\n"
        for n, step_s, wait_s in rows
    )
    (folder / "train.log").write_text(text)
    return Profile(load_run([folder]))


def loader(profile: Profile) -> Check:
    found = check_of(profile, "io.data_loader")
    assert found is not None
    return found


def finding(profile: Profile) -> Finding:
    (found,) = loader(profile).findings
    return found


def test_a_wait_of_one_line_is_told_as_that_of_its_step(tmp_path: Path) -> None:
    """3.0 of the 3.2 s of step 230; the other three lines wait 20 ms of 0.2 s."""
    found = finding(profile_of(tmp_path, *((n, 0.2, 0.02) for n in (200, 210, 220)), (230, 3.2, 3.0)))
    assert found.steps == (230,)
    assert "Nearly all of the wait is in the line of step 230." in found.claim.template


WAITING: tuple[Row, ...] = ((200, 2.0, 1.5), (210, 3.0, 2.4), (220, 2.5, 2.0), (230, 2.5, 2.1))


def test_a_large_wait_by_the_job_s_own_timer_is_a_problem_of_data_input(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, *WAITING)
    assert measure(profile, "logged_data_wait_ms", rank=0).value == pytest.approx(2000.0)
    assert measure(profile, "logged_data_wait_pct", rank=0).value == pytest.approx(80.0)
    judged = ranking(profile)
    assert judged.verdict == "problem"
    assert judged.causes[0].finding.cause == "slow_data_processing"
    assert judged.causes[0].impact_pct == pytest.approx(80.0)


def test_without_a_line_that_hardly_waits_the_saving_is_half_of_the_wait_at_least(tmp_path: Path) -> None:
    saving = finding(profile_of(tmp_path, *WAITING)).saving
    assert saving is not None
    assert (saving.least_ms, saving.saved_ms, saving.most_ms) == pytest.approx((1000.0, 2000.0, 2000.0))


def test_lines_that_hardly_wait_bound_the_saving(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, (200, 0.5, 0.01), (210, 3.5, 3.1), (220, 0.5, 0.01), (230, 1.5, 0.88))
    saving = finding(profile).saving
    assert measure(profile, "logged_spared_step_ms", rank=0).value == pytest.approx(500.0)
    assert saving is not None
    assert saving.least_ms == pytest.approx(1000.0)  # mean step of 1,500 ms less 500 ms


def test_a_wait_in_every_line_gives_the_most_that_its_fix_can_bring_and_no_range(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, *WAITING)
    (cause, *_) = ranking(profile).causes
    assert cause.at_most
    assert cause.alone is not None
    assert cause.alone.speedup == pytest.approx(2500.0 / 500.0)
    changed = answered(profile, "without slow_data_processing").prediction
    assert changed is not None
    assert changed.at_most
    assert changed.step_ms_after == pytest.approx(500.0)
    for metric in (changed_step_ms, changed_speedup):
        with pytest.raises(UsageError, match="without an interval"):
            metric(profile, "without slow_data_processing", "high")


def test_a_wait_of_which_nothing_else_is_known_is_named_as_such_and_its_fix_begins_with_the_reason(
    tmp_path: Path,
) -> None:
    found = finding(profile_of(tmp_path, *WAITING))
    name = causes()[found.cause].called(found.mechanism)
    assert (found.cause, name.title) == ("slow_data_processing", "Waiting for data")
    assert known_mechanism(found.mechanism) is None, "it may be any mechanism of the cause"
    (fix,) = optimizations(found.cause, found.mechanism)
    assert fix.optimization.startswith("Find out whether reading or processing is slow")
    assert "py-spy dump" in fix.how


def test_the_range_of_a_few_scattered_lines_is_that_of_their_resamples_up_to_the_whole_stated_wait(
    tmp_path: Path,
) -> None:
    rows: tuple[Row, ...] = ((200, 0.6, 0.002), (210, 12.0, 11.5), (220, 2.0, 1.4), (230, 0.4, 0.002))
    (cause, *_) = ranking(profile_of(tmp_path, *rows)).causes
    shares = [
        sum(rows[at][2] for at in drawn) / sum(rows[at][1] for at in drawn) for drawn in product(range(4), repeat=4)
    ]
    low = np.quantile(shares, 0.1)  # of all 256 resamples
    assert cause.alone is not None
    assert not cause.alone.at_most
    assert cause.alone.speedup_low == pytest.approx(1.0 / (1.0 - low), rel=0.1)
    assert cause.alone.speedup_low < cause.alone.speedup
    assert cause.alone.speedup_high == pytest.approx(cause.alone.speedup), "nothing more can be removed"


def test_time_outside_of_the_job_s_timer_stays_in_the_predicted_step(tmp_path: Path) -> None:
    stamps = (
        "10:00:00",
        "10:00:35",
        "10:01:05",
        "10:01:35",
    )  # 3.5 and twice 3 s a step, half a second more than stated
    text = "".join(
        f"2026-01-01 {at} | INFO | trainer:1 - epoch: 1/9, iter: {n}/900, mem: 90Mb, iter_time: {step_s:.3f}s, "
        f"data_time: {wait_s:.3f}s, total_loss: 5.1, lr: 1e-3\n"
        for at, (n, step_s, wait_s) in zip(stamps, WAITING, strict=True)
    )
    (tmp_path / "train.log").write_text(text)
    profile = Profile(load_run([tmp_path]))
    assert measure(profile, "logged_outside_ms", rank=0).value == pytest.approx(500.0)
    (cause, *_) = ranking(profile).causes
    assert cause.alone is not None
    assert cause.alone.step_ms_after == pytest.approx(500.0 + 500.0)
    assert cause.alone.speedup == pytest.approx(3000.0 / 1000.0)


def test_two_lines_are_a_hypothesis(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, *WAITING[:2])
    assert finding(profile).confidence < profile.thresholds["confidence"]
    assert ranking(profile).verdict == "inconclusive"


def test_a_small_wait_rules_data_loading_out(tmp_path: Path) -> None:
    check = loader(profile_of(tmp_path, (200, 2.0, 0.002), (210, 2.0, 0.004), (220, 2.0, 0.003)))
    assert check.status == "clean"
    assert check.support[0].facts[0].value == pytest.approx(3.0)


def test_a_step_that_is_long_without_a_wait_of_its_own_is_named(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, (200, 8.0, 7.5), (210, 14.0, 0.002), (220, 0.5, 0.001), (230, 0.5, 0.001))
    claim = finding(profile).claim
    assert "The line of step 210" in claim.template
    assert [fact.value for fact in claim.facts[3:]] == pytest.approx([14_000.0, 2.0])


def test_the_first_lines_of_a_job_are_left_out(tmp_path: Path) -> None:
    rows = [(10, 9.0, 8.0), *((n, 1.0, 0.01) for n in range(20, 110, 10))]
    profile = profile_of(tmp_path, *rows)
    assert measure(profile, "logged_data_wait_ms", rank=0).value == pytest.approx(10.0)
    assert loader(profile).status == "clean"


def test_an_excerpt_from_the_middle_of_a_job_is_used_whole(tmp_path: Path) -> None:
    assert len(profile_of(tmp_path, *WAITING).series.usual) == 4  # type: ignore[union-attr]


def test_the_few_lines_that_hold_nearly_all_of_the_wait_are_named(tmp_path: Path) -> None:
    rows = [(10 * at, 0.3, 0.002) for at in range(20, 30)]
    rows[3], rows[7] = (230, 8.0, 7.7), (270, 5.0, 4.7)
    said = finding(profile_of(tmp_path, *rows)).claim.template
    assert "Nearly all of the wait is in the lines of steps 230 and 270." in said


def test_what_the_lines_leave_of_a_step_is_stated_in_full(tmp_path: Path) -> None:
    """1 % of each step is no wait: a hundred times as fast at most, and not twenty."""
    (cause,) = ranking(profile_of(tmp_path, *((10 * at, 4.0, 3.96) for at in range(20, 30)))).causes
    assert cause.impact_pct == pytest.approx(99.0)


def test_reading_and_preparing_batches_are_both_named_where_lines_state_a_small_wait(tmp_path: Path) -> None:
    judged = ranking(profile_of(tmp_path, *((10 * at, 0.2, 0.013) for at in range(20, 26))))
    assert judged.verdict == "inconclusive"
    assert {each.cause for each in judged.leads[0].candidates} == {"slow_data_reading", "slow_data_processing"}


def test_a_wait_of_the_first_step_of_an_epoch_counts_for_one_step(tmp_path: Path) -> None:
    """ImageNet example, 60 steps an epoch, 51 of them in lines: 8 s of wait in the first one, none in the others."""
    lines = []
    for epoch in range(4):
        for step in range(0, 60, 10):
            mean, data = (10.0 + 2.0 * step) / (step + 1), 8.0 / (step + 1)
            now, waits = (10.0, 8.0) if step == 0 else (2.0, 0.0)
            lines.append(
                f"Epoch: [{epoch}][{step:3d}/60]\tTime {now:6.3f} ({mean:6.3f})\tData {waits:6.3f} ({data:6.3f})\t"
                "Loss 2.2243e+00 (2.2243e+00)\n"
            )
    (tmp_path / "train.log").write_text("".join(lines))
    profile = Profile(load_run([tmp_path]))
    counted = profile.series.usual if profile.series is not None else pytest.fail("no series")
    assert counted["step"].tolist()[0] == 30  # up to 20 it is the start
    found = measure(profile, "series_part_ms", part="data_wait", rank=0).value
    assert found == pytest.approx(3 * 8000.0 / (3 * 10 + 3 * 51), rel=0.02)  # lines are of 10, or of 1 and 50 steps


@pytest.mark.parametrize(
    ("arguments", "workers", "mechanism"),
    [
        ("Namespace(batch_size=24, epochs=80, lr=0.001, workers=0)", 0, "too_few_workers"),
        ("Namespace(num_workers=0, lr=0.001)", 0, "too_few_workers"),
        ("dataloader_num_workers=0,", 0, "too_few_workers"),
        ("Namespace(num_workers=8, lr=0.001)", 8, "unexplained_wait"),
        ("train_dataloader = dict(\n    batch_size=8,\n    num_workers=1,\n    sampler=dict(", 1, "too_few_workers"),
        ("train_dataloader = dict(batch_size=8, num_workers=4)", 4, "unexplained_wait"),
        ("val_dataloader = dict(\n    num_workers=1,", None, "unexplained_wait"),
        ("data = dict(\n    samples_per_gpu=2,\n    workers_per_gpu=2,\n    train=dict(", 2, "unexplained_wait"),
        ("max_workers=0", None, "unexplained_wait"),
        ("eval Namespace(test_workers=0)", None, "unexplained_wait"),
    ],
)
def test_without_workers_by_its_arguments_the_training_process_makes_the_batches(
    tmp_path: Path, arguments: str, workers: int | None, mechanism: str
) -> None:
    profile_of(tmp_path, *WAITING)
    log = tmp_path / "train.log"
    log.write_text(f"{arguments}\n{log.read_text()}")
    found = finding(Profile(load_run([tmp_path])))
    assert found.mechanism == mechanism
    assert [fact.value for fact in found.claim.facts if fact.unit == "workers"] == (
        [] if workers is None else [workers]
    )
    assert ("makes each batch itself" in found.claim.template) == (workers == 0)

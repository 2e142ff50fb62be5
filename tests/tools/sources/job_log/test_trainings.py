"""Several trainings below each other in one text, and bars of Keras that are of no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron, read
from tools.analyzers.steps.lines_apart import lines_apart
from tools.analyzers.steps.step_time import one_of_several
from tools.sources.load import load_run
from tools.views.profile import Profile


def epochs(count: int, steps: int, seconds: int, validated: bool = False) -> str:
    metrics = " - loss: 0.4 - accuracy: 0.8" + " - val_loss: 0.5 - val_accuracy: 0.7" * validated
    each_ms = 1000 * seconds // steps
    return "".join(
        f"Epoch {at}/{count}\n{steps}/{steps} [======] - {seconds}s {each_ms}ms/step{metrics}\n"
        for at in range(1, count + 1)
    )


def test_trainings_of_keras_below_each_other_are_no_series(tmp_path: Path) -> None:
    """Of equal totals as well: a second model on the same data takes twenty times as long."""
    log = read(tmp_path, epochs(10, 1000, 2) + epochs(10, 1000, 40) + epochs(3, 1000, 20))
    assert log.trainings == 3
    assert (len(log.steps), log.steps["wall_ms"].tolist()) == (10, [2.0] * 10)
    assert [(each.training, len(each.steps)) for each in log.lines_apart] == [(True, 10), (True, 3)]
    said = [each.template for each in one_of_several(log)]
    assert said == ["The output holds 3 trainings below each other; the steps are those of lines 2 to 20 alone."]


def test_another_number_of_epochs_is_another_training(tmp_path: Path) -> None:
    text = epochs(10, 500, 5) + epochs(20, 500, 10).partition("500/500")[0].replace("1/20", "11/20")
    log = read(tmp_path, text + "500/500 [======] - 10s 20ms/step - loss: 0.4\n")
    assert log.trainings == 2
    assert len(log.steps) == 10


def test_a_bar_without_a_header_of_its_own_is_an_evaluation(tmp_path: Path) -> None:
    text = epochs(3, 1875, 4) + "313/313 [======] - 1s 3ms/step - loss: 0.29 - accuracy: 0.89\n"
    text += "313/313 [======] - 1s 2ms/step\n"  # predict
    log = read(tmp_path, text)
    assert [(float(each.value), each.line) for each in log.evaluation_times] == [(0.939, 7)]
    assert (len(log.steps), log.lines_apart) == (3, ())


def test_an_epoch_of_keras_that_holds_its_validation_says_so(tmp_path: Path) -> None:
    log = read(tmp_path, epochs(3, 100, 30, validated=True))
    assert log.validated
    assert [each.template for each in one_of_several(log)] == [
        "The lines also state figures of a validation: the time of an epoch holds it, and a step takes less."
    ]


def test_bars_within_the_epochs_of_keras_are_counted_on(tmp_path: Path) -> None:
    text = "".join(
        f"Epoch {epoch}/3\n"
        + "".join(f" {at}/100 [==>...] - ETA: {(100 - at) // 2}s 500ms/step - loss: 0.4\n" for at in (20, 40, 60, 80))
        for epoch in (1, 2, 3)
    )
    log = read(tmp_path, text)
    assert log.steps["step"].tolist() == [20, 40, 60, 80, 120, 140, 160, 180, 220, 240, 260, 280]
    assert log.steps["wall_ms"].tolist() == pytest.approx([500.0] * 12)
    assert log.begins == 0


def test_a_step_number_that_begins_again_is_said(tmp_path: Path) -> None:
    text = megatron(*((at, 100.0) for at in range(1, 31))) + megatron(*((at, 900.0) for at in range(1, 21)))
    log = read(tmp_path, text)
    assert (log.begins, len(log.steps)) == (1, 30)
    said = one_of_several(log)[0].template
    assert said.startswith("The step number begins again at 1 place, as another training")
    assert said.endswith("lines 1 to 30 alone.")


def test_a_change_of_level_is_from_the_first_step_of_its_line_on(tmp_path: Path) -> None:
    """Each line stands for 1,000 steps: those of the eleventh begin with 10,001."""
    path = tmp_path / "train.log"
    bars = "".join(
        f"Epoch {at}/20\n1000/1000 [======] - {seconds}s {seconds}ms/step - loss: 0.4\n"
        for at, seconds in enumerate([10] * 10 + [30] * 10, start=1)
    )
    path.write_text(bars)
    profile = Profile(load_run([path]))
    assert profile.series is not None
    assert profile.series.first_of(11_000) == 10_001
    assert lines_apart(profile) == []


def video_epoch(number: int, sum_s: float) -> str:
    """149 batches of 64, of which two are printed: 400 ms of each are computed."""
    printed = "".join(
        f"[12/25 14:22:{at // 10:02d}] epoch:[  {number}/25 ] train step:{at:<4} loss: 4.9 lr: 0.010000 "
        f"batch_cost: {cost:.5f} sec,"
        f" reader_cost: {cost - 0.4:.5f} sec, ips: {64 / cost:.5f} instance/sec.\n"
        for at, cost in ((0, 6.4), (100, 2.0))
    )
    rate = 149 * 64 / sum_s
    ends = (
        f"END epoch:{number}   train loss_avg: 3.9 batch_cost_sum: {sum_s:.5f} sec, avg_ips: {rate:.5f} instance/sec.\n"
    )
    return printed + ends + ends.replace("train", "val").replace(f"{sum_s:.5f}", "41.50000")


def test_the_sum_over_an_epoch_stands_before_the_steps_that_are_printed(tmp_path: Path) -> None:
    log = read(tmp_path, "".join(video_epoch(at, 149.0) for at in range(1, 6)))
    assert log.step_time == "epoch"
    assert log.steps["span"].tolist() == [149] * 5
    assert log.steps["wall_ms"].tolist() == pytest.approx([1000.0] * 5)
    assert log.steps["data_wait_ms"].tolist() == pytest.approx([600.0] * 5)
    assert [each.samples for each in log.lines_apart] == [True]
    assert [float(each.value) for each in log.evaluation_times] == [41.5] * 5

"""Progress bars without a name: what shows that they count training steps, or the batches of an evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.analyzers.steps.step_time import UNNAMED_BAR, one_of_several
from tools.sources.job_log.reader import read_job_log


def bars(total: int, step_s: float, postfix: str = "", name: str = "") -> str:
    """A bar that is drawn ten times."""
    done = [total * part // 10 for part in range(1, 11)]
    clocks = [f"{int(at * step_s) // 60:02d}:{int(at * step_s) % 60:02d}" for at in done]
    rate = f"{1 / step_s:.2f}it/s" if step_s < 1 else f"{step_s:.2f}s/it"
    return "".join(
        f"{name}{100 * at // total:3d}%|###  | {at}/{total} [{clock}<01:00, {rate}{postfix}]\n"
        for at, clock in zip(done, clocks, strict=True)
    )


def test_bars_of_an_evaluation_are_no_training_steps(tmp_path: Path) -> None:
    """The training prints no bar: the line behind each bar names the evaluation, and its size stands above."""
    said = "Epoch {0}, Val Loss: 0.4\nEpoch {0}, Train Loss: 0.3\n"
    text = "Validation data size: 150\n" + "".join(bars(150, 0.5) + said.format(at) for at in range(1, 4))
    (tmp_path / "job.out").write_text(text)
    found = read_job_log(tmp_path / "job.out")
    assert found.log is not None
    assert found.log.steps.empty
    assert [float(each.value) for each in found.log.evaluation_times] == pytest.approx([75.0] * 3)
    assert any("150 items are those of an evaluation" in note and "line 12" in note for note in found.notes)


def test_a_single_bar_before_figures_of_an_evaluation_may_be_of_either(tmp_path: Path) -> None:
    text = "".join(f"{bars(150, 0.5)}Epoch {at}, Val Loss: 0.4\n" for at in range(1, 4))
    (tmp_path / "job.out").write_text(text + "Saved checkpoint at step 5\n")
    found = read_job_log(tmp_path / "job.out")
    assert found.log is not None
    assert found.log.steps.empty
    assert not found.log.evaluation_times
    assert any("150 items whose work is not named" in note for note in found.notes)


def test_a_bar_below_the_number_of_its_epoch_trains(tmp_path: Path) -> None:
    text = "".join(f"epoch {at}\n{bars(100, 1.0)}-- test accuracy 0.7\n" for at in range(3))
    assert set(read(tmp_path, text).steps["wall_ms"].round()) == {1000.0}


def test_a_bar_that_is_named_after_the_training_is_no_evaluation(tmp_path: Path) -> None:
    log = read(tmp_path, bars(100, 1.0, name="Training progress: ") + "[ITER 7000] Evaluating train: L1 0.034\n")
    assert log.evaluation_times == ()
    assert set(log.steps["wall_ms"].round()) == {1000.0}


def test_a_bar_with_its_loss_before_figures_of_an_evaluation_trains(tmp_path: Path) -> None:
    text = "".join(f"{bars(100, 1.0, ', loss=0.3')}Epoch {at}, Val Loss: 0.4\n" for at in range(1, 4))
    assert not read(tmp_path, text).steps.empty


def test_of_alternating_bars_that_of_the_training_is_used(tmp_path: Path) -> None:
    """Behind the bar of the evaluation its loss is printed, behind the other that of the training."""
    text = "".join(f"{bars(100, 1.0)}train loss 0.5\n{bars(400, 0.5)}val loss 0.6\n" for _ in range(3))
    log = read(tmp_path, text)
    assert set(log.steps["wall_ms"].round()) == {1000.0}
    assert not log.unnamed_bar
    assert len(log.evaluation_times) == 3


def test_bars_of_two_totals_without_any_word_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(f"{bars(100, 1.0)}{bars(400, 0.5)}" * 2 + "Saved checkpoint at step 5\n")
    found = read_job_log(tmp_path / "job.out")
    assert found.log is not None
    assert found.log.steps.empty
    assert any("100 and 400 items (lines 1 and 11)" in note for note in found.notes)


def test_a_bar_without_a_name_is_qualified(tmp_path: Path) -> None:
    log = read(tmp_path, bars(100, 1.0))
    assert log.unnamed_bar
    assert UNNAMED_BAR in [each.template for each in one_of_several(log)]


def test_a_loss_behind_the_rate_shows_that_a_bar_trains(tmp_path: Path) -> None:
    assert not read(tmp_path, bars(100, 1.0, ", loss=0.31")).unnamed_bar


def test_a_bar_whose_epoch_falls_is_another_training(tmp_path: Path) -> None:
    trained = [("Epoch 1: ", 0.5), ("Epoch 2: ", 0.5), ("Epoch 3: ", 0.5), ("Epoch 1: ", 3.0), ("Epoch 2: ", 3.0)]
    log = read(tmp_path, "".join(bars(100, step_s, name=name) for name, step_s in trained))
    assert log.begins == 1
    assert set(log.steps["wall_ms"].round()) == {3000.0}


def test_ultralytics_since_8_3_is_read_with_its_evaluations(tmp_path: Path) -> None:
    def ticked(name: str, total: int, step_s: float) -> str:
        done = [total * part // 4 for part in range(1, 5)]
        at_s = [
            f"{at * step_s:.1f}s" if at * step_s < 60 else f"{int(at * step_s) // 60}:{int(at * step_s) % 60:02d}"
            for at in done
        ]
        drawn = [
            f"\r\x1b[K{name}: {25 * part}% ━━━━──── {at}/{total} {step_s:.1f}s/it {clock}<9.9s"
            for part, (at, clock) in enumerate(zip(done, at_s, strict=True), 1)
        ]
        return "".join(drawn).removesuffix("<9.9s") + "\n"

    epochs = "".join(
        ticked(f"       {at}/50      8.37G     0.9014      2.375     0.9244         52        640", 80, 1.5)
        + ticked("                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95)", 4, 1.2)
        for at in (1, 2, 3)
    )
    log = read(tmp_path, epochs)
    assert log.steps["wall_ms"].tolist() == pytest.approx([1500.0] * len(log.steps), rel=0.05)
    assert [float(each.value) for each in log.evaluation_times] == pytest.approx([4.8] * 3)


def test_a_bar_that_holds_another_one_at_each_update_counts_no_steps(tmp_path: Path) -> None:
    outer = [f" {10 * at}%|# | {at}/5 [{at:02d}:40<04:00, 100.00s/it]\n" for at in range(6)]
    text = "".join(f"{drawn}{bars(100, 1.0)}" for drawn in outer[:5]) + outer[5]
    log = read(tmp_path, text)
    assert set(log.steps["wall_ms"].round()) == {1000.0}


def test_a_bar_of_a_search_over_settings_counts_no_steps(tmp_path: Path) -> None:
    """Each of its items is a training; the best loss that it shows is of all of them."""
    bar = "{:3d}%|##   | {}/30 [{}:00<90:00, 300.12s/it, best loss: 0.41]\n"
    log = read(tmp_path, "".join(bar.format(at * 3, at, 5 * at) for at in range(1, 20)) + "CUDA out of memory\n")
    assert log.steps.empty
    assert log.evaluation_times == ()

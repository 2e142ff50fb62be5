"""What lines state of the whole training, and estimates that are of a part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron, read
from tools.sources.job_log.whole_run import WholeRun

METRICS = "Epoch: [{}/3]  [{:4d}/100]  eta: 0:0{}:30  loss: 1.0  time: 0.5  data: 0.01"
MMENGINE = "2023/06/11 11:51:00 - mmengine - INFO - Epoch(train)  [{}][{}/16]  lr: 1e-05  eta: {}  time: 0.5"


def found(*lines: str, steps: bool = False) -> dict[str, tuple[float, int]]:
    """The statements and their lines; of step lines that count from the start of the training with ``steps``."""
    run = WholeRun(0)
    for number, line in enumerate(lines, start=1):
        if steps:
            run.stepped(number, line, number)
        else:
            run.take(number, line)
    return {kind: (float(each.value), each.line) for kind, each in run.found().items()}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("INFO: Total training time: 4:49:16.5 (0.8678s / it)", 17_356.5),
        ("Training time 21:59:39", 79_179.0),
        ("Training time 1 day, 0:00:10", 86_410.0),
        ("| INFO | fairseq_cli.train | done training in 5281.5 seconds", 5281.5),
        ("300 epochs completed in 1.5 hours.", 5400.0),
        ("Training completed in 12.5 min", 750.0),
        ("Total training time: 3.5m", 210.0),
        ("[Timing] train finished (Took 1160.5s).", 1160.5),
    ],
)
def test_the_time_of_the_whole_training_is_read(text: str, seconds: float) -> None:
    assert found(text)["took_s"] == (seconds, 1)


@pytest.mark.parametrize(
    "text",
    [
        "Epoch 3 training time: 12 s",
        "step training time: 0.2 s",
        "Average training time: 3 s",
        "training time per step: 3 s",
    ],
)
def test_times_of_a_part_are_none_of_the_whole_training(text: str) -> None:
    assert "took_s" not in found(text)


def test_a_timer_that_says_train_alone_is_of_the_whole_training_where_it_stands_once() -> None:
    line = "[Timing] train finished (Took {}s)."
    assert "took_s" not in found(line.format(30.5), line.format(31.5))


@pytest.mark.parametrize("text", ["training_steps: 1882", "Max steps               : 1,882", "max_steps: 1882"])
def test_an_argument_states_the_steps_of_the_training(text: str) -> None:
    assert found(text)["steps"] == (1882.0, 1)


def test_the_last_estimate_is_what_is_left() -> None:
    lines = ("eta: 20:50:49  iter: 19  time: 0.7", "eta: 20:39:53  iter: 39  time: 0.7")
    assert found(*lines, steps=True)["left_s"] == (74_393.0, 2)


def test_an_estimate_next_to_the_place_in_an_epoch_is_of_the_epoch_but_of_programs_that_count_all() -> None:
    assert found(*(METRICS.format(0, 10 * at, 5 - at) for at in range(4)), steps=True) == {}
    assert found(MMENGINE.format(1, 5, "0:09:45"), steps=True) == {"left_s": (585.0, 1)}
    assert found("Epoch(val) [1][5/16]  eta: 0:00:04  time: 0.5", steps=True) == {}


def test_an_estimate_that_reaches_its_end_and_rises_again_is_of_a_part() -> None:
    falling = [f"step {at} | loss 1.0 | eta: 0:{4 - at:02d}:00" for at in range(5)]
    assert found(*falling, steps=True)["left_s"][0] == 0.0
    assert found(*falling, "step 5 | loss 1.0 | eta: 0:04:00", steps=True) == {}


def test_an_estimate_that_a_pause_makes_longer_stays_of_the_whole_training() -> None:
    hours = ("36:00:00", "35:59:00", "200:00:00", "60:00:00", "300:00:00", "36:00:00")
    lines = (f"step {at} | loss 1.0 | eta: {each}" for at, each in enumerate(hours))
    assert found(*lines, steps=True)["left_s"][0] == 129_600.0


def test_what_passed_is_read_next_to_what_is_left() -> None:
    line = "Iters: 370/20000 || Task Loss: 6.08 || Cost Time: 0:05:20 || Estimated Time: 4:43:33"
    assert found(line, steps=True) == {"passed_s": (320.0, 1), "left_s": (17_013.0, 1), "steps": (20_000.0, 1)}


def test_the_steps_of_the_training_stand_behind_those_of_a_line_or_in_its_arguments(tmp_path: Path) -> None:
    assert found("[step=1/15000,epoch=0]")["steps"] == (15_000.0, 1)
    assert found("  MAX_ITER: 111000")["steps"] == (111_000.0, 1)
    assert found("  Total optimization steps = 1,849")["steps"] == (1849.0, 1)
    assert "steps" not in found("max_steps=100", "num_iterations: 200")  # which one counts is not known
    assert "steps" not in found("max_steps=-1", "warmup_steps=100", "# max_steps = 5")
    assert "steps" not in found("Epoch 1 step 10/200")
    assert "steps" not in found("step 1/200", "step 200/200", "step 1/200")  # counted again in each epoch
    assert read(tmp_path, megatron(*((step, 1000.0) for step in range(1, 9)))).whole_run["steps"].value == "1000"

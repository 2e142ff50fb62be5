"""One line or one progress bar alone, as people paste them: what is output of a job, and what it states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.bar_lines import bar_point
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import holds_records

LIGHTNING = "Epoch 0:   2%|2         | 150/7500 [1:15:00<61:15:00, 30.00s/it, loss=3.1, v_num=4]\n"
WITHOUT_GLYPHS = "Epoch 3:  25% 500/2000 [10:25<31:15,  1.25s/it]\n"
ULTRALYTICS = (
    "       2/9       3.1G     0.5012      1.701      1.102         21        640: 100%|##########| "
    "4000/4000 [50:00<00:00,  1.33it/s]\n"
)
PADDLE = (
    "[01/02 10:20:30] ppdet.engine INFO: Epoch: [3] [0/40] learning_rate: 0.0007 loss: 1.52 eta: 0:10:00 "
    "batch_cost: 6.5000 data_cost: 5.2000 ips: 2.4 images/s\n"
)


@pytest.mark.parametrize(
    ("line", "wall_ms"),
    [
        (LIGHTNING, 75 * 60e3 / 150),  # elapsed over the steps done, in agreement with the rate
        (WITHOUT_GLYPHS, 625e3 / 500),
        (ULTRALYTICS, 3000e3 / 4000),
        (PADDLE, 6500.0),
    ],
    ids=["Lightning", "without glyphs", "Ultralytics", "PaddleDetection"],
)
def test_one_line_of_a_known_program_is_a_job_s_output_and_states_its_step(
    tmp_path: Path, line: str, wall_ms: float
) -> None:
    assert holds_records((line.encode(),))
    assert read(tmp_path, line).steps["wall_ms"].tolist() == pytest.approx([wall_ms])


@pytest.mark.parametrize(
    "line",
    [
        "at step 5 this took 3 s per step on my machine\n",
        '{"step": 22, "loss": 0.08, "step_time": 2.98}\n',
        "100%|##########| 100/100 [05:00<00:00,  3.00s/it]\n",
        "Epoch 3 [Val]: 100%|##########| 100/100 [05:00<00:00,  3.00s/it]\n",
        "Evaluating epoch 3: 100%|##########| 100/100 [05:00<00:00,  3.00s/it]\n",
        "Epoch 3:   0%|          | 0/100 [00:00<?, ?it/s]\n",
        "1/1 [==============================] - 0s 23ms/step\n",
    ],
)
def test_one_line_that_may_be_of_anything_is_no_job_s_output(line: str) -> None:
    assert not holds_records((line.encode(),))


def test_the_row_of_a_validation_of_ultralytics_is_no_epoch() -> None:
    row = "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
    found = bar_point(row + "100%|##########| 500/500 [01:40<00:00,  5.00it/s]")
    assert found is not None
    assert not found.name.startswith("Epoch")


def test_bars_of_validation_are_left_out_next_to_those_of_training(tmp_path: Path) -> None:
    """Two epochs of 100 steps in 300 s and 400 s, and validation batches that take longer."""
    train = "".join(
        f"Epoch {at} [Train]: 100%|##| 100/100 [{clock}<00:00,  {rate}s/it]\n"
        for at, clock, rate in ((0, "05:00", "3.00"), (1, "06:40", "4.00"))
    )
    val = "".join(
        f"Epoch {at} [Val]: 100%|##| 10/10 [{clock}<00:00, {rate}s/it]\n"
        for at, clock, rate in ((0, "20:00", "120.00"), (1, "25:00", "150.00"))
    )
    assert read(tmp_path, train + val).steps["wall_ms"].tolist() == pytest.approx([3000.0, 4000.0])


EPOCHS_TABLE = """\
Action                  |  Mean duration (s)  |Num calls  |  Total time (s)  |  Percentage %  |
run_training_epoch      |  6.0                |10         |  60.0            |  90.0          |
run_training_batch      |  0.04               |1200       |  48.0            |  72.0          |
"""


@pytest.mark.parametrize(
    "text",
    [
        "Epoch 9/10:  90%|#########  | 9/10 [00:54<00:06,  6.02s/it, loss=3.1]\n",
        "Epoch 8/10:  80%|########   | 8/10 [00:48<00:12,  6.02s/it]\n"
        "Epoch 9/10:  90%|#########  | 9/10 [00:54<00:06,  6.00s/it]\n",
        " 90%|#########  | 9/10 [00:54<00:06,  6.02s/it]\n 100%|##########| 10/10 [01:00<00:00,  6.01s/it]\n"
        + EPOCHS_TABLE,
    ],
    ids=["its name", "its names", "a profiler's table"],
)
def test_a_bar_that_counts_epochs_is_no_step(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.out").write_text(text)
    found = read_job_log(tmp_path / "job.out")
    assert found.log is None or (found.log.steps.empty and not found.log.bars)
    assert any("epochs and no steps" in note for note in found.notes)


def test_a_bar_whose_name_stays_while_it_counts_is_of_steps(tmp_path: Path) -> None:
    bar = "Epoch 2/10:  {0}0%|###  | {0}/10 [00:{1}<00:06,  6.00s/it]\n"
    steps = read(tmp_path, "".join(bar.format(done, 6 * done) for done in range(2, 9))).steps
    assert not steps.empty


STALL = """\
[2026-03-02 10:00:15.181: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, \
gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.
Missing ranks:
1: [allreduce.conv1.weight, allreduce.conv2.weight]
3: [allreduce.conv1.weight]
"""


def test_the_ranks_that_horovod_waits_for_are_those_below_its_head(tmp_path: Path) -> None:
    assert holds_records((STALL.encode(),))
    assert [each.ranks for each in read(tmp_path, STALL + 2 * STALL).reports] == [(1,), (3,)]


def test_the_wait_for_data_of_torch7_s_example_is_a_part_of_its_step(tmp_path: Path) -> None:
    line = "Epoch: [1][{0}/10000]\tTime 2.000 Err 8.5 Top1-%: 0.20 LR 1e-02 DataLoadingTime {0}.500\n"
    steps = read(tmp_path, "".join(line.format(at) for at in (1, 2, 3))).steps
    assert steps["wall_ms"].tolist() == pytest.approx([3500.0, 4500.0, 5500.0])
    assert steps["data_wait_ms"].tolist() == pytest.approx([1500.0, 2500.0, 3500.0])


def test_detectron_s_statistics_are_means_since_the_start(tmp_path: Path) -> None:
    line = 'json_stats: {{"iter": {}, "loss": 0.7, "mb_qsize": 0, "time": {}}}\n'
    log = read(tmp_path, line.format(100, 1.5) + line.format(120, 1.6) + line.format(140, 1.7))
    assert log.grammars == ("Detectron",)
    assert log.step_time in ("running", "unwound")


def test_a_process_that_slurm_reports_as_killed_for_memory_is_stated(tmp_path: Path) -> None:
    text = "slurmstepd: error: Detected 2 oom-kill event(s) in step 12.batch cgroup. Some of your processes may have\n"
    assert holds_records((text.encode(),))
    (found,) = read(tmp_path, text).warnings
    assert (found.kind, found.count, found.first_line) == ("oom_kill", 1, 1)

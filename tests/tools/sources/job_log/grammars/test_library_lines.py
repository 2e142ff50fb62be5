"""Lines of libraries that state parts of a step, means since an epoch began, or figures of a whole epoch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import is_job_log
from tools.sources.load import load_run


@pytest.mark.parametrize(
    ("text", "step", "wall_ms", "wait_ms"),
    [
        (
            "mmengine - INFO - Epoch(train)  [2][  40/ 900]  lr: 1e-3  eta: 1:02:03  time: 0.5120  data_time: 0.1280"
            "  memory: 4096  loss: 1.5",
            *(40, 512.0, 128.0),
        ),
        (
            "mmseg - INFO - Iter [150/80000]\tlr: 9e-3, eta: 9:10:11, time: 0.250, data_time: 0.004, loss: 1",
            *(150, 250.0, 4.0),
        ),
        (
            "trainer:259 - epoch: 3/90, iter: 20/700, mem: 900Mb, iter_time: 1.500s, data_time: 0.600s",
            *(20, 1500.0, 600.0),
        ),
        ("eta: 0:10  iter: 19  total_loss: 1.2  time: 0.2134  data_time: 0.0123", 19, 213.4, 12.3),
        (
            "root INFO: epoch: [2/9], iter: 770, lr: 0.1, loss: 2.0, reader_cost: 0.30000 s, batch_cost: 0.50000 s, "
            "samples: 640, ips: 128.0",
            *(770, 500.0, 300.0),
        ),
        (
            "epoch: 1, batch_id: 200, auc:0.7,  avg_reader_cost: 0.00200 sec, avg_batch_cost: 0.25000 sec, "
            "avg_samples: 64.00000, ips: 256.0 ins/s",
            *(200, 250.0, 2.0),
        ),
        (
            "Epoch: [4] [  60/1000] loss: 1.0 eta: 1:00:00 batch_cost: 0.4000 data_cost: 0.0010 ips: 20.0",
            60,
            400.0,
            1.0,
        ),
        (
            "[TRAIN] epoch: 1, iter: 30/1000, loss: 1, lr: 0.01, batch_cost: 0.2000, reader_cost: 0.01, ips: 20.0 "
            "samples/sec | ETA 00:01:00",
            *(30, 200.0, 10.0),
        ),
        (
            "[TRAIN] epoch=1, iter=15/100, loss=1.6, lr=0.008, batch_cost=0.6180, reader_cost=0.0200 | ETA 00:00:52",
            *(15, 618.0, 20.0),
        ),
        (
            "global step 50, epoch: 1, batch: 50, loss: 1.0, avg_reader_cost: 0.1 sec, avg_batch_cost: 0.4 sec",
            *(50, 400.0, 100.0),
        ),
        ("completed step: 12, seconds: 1.250, TFLOP/s/device: 99.5, Tokens/s/device: 800.0, loss: 2", 12, 1250.0, None),
        ("epoch time: 4000.000 ms, per step time: 800.000 ms", -1, 800.0, None),
        ("Train epoch time: 4000.000 ms, per step time: 800.000 ms (data time: 20.000 ms)", -1, 800.0, 20.0),
        ("I0102 10:00:05.250000 1408 train.py:9] [Train 290/900] {'train_loss': 0.5}", 290, None, None),
        ("Training iter 31, loss=0.4, dice=0.1 (2.500000s)", 31, 2500.0, None),
        ("Validation iter 31, loss=0.4 (2.500000s)", None, None, None),
        ("num_updates: 300, iterations: 300, max_updates: 900, lr: 0.1, ups: 0.50, time: 03m 20s", 300, 2000.0, None),
        ("INFO:tensorflow:loss = 0.5, step = 200 (8.000 sec)", 200, 8000.0, None),
        ("TimeHistory: 24.0 seconds, 2000.5 examples/second between steps 100 and 200", 200, 240.0, None),
        ("Epoch[2] Batch [40]\tSpeed: 512.25 samples/sec\taccuracy=0.1", 40, None, None),
        ("Iter[0] Batch [60-80] Speed: 512.25 samples/sec", 80, None, None),
        ("100/100 [==============================] - 35s 350ms/step - loss: 0.3 - val_loss: 0.5", -1, 350.0, None),
        (" 12/100 [==>...........................] - ETA: 30s 340ms/step - loss: 0.7", 12, 340.0, None),
        ("12/100 ━━━━━━━━━━━━━━━━━━━━ 30s 341ms/step - accuracy: 0.1", 12, 341.0, None),
        # A rate of one digit next to whole seconds of 500 steps, and to 37:00 left of 1200.
        ("500/500 [==============================] - 811s 2s/step - loss: 0.3 - val_loss: 0.5", -1, 1622.0, None),
        ("500/500 - 811s - loss: 0.1 - accuracy: 0.9 - 811s/epoch - 2s/step", -1, 1622.0, None),
        ("300/1500 [====>........................] - ETA: 37:00 2s/step - loss: 0.7", 300, 1850.0, None),
        ("40/40 - 8s - loss: 0.1 - accuracy: 0.9 - 8s/epoch - 200ms/step", -1, 200.0, None),
        ("steps: 10 loss: 2.3000 iter time (s): 1.500 samples/sec: 10.7", 10, 1500.0, None),
        ("Epoch: [0][  10/5005]\tTime  0.512 (  1.200)\tData  0.010 (  0.300)\tLoss 6.9 (6.9)", 10, 512.0, 10.0),
        ("[Eval][Epoch 1][Iter: 0/40]acc: 0.2, batch_cost: 1.0s, reader_cost: 0.9", None, None, None),
        ("Epoch(val) [3][40/40]  acc: 0.5  data_time: 0.3  time: 0.4", None, None, None),
    ],
)
def test_a_line_gives_the_step_its_time_and_the_wait_for_data(
    text: str, step: int | None, wall_ms: float | None, wait_ms: float | None
) -> None:
    found = step_line(text)
    if step is None:
        assert found is None or found.wall_ms is None
        return
    assert found is not None
    assert found.step == step
    assert found.wall_ms == (wall_ms if wall_ms is None else pytest.approx(wall_ms))
    assert found.data_wait_ms == (wait_ms if wait_ms is None else pytest.approx(wait_ms))


def test_a_mean_since_the_epoch_began_is_taken_apart_into_the_steps_between_two_lines(tmp_path: Path) -> None:
    single_ms = np.array([5000.0, *([400.0] * 19), *([600.0] * 20)])
    wait_ms = single_ms * 0.25
    means, waits = (np.cumsum(each) / np.arange(1, 41) for each in (single_ms, wait_ms))
    lines = [
        f"2026-01-01 10:00:00 INFO: epoch:0  , train step:{n} , lr: 0.1, batch_cost: {means[n - 1] / 1e3:.5f} s, "
        f"reader_cost: {waits[n - 1] / 1e3:.5f} s, ips: 10.0 images/sec."
        for n in range(5, 41, 5)
    ]
    steps = read(tmp_path, "\n".join(lines) + "\n").steps
    between = [single_ms[n - 5 : n].mean() for n in range(5, 41, 5)]
    assert steps["wall_ms"].to_numpy() == pytest.approx(between, rel=1e-3)
    assert steps["data_wait_ms"].to_numpy() == pytest.approx([0.25 * each for each in between], rel=1e-2)


def engine(single_s: list[float], window: int) -> str:
    """Lines of MMEngine for each iteration, with the mean over the last ``window`` iterations."""
    clock, text = 0.0, ""
    for n in range(1, len(single_s) + 1):
        clock += single_s[n - 1]
        mean = float(np.mean(single_s[max(n - window, 0) : n]))
        at = f"{10 + int(clock) // 3600:02d}:{int(clock) // 60 % 60:02d}:{int(clock) % 60:02d}"
        text += f"2026/01/02 {at} - mmengine - INFO - Epoch(train)  [1][{n:4d}/900]  time: {mean:.4f}  data_time: 0.1\n"
    return text


def test_mmengine_s_running_mean_is_taken_apart_where_the_time_stamps_show_that_it_began_with_the_job(
    tmp_path: Path,
) -> None:
    single_s = [30.0, 4.0, 5.0, 12.0, 4.0, 4.0, 15.0, 4.0]
    log = read(tmp_path, engine(single_s, window=50))
    assert log.step_time == "unwound"
    assert log.steps["wall_ms"].to_numpy() == pytest.approx([1e3 * each for each in single_s], rel=1e-3)


def test_a_running_mean_over_an_unknown_window_is_not_taken_for_single_steps(tmp_path: Path) -> None:
    log = read(tmp_path, engine([30.0, 4.0, 9.0, 12.0, 4.0, 7.0, 15.0, 4.0, 3.0, 11.0], window=3))
    assert log.step_time == "running"


CONFIG = "log_processor = dict(\n    type='LogProcessor',\n    window_size={},\n    by_epoch=True)\n"


def epochs(single_s: list[float], length: int, window: int) -> str:
    """Lines of MMEngine for each iteration of epochs of one length: the means run on across the epochs."""
    clock, text = 0.0, ""
    for n in range(1, len(single_s) + 1):
        clock += single_s[n - 1]
        mean = float(np.mean(single_s[max(n - window, 0) : n]))
        at = f"{10 + int(clock) // 3600:02d}:{int(clock) // 60 % 60:02d}:{int(clock) % 60:02d}"
        place = f"[{1 + (n - 1) // length}][{1 + (n - 1) % length}/{length}]"
        text += f"2026/01/02 {at} - mmengine - INFO - Epoch(train)  {place}  time: {mean:.4f}  data_time: 0.1\n"
    return text


def test_means_over_the_last_steps_across_epochs_are_not_taken_apart_as_if_an_epoch_began_them(tmp_path: Path) -> None:
    single_s = [9.0, 8.0, 8.0, 8.0, 8.0, 2.0] * 20
    for text in (CONFIG.format(50) + epochs(single_s, 6, 50), epochs(single_s, 6, 50)):
        log = read(tmp_path, text)
        assert log.step_time == "running"
        assert log.steps["wall_ms"].iloc[60:].to_numpy() == pytest.approx(1e3 * np.mean(single_s), rel=0.03)


def test_means_are_of_the_whole_job_as_long_as_the_stated_window_holds_all_its_steps(tmp_path: Path) -> None:
    single_s = [9.0, 8.0, 8.0, 8.0, 8.0, 2.0] * 3
    log = read(tmp_path, CONFIG.format(50) + epochs(single_s, 6, 50))
    assert log.step_time == "unwound"
    assert log.steps["wall_ms"].to_numpy() == pytest.approx([1e3 * each for each in single_s], rel=1e-3)


def test_lines_without_a_number_count_the_steps_that_they_stand_for(tmp_path: Path) -> None:
    text = "".join(f"epoch time: {10 * step}.000 ms, per step time: {step}.000 ms\n" for step in (900, 300, 310))
    steps = read(tmp_path, text).steps
    assert steps["step"].tolist() == [10, 20, 30]
    assert steps["span"].tolist() == [10, 10, 10]


def test_the_time_of_all_steps_since_the_line_before_is_divided_among_them(tmp_path: Path) -> None:
    text = "".join(f"iter: {n} train_loss: 3.1 val_loss: 3.0 time(s): {s} s\n" for n, s in ((50, 20.0), (100, 25.0)))
    assert read(tmp_path, text).steps["wall_ms"].tolist() == [400.0, 500.0]


def test_the_first_batch_of_an_epoch_divided_by_the_interval_is_no_step_time(tmp_path: Path) -> None:
    line = "epoch: {}, batch_id: {}, avg_reader_cost: 0.1 sec, avg_batch_cost: {} sec, avg_samples: {}, ips: 9 ins/s\n"
    rows = ((0, 0, 0.002, 0.64), (0, 100, 0.5, 64), (0, 200, 0.6, 64), (1, 0, 0.002, 0.64), (1, 100, 0.7, 64))
    steps = read(tmp_path, "".join(line.format(*row) for row in rows)).steps
    assert steps["wall_ms"].tolist() == [500.0, 600.0, 700.0]


def test_lines_of_a_build_are_no_steps(tmp_path: Path) -> None:
    text = "[ 12/100] Building a.o\nmake[2]: iteration done\n[ 13/100] Linking 3 tests in 2.1 s\nstep: configure\n"
    (tmp_path / "build.log").write_text(text * 20)
    assert not is_job_log(tmp_path / "build.log")


def test_the_time_of_knover_is_of_the_steps_that_its_speed_states(tmp_path: Path) -> None:
    head = "[train][{}] progress: 1/2 step: {}, time: {:.3f}, speed: {:.3f} steps/s\n\tcurrent lr: 0.00001\n"
    checked = "".join(f"\tstep {step}:lm_loss: 3.4, ppl: 32.0\n" for step in range(100, 4000, 100))
    ended = "[Evaluation][500]lm_loss: 3.38, ppl: 29.4\n\ttime cost: 1600.115\n"
    lines = [head.format(1, step, 98.0, 100 / 98.0) for step in range(100, 1100, 100)]
    log = read(tmp_path, "".join([*lines[:5], checked, ended, *lines[5:]]))
    assert log.steps["wall_ms"].tolist() == pytest.approx([980.0] * 10)
    assert log.steps["span"].tolist() == [100] * 10
    assert [(each.value, each.line) for each in log.evaluation_times] == [("1600.115", 51)]
    later = "[train][3] progress: 1/1 step: 40, time: 6.000, queue size: 8, speed: 5.000 steps/s"
    found = step_line(later)
    assert found is not None
    assert found.wall_ms == pytest.approx(200.0)


@pytest.mark.parametrize("stamped", [True, False])
def test_a_mean_that_begins_again_in_a_resumed_process_is_none_over_the_steps_before(
    tmp_path: Path, stamped: bool
) -> None:
    """Steps of 700 ms; the first 20 after the checkpoint at 1,000 take 900 ms each."""
    seconds, lines = 0.0, []
    for began, each in ((0, [0.7] * 50), (1000, [0.9, *[0.7] * 49])):
        sums, seconds = 0.0, seconds + 600.0
        for at, mean in enumerate(each, 1):
            sums, seconds = sums + 20 * mean, seconds + 20 * mean
            when = f"[11/19 {9 + int(seconds) // 3600:02d}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}] "
            lines.append(
                f"{when * stamped}d2.utils.events INFO:  eta: 20:54:55  iter: {began + 20 * at - 1}  total_loss: 0.16"
                f"  time: {sums / (20 * at):.4f}  data_time: 0.06  lr: 0.04  max_mem: 11813M\n"
            )
    log = read(tmp_path, "".join(lines))
    if not stamped:
        assert log.step_time == "running"
        assert 1019 not in log.steps["step"].tolist()
        return
    assert log.step_time == "unwound"
    of_resumed = log.steps[log.steps["step"] == 1019]
    assert of_resumed[["span", "wall_ms"]].to_numpy().tolist() == [[20, pytest.approx(900.0)]]
    others = log.steps.drop(of_resumed.index)["wall_ms"]
    assert others.min() > 650.0
    assert others.max() < 750.0


def test_json_lines_of_mmengine_are_means_over_its_last_iterations_whatever_the_file_is_called(tmp_path: Path) -> None:
    record = '{{"lr": 0.02, "data_time": 0.25, "loss": 1.5, "time": {0}, "epoch": {1}, "iter": {2}, "step": {2}}}\n'
    evaluation = '{"accuracy/top1": 43.1, "data_time": 9.0, "time": 10.0, "step": 1}\n'
    path = tmp_path / "scalars.json"
    path.write_text("".join(record.format(0.5, at, 69 * at) + evaluation for at in range(1, 9)))
    log = load_run([path]).job_log
    assert log is not None
    assert log.step_time == "window"
    assert log.steps["step"].tolist() == [69 * at for at in range(1, 9)]
    assert log.steps["wall_ms"].tolist() == [500.0] * 8
    assert log.steps["data_wait_ms"].tolist() == [250.0] * 8


def test_json_lines_of_mmcv_are_means_since_the_line_before(tmp_path: Path) -> None:
    record = '{{"mode": "{}", "epoch": {}, "iter": {}, "lr": 0.01, "data_time": 0.1, "time": 0.4, "loss": 2.0}}\n'
    text = "".join(record.format("train", epoch, at) for epoch in (1, 2) for at in (50, 100, 150))
    log = read(tmp_path, text + record.format("val", 2, 40), "run.log.json")
    assert log.step_time == "mean"
    assert log.steps["wall_ms"].tolist() == [400.0] * 6


MINDCV = (
    "[2024-05-0{day} 0{hour}:00:00] mindcv.utils.callbacks INFO - Epoch: [{epoch}/4], batch: [{at}/500], loss: 2.5, "
)


def test_the_time_of_mindcv_is_that_of_all_steps_since_the_line_before(tmp_path: Path) -> None:
    """One line of each epoch states the time of its 500 steps, and behind it that of the evaluation."""
    text = "".join(
        MINDCV.format(day=1, hour=epoch, epoch=epoch, at=500) + f"lr: 0.1, time: {100.0 + epoch}s\n"
        "[2024-05-01 06:00:00] mindcv.utils.callbacks INFO - Validation Top_1_Accuracy: 70.1%, Top_5_Accuracy: 90.2%, "
        "time: 12.5s\n"
        f"mindcv.utils.callbacks INFO - Total time since last epoch: 113.5(train: 101.0, val: 12.5)s, "
        f"ETA: {4 - epoch}.0s\n"
        for epoch in range(1, 5)
    )
    log = read(tmp_path, text)
    assert log.steps["step"].tolist() == [500, 1000, 1500, 2000]
    assert log.steps["wall_ms"].to_numpy() == pytest.approx([202.0, 204.0, 206.0, 208.0])
    assert [each.value for each in log.evaluation_times] == ["12.5"] * 4
    assert log.whole_run["left_s"].value == "0.0"


def test_lines_of_mindcv_within_an_epoch_state_the_steps_between_them(tmp_path: Path) -> None:
    lines = [(epoch, at) for epoch in (1, 2) for at in (1, 100, 200, 300, 400, 500)]
    text = "".join(
        MINDCV.format(day=1, hour=1, epoch=epoch, at=at)
        + f"lr: 0.1, time: {0.3 if at == 1 else 30.0 if at > 100 else 29.7}s\n"
        for epoch, at in lines
    )
    steps = read(tmp_path, text).steps
    assert steps["step"].iloc[-1] == 1000
    assert steps["wall_ms"].to_numpy() == pytest.approx(300.0)


def test_a_time_at_the_ends_of_epochs_alone_may_be_that_of_the_epoch(tmp_path: Path) -> None:
    """Of no known program: whether a step or the epoch took so long is not stated."""
    (tmp_path / "job.out").write_text(
        "".join(f"Epoch 1{at} step [500/500] loss 0.5 time: 58{at}.1 s\n" for at in range(1, 6))
        + "Saved checkpoint at step 500\n" * 3
    )
    found = read_job_log(tmp_path / "job.out")
    assert found.log is None or found.log.steps.empty

"""Step lines with a last value and a mean, and what these are of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import is_job_log

EACH_S = [4.0, *([0.5, 0.25, 0.25, 0.5, 0.25] * 12)]  # one batch each; of the first one the loader starts
DATA_S = [3.0, *([0.3, 0.05, 0.05, 0.3, 0.05] * 12)]


def epoch(every: int, number: int = 0, first: int = 0, of_printed: bool = False, form: str = "") -> str:
    """Lines of the ImageNet example: meters of every batch, or updated only where a line is printed."""
    lines, printed = [], []
    for at in range(first, len(EACH_S), every):
        so_far, waits = EACH_S[: at + 1], DATA_S[: at + 1]
        value = EACH_S[at]
        if of_printed:
            value = sum(EACH_S[max(at - every + 1, 0) : at + 1])
            printed.append(value)
        mean = float(np.mean(printed if of_printed else so_far))
        lines.append(
            f"Epoch: [{number}][{at:4d}/9000]\tTime {value:6.3f} ({mean:6.3f})\tData {DATA_S[at]:6.3f} "
            f"({np.mean(waits):6.3f})\tLoss 6.9{at % 7} (6.93)\n"
        )
    return "".join(lines)


def test_means_of_all_batches_give_the_steps_between_two_lines(tmp_path: Path) -> None:
    log = read(tmp_path, epoch(10))
    assert log.step_time == "unwound"
    assert log.steps["span"].tolist() == [1, *[10] * 6]
    assert log.steps["wall_ms"].iloc[0] == pytest.approx(4000.0)
    assert log.steps["wall_ms"].iloc[1:].tolist() == pytest.approx([350.0] * 6, rel=0.06)
    assert log.steps["data_wait_ms"].iloc[1:].tolist() == pytest.approx([150.0] * 6, rel=0.15)
    whole = float(np.average(log.steps["wall_ms"], weights=log.steps["span"]))
    assert whole == pytest.approx(1e3 * float(np.mean(EACH_S)), rel=0.01)


def test_places_without_the_length_of_the_epoch_are_read_alike(tmp_path: Path) -> None:
    """SwAV prints ``Epoch: [0][50]``."""
    log = read(tmp_path, epoch(10).replace("/9000]", "]"))
    assert log.step_time == "unwound"
    assert log.steps["span"].tolist() == [1, *[10] * 6]


def test_waits_taken_apart_keep_their_sum_whatever_the_digits_leave_open(tmp_path: Path) -> None:
    """The first batch of 61 waits 1 s, the others never: 16.4 ms on average. Means of three digits give waits next to
    zero on either side."""
    lines = "".join(
        f"Epoch: [0][{at:4d}/9000]\tTime {EACH_S[at]:6.3f} ({np.mean(EACH_S[: at + 1]):6.3f})"
        f"\tData {0.0 if at else 1.0:6.3f} ({1 / (at + 1):6.3f})\tLoss 6.9{at % 7} (6.93)\n"
        for at in range(0, 61, 10)
    )
    steps = read(tmp_path, lines).steps
    assert (steps["data_wait_ms"] < 0).any()
    assert float(np.average(steps["data_wait_ms"], weights=steps["span"])) == pytest.approx(1000.0 / 61, abs=0.5)


def test_two_lines_are_enough_for_the_steps_between_them(tmp_path: Path) -> None:
    log = read(tmp_path, epoch(60))
    assert log.steps["wall_ms"].tolist() == pytest.approx([4000.0, 350.0], rel=0.02)


def test_lines_from_the_middle_of_an_epoch_need_no_first_one(tmp_path: Path) -> None:
    log = read(tmp_path, epoch(10, first=20))
    assert log.step_time == "unwound"
    assert log.steps["step"].tolist() == [30, 40, 50, 60]
    assert log.steps["wall_ms"].tolist() == pytest.approx([350.0] * 4, rel=0.06)


def test_a_mean_of_the_printed_values_makes_a_value_that_of_all_steps_between(tmp_path: Path) -> None:
    log = read(tmp_path, epoch(10, of_printed=True))
    assert log.step_time == "block"
    assert log.steps["wall_ms"].iloc[1:].tolist() == pytest.approx([350.0] * 6, rel=0.01)
    assert log.steps["data_wait_ms"].iloc[1:].tolist() == pytest.approx([150.0] * 6, rel=0.15)


def test_without_another_meter_a_value_may_be_a_mean_or_of_one_step(tmp_path: Path) -> None:
    text = "".join(line.partition("\tData")[0] + "\n" for line in epoch(10, of_printed=True).splitlines())
    log = read(tmp_path, text)
    assert log.step_time == "unstated"


def test_every_printed_step_is_its_own_value_also_where_the_mean_is_older_than_the_epoch(tmp_path: Path) -> None:
    lines = [f"Epoch: [4][{at}/50]\tTime {0.2 + at / 100:.3f} (1.{200 - at})\tLoss 3.2 (9.0)\n" for at in range(1, 8)]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "step"
    assert log.steps["wall_ms"].tolist() == pytest.approx([210.0 + 10 * place for place in range(7)])


def test_a_mean_that_is_older_than_the_epoch_is_not_taken_apart(tmp_path: Path) -> None:
    lines = [f"Epoch: [4][{at}/500]\tTime 0.{200 + at} (1.{900 - 3 * at})\tLoss 3.2 (9.0)\n" for at in range(0, 90, 10)]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "step"
    assert log.steps["wall_ms"].iloc[0] == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("text", "step", "wall_ms", "wait_ms"),
    [
        (
            "Train: [3/300][ 40/1251]\teta 0:10:20 lr 0.000100\t time 0.4000 (0.5000)\tloss 6.9 (6.9)\tmem 9000MB",
            *(40, 400.0, None),
        ),
        (
            "Train: 2 [  50/1251 (  4%)]  Loss: 6.95 (6.95)  Time: 0.512s,  250.00/s  (0.600s,  213.33/s)  LR: 1.0e-06"
            "  Data: 0.010 (0.050)",
            *(50, 512.0, 10.0),
        ),
        ("Epoch: [2/80][ 30/700] Data 0.020 (0.400) Batch 0.900 (1.300) Remain 10:00:00 Loss 1.1", 30, 900.0, 20.0),
        (
            "Epoch: [5]  [  20/2502]  eta: 0:10:20  loss: 6.9 (6.9)  time: 0.2500  data: 0.0020  max mem: 9",
            *(20, 250.0, 2.0),
        ),
        ("eta: 1:02:03  iter: 60  loss: 1.4 (1.5)  time: 0.3000 (0.4000)  data: 0.0100 (0.0300)", 60, 400.0, 30.0),
        ("Epoch 1/7 itr 30/900: lr: 0.001 speed: 1.50(0.50s r1.00)s/itr 0.3h/epoch loss: 0.2", 30, 1500.0, 1000.0),
        (
            "INFO | Train Epoch: 1 [  4160/90000 (5%)] Loss: 0.9 (1.1) Data (t): 0.100 Batch (t): 0.400, 160.0/s LR: 0",
            *(4160, 400.0, 100.0),
        ),
    ],
)
def test_meters_of_other_trainers(text: str, step: int, wall_ms: float, wait_ms: float | None) -> None:
    found = step_line(text)
    assert found is not None
    assert found.step == step
    assert found.wall_ms == pytest.approx(wall_ms)
    assert found.data_wait_ms == (None if wait_ms is None else pytest.approx(wait_ms))


def test_evaluations_with_meters_are_no_steps() -> None:
    assert step_line("Test:  [ 20/196]  eta: 0:01:00  loss: 0.6 (0.7)  time: 0.2500  data: 0.0020  max mem: 9") is None
    assert step_line("Test: [ 20/196]\tTime 0.250 (0.300)\tLoss 0.6 (0.7)\tAcc@1 80.0 (79.0)") is None


def test_samples_that_open_clip_counts_are_batches_of_the_first_line(tmp_path: Path) -> None:
    lines = [
        f"2024-05-01,10:{at:02d}:00 | INFO | Train Epoch: 0 [{96 * (50 * at + 1):7d}/900000 (1%)] Loss: 1.2 (1.2) "
        f"Data (t): 0.{at}00 Batch (t): 1.200, 80.0/s LR: 0.1\n"
        for at in range(1, 5)
    ]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "mean"
    assert log.steps["step"].tolist() == [51, 101, 151, 201]
    assert log.steps["span"].tolist() == [50, 50, 50, 50]
    assert log.steps["wall_ms"].tolist() == pytest.approx([1200.0] * 4)


def test_a_pasted_log_with_meters_is_recognised_although_it_begins_with_a_bracket(tmp_path: Path) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(
        "[2023-01-02 10:00:00,100 INFO train.py] Epoch: [1/9][10/300] Data 0.002 (0.574) Batch 0.818 (1.887) Loss 1\n"
        "[2023-01-02 10:00:09,100 INFO train.py] Epoch: [1/9][20/300] Data 0.002 (0.574) Batch 0.818 (1.387) Loss 1\n"
    )
    assert is_job_log(path)


@pytest.mark.parametrize(
    "line",
    [
        "[{at:8d} Epoch:[ 0/9] [{at:4d}/ 99] time: {clock:.4f}, d_loss: 1.2",
        "Epoch: [ 0] [{at:4d}/ 99] time: {clock:.4f}, loss: 1",
    ],
)
def test_a_time_without_a_unit_behind_the_place_in_the_epoch_is_a_clock_where_it_rises(
    tmp_path: Path, line: str
) -> None:
    """A clock in seconds: 9 s until the first line, then 0.75 s a step, and 2.25 s before the fifth line."""
    clocks = [9.0 + 0.75 * at + (1.5 if at > 3 else 0.0) for at in range(30)]
    log = read(tmp_path, "".join(line.format(at=at, clock=clock) + "\n" for at, clock in enumerate(clocks)))
    assert log.steps["wall_ms"].tolist() == pytest.approx([2250.0 if at == 4 else 750.0 for at in range(1, 30)])
    assert log.step_time == "block"


def test_a_time_without_a_unit_that_does_not_rise_is_no_clock(tmp_path: Path) -> None:
    line = "Epoch: [ 0] [{at:4d}/ 99] time: {time:.4f}, loss: 1\n"
    log = read(tmp_path, "".join(line.format(at=at, time=0.3 + 0.1 * (at % 2)) for at in range(30)))
    assert log.steps["wall_ms"].tolist() == pytest.approx([300.0 + 100.0 * (at % 2) for at in range(30)])
    text = "".join(line.format(at=at, time=3.0 + at % 2) for at in range(30))
    path = tmp_path / "seconds.out"
    path.write_text(text)
    assert read_job_log(path).log is None


def test_lines_of_gnmt_are_meters_of_every_batch(tmp_path: Path) -> None:
    """``0: TRAIN [0][10/1938]  Time ..  Data 1.83e-04 (3.99e-02)``."""
    text = epoch(10).replace("Epoch: [0][", "0: TRAIN [0][").replace("[   0/", "[0/")
    log = read(tmp_path, text.replace("Data  3.000 ( 3.000)", "Data 3.00e+00 (3.00e+00)"))
    assert log.step_time == "unwound"
    assert log.steps["wall_ms"].iloc[0] == pytest.approx(4000.0)
    assert log.steps["data_wait_ms"].iloc[0] == pytest.approx(3000.0)
    assert step_line("0: VALIDATION [0][10/24]\tTime 0.100 (0.100)\tData 1.00e-04 (1.00e-04)") is None


def test_the_first_step_of_an_epoch_counts_once_where_means_are_over_the_last_twenty(tmp_path: Path) -> None:
    """MetricLogger's line of step 10 is a mean of steps 0 to 10, of which step 0 waits 3.5 s for the loader."""
    waits = [3.5, *[0.01] * 60]
    lines = [
        f"Epoch: [{number}/9]  [{at:4d}/61]  eta: 1:46:21  loss: 7.1  time: {0.5 + float(np.mean(own)):.6f}"
        f"  data: {float(np.mean(own)):.6f}  max mem: 11482\n"
        for number in range(3)
        for at in range(0, 61, 10)
        for own in [waits[max(at - 19, 0) : at + 1]]
    ]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "window"
    assert log.steps["data_wait_ms"].tolist() == pytest.approx(3 * [3500.0, *[10.0] * 6], abs=0.01)
    assert log.steps["span"].tolist()[7:14] == [1, *[10] * 6]
    waited = float((log.steps["data_wait_ms"] * log.steps["span"]).sum())
    assert waited == pytest.approx(3e3 * sum(waits), rel=1e-3)

"""Lines that state the time of a whole epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.grammars.epoch_times import epoch_time
from tools.sources.job_log.recognise import is_job_log


@pytest.mark.parametrize(
    ("text", "wall_ms", "epoch"),
    [
        ("Epoch time: 8123.25 ms", 8123.25, None),
        ("Epoch 4 time: 12.5 s", 12_500.0, 4),
        ("epoch [3/90] took 95.5 sec", 95_500.0, 3),
        ("epoch_time=3.25s", 3250.0, None),
        ("26-11-23 10:00:00.001 - INFO: End of epoch 7 / 200 \t Time Taken: 6.5 sec", 6500.0, 7),
        ("Part 3, Epoch Time(s): 8.5, sample+data_copy: 2.5, forward: 2.0", 8500.0, None),
        ("30/30 [==============================] - 45s - loss: 1.5 - acc: 0.5", 45_000.0, None),
        (" 10/30 [=========>....................] - ETA: 1:40 - loss: 1.5", 150_000.0, None),
        ("END epoch:3   train loss_avg: 2.5 avg_batch_cost: 2.8 sec, batch_cost_sum: 175.25 sec,", 175_250.0, 3),
        ("END epoch:3   val loss_avg: 2.5 avg_batch_cost: 2.8 sec, batch_cost_sum: 42.5 sec,", None, None),
        ("Average epoch time: 5.0 s", None, None),
        ("validation epoch time: 5.0 s", None, None),
        ("Epoch:[1/2](100/900) loss:3.1 lr:0.0004 epoch_Time:12.0min:", None, None),
        ("   Epoch 4 time: 12.5 s", 12_500.0, 4),
        ("INFO epoch 3 took 12 s", 12_000.0, 3),
        ("loss 0.5 acc 0.9 epoch_time=3.25s", 3250.0, None),
        ("Finished epoch 3 took 12 s", 12_000.0, 3),
        ("[trainer] training epoch 3 took 1 min 31 s", 91_000.0, 3),
        ("Epoch 3 took 2 min, 12 s per step", 120_000.0, 3),
        ("Saving epoch 3 took 12 s", None, None),
        ("Saving: epoch 3 took 12 s", None, None),
        ("Loading epoch 3 took 12 s", None, None),
        ("Shuffle for epoch 3 took 12 s", None, None),
        ("Inference epoch time: 12 s", None, None),
        ("Best epoch time: 12 s", None, None),
        ("Writing the results of epoch 3 took 12 s", None, None),
        ("Epoch:[1/2](100/900), loss: 3.1, lr: 0.0004, epoch_time: 12.0min", None, None),
        ("Epoch time: 5.06", None, None),
        ("30/30 [==============================] - 45s - ETA", 45_000.0, None),
        ("40/30 [==============================] - 45s - loss: 1.5", None, None),
        ("10/30 [==========>...................] - 45s - loss: 1.5", None, None),
    ],
)
def test_the_time_of_an_epoch_is_that_of_its_line(text: str, wall_ms: float | None, epoch: int | None) -> None:
    found = epoch_time(text)
    assert (found and found.wall_ms, found and found.epoch) == (wall_ms and pytest.approx(wall_ms), epoch)


def test_parts_of_an_epoch_are_of_the_rank_that_the_line_names(tmp_path: Path) -> None:
    line = "Part 3, Epoch Time(s): 8.5, sample+data_copy: 2.5, forward: 2.0, #seeds: 12, #inputs: 34\n"
    (found,) = read(tmp_path, line).epoch_times
    assert (found.rank, found.line) == (3, 1)
    assert found.parts == (("sample+data_copy", 2500.0), ("forward", 2000.0))


def test_of_a_bar_that_counts_on_the_last_update_stays(tmp_path: Path) -> None:
    """Ten of forty items: 90 s for the other thirty are 120 s; at the end 130 s; then a second epoch at its half."""
    text = " 5/40 [===>....] - ETA: 70s - loss: 1.0\r10/40 [=====>..] - ETA: 90s - loss: 1.0\n"
    (expected,) = read(tmp_path, text).epoch_times
    assert (expected.wall_ms, expected.items, expected.expected) == (120_000.0, 40, True)
    ended = text + "40/40 [========] - 130s - loss: 1.0\nEpoch 2/9\n20/40 [====>...] - ETA: 50s - loss: 1.0\n"
    assert [each.wall_ms for each in read(tmp_path, ended).epoch_times] == [130_000.0, 100_000.0]


def test_lines_of_epochs_make_a_job_s_output_and_one_sentence_does_not(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("In our test an epoch took 12 s.\n")
    assert not is_job_log(path)
    path.write_text("Epoch time: 8.0 s\nloss 1\nEpoch time: 8.1 s\n")
    assert is_job_log(path)
    path.write_text("Epoch 1/9\n40/40 [========] - 130s - loss: 1.0\n")
    assert is_job_log(path)

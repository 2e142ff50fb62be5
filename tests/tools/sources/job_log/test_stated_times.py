"""Times that lines state against the time stamps of these lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.reader import read_job_log


def paddle(costs: Sequence[float], between_s: float, gap: int = 10) -> str:
    """Lines every ``gap`` steps, so many seconds apart, with a batch cost and a reader cost of nine tenths of it."""
    text = ""
    for at, cost in enumerate(costs, start=1):
        second = 30 + between_s * (at - 1)
        stamp = f"2021/03/04 10:{int(second // 60):02d}:{second % 60:02.0f}"
        text += f"[{stamp}] root INFO: epoch: [1/9], iter: {gap * at}, lr: 0.1, loss: 0.7, "
        text += f"reader_cost: {0.9 * cost:.5f} s, batch_cost: {cost:.5f} s, samples: 640, ips: 64.0\n"
    return text


def test_times_longer_than_the_stamps_allow_are_of_all_steps_since_the_line_before(tmp_path: Path) -> None:
    """4 s are stated every 5 s: no 10 steps of 4 s, but 10 of 400 ms, 360 of them waiting."""
    log = read(tmp_path, paddle([4.0] * 6, 5.0))
    assert log.step_time == "block"
    assert log.steps["wall_ms"].tolist() == pytest.approx([400.0] * 6)
    assert log.steps["data_wait_ms"].tolist() == pytest.approx([360.0] * 6)
    assert any("of all 10 steps" in note for note in read_job_log(tmp_path / "job.out").notes)


def test_times_that_the_stamps_allow_stay_as_they_are(tmp_path: Path) -> None:
    log = read(tmp_path, paddle([0.4] * 6, 5.0))
    assert log.step_time == "mean"
    assert log.steps["wall_ms"].tolist() == pytest.approx([400.0] * 6)


def test_stamps_of_an_output_written_in_bursts_refute_nothing(tmp_path: Path) -> None:
    lines = paddle([4.0] * 6, 40.0).splitlines(keepends=True)
    burst = lines[0][:21]  # the first four lines are flushed at once
    text = "".join(burst + line[21:] for line in lines[:4]) + "".join(lines[4:])
    assert read(tmp_path, text).steps["wall_ms"].tolist() == pytest.approx([4000.0] * 6)


def test_lines_that_a_buffer_holds_back_do_not_divide_their_times_by_the_steps_between(tmp_path: Path) -> None:
    """Ten lines at one moment and one 40 s later: 40 s over 100 steps, as if each 4 s were of ten steps."""
    lines = paddle([4.0] * 11, 40.0).splitlines(keepends=True)
    first, second = lines[0][:21], lines[1][:21]
    text = "".join(first + line[21:] for line in lines[:10]) + second + lines[10][21:]
    log = read(tmp_path, text)
    assert log.step_time == "mean"
    assert log.steps["wall_ms"].tolist() == pytest.approx([4000.0] * 11)


def unknown(between_s: Sequence[float], stated_s: float) -> str:
    """Lines of an unknown program every ten steps."""
    text, at = "", 0.0
    for place, passed in enumerate(between_s):
        at += passed
        text += f"2021-03-04 10:20:{at:09.6f}: step {2000 + 10 * place}, loss = 1.5 ({stated_s:.3f} sec/batch)\n"
    return text


def test_the_time_of_an_unknown_program_that_every_stamp_exceeds_is_not_that_of_a_step(tmp_path: Path) -> None:
    """10 steps in 1.6 s are 160 ms each; the 80 ms of a line are those of a part, or of one device of two."""
    log = read(tmp_path, unknown([1.0, *[1.6] * 6], 0.08))
    assert log.step_time == "stamps"
    assert log.steps["wall_ms"].tolist() == pytest.approx([160.0] * 6)
    assert any("80 ms" in note and "160 ms" in note for note in read_job_log(tmp_path / "job.out").notes)


def test_one_pause_between_lines_does_not_refute_their_times(tmp_path: Path) -> None:
    log = read(tmp_path, unknown([1.0, 1.6, 1.6, 1.6, 20.0, 1.6, 1.6], 0.155))
    assert log.step_time == "unstated"
    assert log.steps["wall_ms"].tolist() == pytest.approx([155.0] * 7)


def test_running_means_that_the_stamps_refute_give_way_to_them(tmp_path: Path) -> None:
    """Five steps within 3 s and one after 57 s: 60 s of 6 steps, while the means of the lines are near 2 s."""
    seconds, text = (10, 10, 11, 12, 69, 70, 70), ""
    for at, second in enumerate(seconds):
        clock = f"10-24 21:{20 + second // 60:02d}:{second % 60:02d}"
        text += f"{clock} Epoch 1/7 itr {50 + at}/999: lr: 0.1 speed: 2.{40 - at}(0.50s r1.90)s/itr loss: 1\n"
    log = read(tmp_path, text)
    assert log.step_time == "stamps"
    assert float((log.steps["wall_ms"] * log.steps["span"]).sum()) == pytest.approx(60_000.0)
    assert int(log.steps["span"].sum()) == 6
    assert log.steps.set_index("step")["wall_ms"].to_dict()[54] == pytest.approx(57_000.0)
    assert log.steps["data_wait_ms"].isna().all()


def test_an_epoch_of_keras_is_read_by_its_seconds_where_its_rate_is_rounded(tmp_path: Path) -> None:
    text = "".join(
        f"500/500 [====] - {took}s {shown} - loss: 1.0\n" for took, shown in ((740, "1s/step"), (690, "1s/step"))
    )
    assert read(tmp_path, text).steps["wall_ms"].tolist() == [1480.0, 1380.0]
    text = "".join(f"100/100 [====] - 35s {shown}ms/step - loss: 1.0\n" for shown in (351, 348))
    assert read(tmp_path, text).steps["wall_ms"].tolist() == [351.0, 348.0]


def epochs(length: str) -> str:
    """Three epochs with a line every 100 steps up to 400."""
    return "".join(
        f"epoch: {epoch}, iter: {step}{length}, batch_cost: 0.5 s\n"
        for epoch in range(3)
        for step in (100, 200, 300, 400)
    )


def test_epochs_without_a_stated_length_are_known_as_such(tmp_path: Path) -> None:
    known, unstated = read(tmp_path, epochs("/430")), read(tmp_path, epochs(""))
    assert known.epochs is not None
    assert unstated.epochs is not None
    assert (known.epochs.first, known.epochs.count, known.epochs.length_stated) == (0, 3, True)
    assert known.steps["step"].tolist()[4:9] == [530, 630, 730, 830, 960]  # 430 and 860 steps before
    assert (unstated.epochs.count, unstated.epochs.length_stated) == (3, False)


def test_every_printed_step_counts_the_steps_of_an_epoch(tmp_path: Path) -> None:
    text = "".join(f"epoch: {epoch}, iter: {step}, batch_cost: 0.5 s\n" for epoch in range(2) for step in range(5))
    log = read(tmp_path, text)
    assert log.epochs is not None
    assert log.epochs.length_stated
    assert log.steps["step"].tolist() == list(range(10))

"""The series of a whole log: ranks, restarts, intervals, units, stamps, encodings."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron, read
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import is_job_log


def test_stamps_of_counted_lines_give_the_time_of_a_step(tmp_path: Path) -> None:
    text = "".join(
        f"I0102 10:00:{6 * at:02d}.250000 14 train.py:9] [Train {10 * at}/900] {{'loss': 0.5}}\n" for at in range(9)
    )
    log = read(tmp_path, text)
    assert log.step_time == "stamps"
    assert log.steps["wall_ms"].tolist() == pytest.approx([600.0] * 8)


def test_a_line_with_the_time_of_a_step_completes_the_line_before(tmp_path: Path) -> None:
    """Two lines a step: the loss, and then the time."""
    lines = [
        f"2026-01-01 10:00:{at:02d},000 [INFO] Epoch 1/9, Step {10 * at}/900, loss: 2.5\n"
        f"2026-01-01 10:00:{at:02d},002 [INFO] Epoch 1/9, Step {10 * at}/900, step time: {80 + at}.50 ms\n"
        for at in range(1, 9)
    ]
    log = read(tmp_path, "".join(lines))
    assert log.steps["wall_ms"].tolist() == [80.5 + at for at in range(1, 9)]
    assert log.steps["line"].tolist() == list(range(2, 17, 2))


def test_each_figure_names_its_line(tmp_path: Path) -> None:
    text = "start\n\n" + megatron((10, 200.0)) + "time (ms) | forward: 12.5 | backward: 30\n" + megatron((20, 100.0))
    log = read(tmp_path, text)
    assert log.steps[["step", "wall_ms", "span", "line"]].to_numpy().tolist() == [[10, 200, 10, 3], [20, 100, 10, 5]]
    assert log.timers[["step", "name", "min_ms", "line"]].to_numpy().tolist() == [
        [10, "forward", 12.5, 4],
        [10, "backward", 30.0, 4],
    ]
    assert log.step_time == "mean"


def test_ranks_that_are_interleaved_and_torn_are_told_apart(tmp_path: Path) -> None:
    text = (
        "[rank0] it 10 loss 4.811 59.9 ms/it[rank1] it 10 loss 4.808 62.6 ms/it\n\n"
        "[rank1] it 20 loss 4.710 52.2 ms/it\n[rank0] it 20 loss 4.703 51.2 ms/it\n"
    )
    steps = read(tmp_path, text).steps
    assert steps[["rank", "step", "wall_ms", "line"]].to_numpy().tolist() == [
        [0, 10, 59.9, 1],
        [0, 20, 51.2, 4],
        [1, 10, 62.6, 1],
        [1, 20, 52.2, 3],
    ]


def test_a_restart_is_not_joined_to_what_was_before(tmp_path: Path) -> None:
    first = megatron(*((step, 100.0 + step) for step in range(1, 8)))
    again = "".join(f"loading part {number}\n" for number in range(300))
    path = tmp_path / "job.out"
    path.write_text(first + again + megatron(*((step, 200.0 + step) for step in range(5, 25))))
    found = read_job_log(path)
    assert found.log is not None
    assert found.log.steps["step"].tolist() == list(range(5, 25))
    assert found.log.steps["wall_ms"].min() == 205.0
    assert any("falls at 1 place:" in note and "from line 308" in note for note in found.notes)


def test_lines_that_several_processes_print_count_once(tmp_path: Path) -> None:
    text = "".join(megatron((step, 50.0)) * 4 for step in range(1, 6))
    assert read(tmp_path, text).steps["step"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("values", "expected"), [((0.25, 0.17, 0.16), [250.0, 170.0, 160.0]), ((25e3, 17e3, 16e3), None)]
)
def test_a_time_without_a_unit_is_read_by_its_size(
    tmp_path: Path, values: tuple[float, ...], expected: list[float] | None
) -> None:
    text = "".join(f"{{'loss': 0.5, 'step': {step}, 'step_time': {value}}}\n" for step, value in enumerate(values))
    assert read(tmp_path, text).steps["wall_ms"].tolist() == (list(values) if expected is None else expected)


def test_a_time_without_a_unit_that_could_be_either_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("".join(f"{{'step': {step}, 'step_time': {4.5 + step}}}\n" for step in range(9)))
    found = read_job_log(path)
    assert found.log is None
    assert any("no unit" in note for note in found.notes) or not found.notes


def test_a_clock_that_runs_from_the_start_gives_differences(tmp_path: Path) -> None:
    text = "".join(f"step {step} loss 1.0 time {10.0 + 0.5 * step}s\n" for step in range(0, 100, 10))
    steps = read(tmp_path, text).steps
    assert steps["wall_ms"].tolist() == pytest.approx([500.0] * 9)


def test_stamps_give_the_time_where_the_lines_state_none(tmp_path: Path) -> None:
    stamps = [f"2024-08-19 11:10:{second:02d},{ms:03d}" for second, ms in ((0, 0), (2, 500), (5, 0), (7, 500))]
    text = "".join(
        f"[rank0]:[titan] {stamp} - root - INFO - step: {10 * at:2d}  loss: 12.1951  tps: 111,770\n"
        for at, stamp in enumerate(stamps, start=1)
    )
    log = read(tmp_path, text)
    assert log.step_time == "stamps"
    assert log.steps[["step", "span", "wall_ms"]].to_numpy().tolist() == [[20, 10, 250], [30, 10, 250], [40, 10, 250]]


def test_a_long_bar_is_read_by_its_clock_and_another_bar_is_no_training(tmp_path: Path) -> None:
    bar = "".join(f"\r {at}%| | {at}/4 [{at * 110 // 60:02d}:{at * 110 % 60:02d}<00:00, 99.0s/it]" for at in range(5))
    evaluation = "".join(f"\rEvaluating: {at}%| | {at}/900 [{at:02d}:00<00:00, 60.0s/it]" for at in range(50))
    log = read(tmp_path, f"start\n{bar}\n{evaluation}\n")
    assert log.steps["wall_ms"].tolist() == [110_000.0] * 4
    assert log.steps["line"].tolist() == [2] * 4


def test_steps_between_long_messages_make_an_output(tmp_path: Path) -> None:
    noise = "W loader: a sample was skipped because its file is empty\n" * 9000
    steps = "".join(f"step {step} loss 1.0 time 100 ms\n" for step in range(20))
    path = tmp_path / "job.out"
    path.write_text(noise + steps + noise)
    assert is_job_log(path)
    path.write_text(noise + noise)
    assert not is_job_log(path)


def test_two_bytes_like_a_mark_of_utf_16_do_not_hide_a_text(tmp_path: Path) -> None:
    text = "".join(f"step {step} time 100 ms\n" for step in range(20)).encode()
    assert len(read(tmp_path, b"\xfe\xff" + text).steps) >= 19


@pytest.mark.parametrize("kind", ["plain", "crlf", "utf-16", "gzip", "utf-8 mark", "no last line end"])
def test_encodings_and_line_ends_do_not_matter(tmp_path: Path, kind: str) -> None:
    text = "first\n" + megatron((1, 100.0), (2, 110.0))
    coded = {
        "plain": text.encode(),
        "crlf": text.replace("\n", "\r\n").encode(),
        "utf-16": text.encode("utf-16"),
        "gzip": gzip.compress(text.encode()),
        "utf-8 mark": text.encode("utf-8-sig"),
        "no last line end": text.rstrip("\n").encode(),
    }
    steps = read(tmp_path, coded[kind]).steps
    assert steps[["step", "wall_ms", "line"]].to_numpy().tolist() == [[1, 100, 2], [2, 110, 3]]


def test_a_line_without_end_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    text = megatron((1, 100.0)).encode() + b"x" * (9 << 20) + b"\n" + megatron((2, 110.0)).encode()
    assert read(tmp_path, text).steps["line"].tolist() == [1, 3]


def test_binary_content_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(bytes(range(50)) * 64 + megatron((1, 1.0), (2, 1.0)).encode())
    assert read_job_log(path).log is None


def test_epochs_that_count_from_their_own_start_are_joined(tmp_path: Path) -> None:
    text = "".join(f"Epoch [{epoch}/3] Step [{step}] loss: 1 (0.5 s/it)\n" for epoch in (1, 2) for step in (10, 20, 30))
    assert read(tmp_path, text).steps["step"].tolist() == [10, 20, 30, 40, 50, 60]


def test_epochs_are_as_long_as_their_steps_say_also_where_both_numbers_are_the_same(tmp_path: Path) -> None:
    """Twelve epochs of twelve steps, of which every fifth is printed: the last line is of step 11 * 12 + 10."""
    places = [(epoch, step) for epoch in range(1, 13) for step in (5, 10)]
    log = read(tmp_path, "".join(f"Epoch [{epoch}/90] Iter [{step}/12] time 110 ms\n" for epoch, step in places))
    assert log.steps["step"].tolist() == [12 * (epoch - 1) + step for epoch, step in places]


def test_a_bar_of_an_evaluation_between_does_not_break_that_of_the_training(tmp_path: Path) -> None:
    """Trainers draw both without a name; the training's clock runs on."""
    steps = [f"{at}/8 [{at * 30 // 60:02d}:{at * 30 % 60:02d}<00:00, 30.0s/it]" for at in range(9)]
    training = [f" {at}%| | {each}" for at, each in enumerate(steps)]
    evaluation = [f" {at}%| | {at}/5 [00:{at:02d}<00:00, 1.0s/it]" for at in range(6)]
    log = read(tmp_path, "\n".join([*training[:5], *evaluation, *training[5:], *evaluation]) + "\n")
    assert log.steps["step"].tolist() == list(range(1, 9))
    assert log.steps["wall_ms"].tolist() == [30_000.0] * 8


def test_a_bar_behind_which_text_is_generated_is_no_training(tmp_path: Path) -> None:
    said = "Setting `pad_token_id` to `eos_token_id`:128001 for open-end generation."
    path = tmp_path / "output.log"
    bars = (f" {at}%|#| {at}/50 [0{at * 2 // 60}:{at * 2 % 60:02d}<00:34,  2.13s/it]{said}" for at in range(50))
    path.write_text("\n".join(bars))
    found = read_job_log(path).log
    assert found is None or found.steps.empty


def test_a_short_view_of_a_long_bar_is_read_from_its_start_and_not_by_its_smoothed_rate(tmp_path: Path) -> None:
    """After 10,000 s 400 steps are done, the 401st took 26 s; smoothed, that is near the mean."""
    text = "".join(f" 5%|# | {at}/8000 [{clock}<50:00:00, 25.4s/it]\n" for at, clock in SHORT_VIEW)
    log = read(tmp_path, text)
    assert log.step_time == "bar"
    assert log.steps[["span", "wall_ms"]].to_numpy().tolist() == [[400, 25_000.0], [1, 26_000.0]]


SHORT_VIEW = ((400, "2:46:40"), (401, "2:47:06"))


def test_a_bar_that_goes_on_from_a_checkpoint_counts_no_steps_before_it(tmp_path: Path) -> None:
    text = " 50%|# | 4000/8000 [00:50<50:00:00, 25.0s/it]\n 50%|# | 4001/8000 [01:16<50:00:00, 25.3s/it]\n"
    assert read(tmp_path, text + text.replace("4000", "4002").replace("4001", "4003")).steps["span"].max() == 1


def test_bars_of_two_processes_at_other_steps_after_the_same_time_are_named(tmp_path: Path) -> None:
    ahead = " 5%|# | 405/8000 [2:46:40<50:00:00, 24.6s/it]\n"
    text = "".join(f" 5%|# | {at}/8000 [{clock}<50:00:00, 25.0s/it]\n" for at, clock in SHORT_VIEW)
    assert read(tmp_path, ahead + text).bars_apart == ()  # the one ahead does not move on: the job may have restarted
    text += " 5%|# | 406/8000 [2:47:06<50:00:00, 24.6s/it]\n 5%|# | 402/8000 [2:47:06<50:00:00, 25.0s/it]\n"
    (found,) = read(tmp_path, ahead + text).bars_apart
    assert (found.ahead, found.ahead_line, found.behind, found.behind_line) == (405, 1, 400, 2)
    near = ahead.replace("405", "401")  # ranks of one job print a step one after the other
    assert read(tmp_path, near + text).bars_apart == ()


def test_bars_of_several_runs_with_one_update_each_are_stated_each_and_not_averaged(tmp_path: Path) -> None:
    text = "batch 4:\nSteps:  0%|# | 20/9000 [20:00<99:00:00, 58.0s/it]\n"
    text += "batch 1:\nSteps:  0%|# | 10/9000 [05:00<99:00:00, 35.0s/it]\n"  # it may have begun at the 2nd step
    log = read(tmp_path, text)
    assert log.steps.empty
    shown = [(each.steps, each.step_ms, each.line, each.smoothed) for each in log.bars]
    assert shown == [(20, 60_000.0, 2, False), (10, 35_000.0, 4, True)]


def test_the_first_step_of_a_bar_keeps_the_digits_of_its_rate(tmp_path: Path) -> None:
    text = "Steps:  0%| | 0/3000 [00:00<?, ?it/s]\nSteps:  0%| | 1/3000 [04:26<221:54:49, 266.39s/it]\n"
    assert read(tmp_path, text).steps["wall_ms"].tolist() == [266_390.0]


def test_a_clock_since_the_start_says_nothing_of_the_steps_between_two_epochs(tmp_path: Path) -> None:
    """Steps of 0.25 s, printed every 20, and 30 s between the last line of an epoch and the first of the next."""
    lines = (
        f"Epoch {epoch}, Step {step}, total used time {15.0 + 45.0 * epoch + 0.25 * step:.4f} (s), avg loss 0.5\n"
        for epoch in range(4)
        for step in (20, 40, 60, 80)
    )
    log = read(tmp_path, "".join(lines))
    assert log.steps["wall_ms"].tolist() == pytest.approx([250.0] * 12)


def test_epochs_of_a_job_that_begins_again_are_counted_from_its_start(tmp_path: Path) -> None:
    """Epochs of 45 steps: two of them, then three after another start."""
    text = "".join(
        f"2026-01-01 10:00:00 | INFO | trainer:1 - epoch: {epoch}/300, iter: {step}/45, mem: 9Mb, iter_time: 0.100s, "
        "data_time: 0.010s, total_loss: 5.1, lr: 1e-3\n"
        for epoch in (1, 2, 1, 2, 3)
        for step in (10, 20, 30, 40)
    )
    log = read(tmp_path, text)
    assert log.steps["step"].tolist() == [*range(10, 50, 10), *range(55, 95, 10), *range(100, 140, 10)]
    assert log.restarts == ()


def test_the_first_step_of_each_epoch_stands_for_no_other_step(tmp_path: Path) -> None:
    """A reader starts in the first step of each epoch: 5 s; the printed one of a hundred others takes 1 s."""
    text = "".join(
        f"[02/03 10:{epoch:02d}:{step // 10:02d}] epoch:[ {epoch:2d}/25 ] train step:{step}    loss: 4.5 "
        f"batch_cost: {wall:.5f} sec, reader_cost: {wall / 2:.5f} sec, ips: 8.6 instance/sec.\n"
        f"[02/03 10:{epoch:02d}:30] epoch:[ {epoch:2d}/25 ] val step:{step}    loss: 4.5 batch_cost: 9.0 sec\n"
        for epoch in range(1, 7)
        for step, wall in ((0, 5.0), (100, 1.0))
    )
    log = read(tmp_path, text)
    assert log.step_time == "step"
    assert log.steps["wall_ms"].tolist() == [1000.0] * 6
    assert log.steps["data_wait_ms"].tolist() == [500.0] * 6


def test_the_longest_of_several_starts_is_that_of_the_most_steps(tmp_path: Path) -> None:
    """A try that printed every step has more lines than a training that printed one of 100."""
    tried = "".join(f"step {step} step_time: 90 ms\n" for step in range(1, 201))
    between = "loading\n" * 300
    trained = "".join(f"step {step} step_time: 400 ms\n" for step in range(100, 4100, 100))
    assert read(tmp_path, tried + between + trained).steps["wall_ms"].tolist() == [400.0] * 40
    few = "".join(f"step {step} step_time: 400 ms\n" for step in range(1000, 4000, 1000))
    assert read(tmp_path, few + between + tried).steps["wall_ms"].tolist() == [90.0] * 200


@pytest.mark.parametrize(
    "head",
    [
        "Start training, Total Iterations 20000",
        "  Total optimization steps = 20000",
        "max steps: 20000, warmup steps: 100",
    ],
)
def test_how_many_steps_there_are_is_no_step(tmp_path: Path, head: str) -> None:
    lines = [f"2023-10-02 23:08:{at:02d},000 INFO: Iters: {10 * at}/20000 || Loss: 3.2\n" for at in range(2, 40)]
    path = tmp_path / "job.out"
    path.write_text(f"2023-10-02 23:08:01,000 INFO: {head}\n" + "".join(lines))
    found = read_job_log(path)
    assert found.log is not None
    assert found.log.steps["step"].tolist() == [10 * at for at in range(3, 40)]
    assert not any("falls" in note for note in found.notes)


@pytest.mark.parametrize("line", ["warmup step 3 took 40 ms", "time for step 3: 40 ms", "Total time of step 3: 40 ms"])
def test_words_before_a_step_do_not_make_it_a_total(line: str) -> None:
    found = step_line(line)
    assert found is not None
    assert (found.step, found.wall_ms) == (3, 40.0)

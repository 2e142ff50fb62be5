"""Progress bars: resumed ones, epochs, several processes, and lines of other text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.analyzers.steps.output_warnings import evaluation_times, single_line
from tools.sources.job_log.bar_lines import bar_point
from tools.sources.job_log.reader import read_job_log
from tools.sources.load import load_run
from tools.views.profile import Profile

PLAIN_SEARCH = re.compile(r"\d{1,15}/\d{1,15}")
LINE_CHARS = 1 << 16
TIMES_A_PLAIN_SEARCH = 60  # a search from each name took over 800 times as long


def bar(done: int, total: int, elapsed_s: int, rate: str) -> str:
    clock = f"{elapsed_s // 60:02d}:{elapsed_s % 60:02d}"
    return f"Training: {100 * done // total:3d}%|###  | {done}/{total} [{clock}<9:00, {rate}]\n"


@pytest.mark.parametrize("repeated", ["1", " ", "word ", "1%|", " ━", "1/1 ["])
def test_a_long_line_takes_time_like_a_plain_search_through_digits(repeated: str) -> None:
    line = (repeated * LINE_CHARS)[:LINE_CHARS] + " it/s"
    plain_s = _least_s(lambda: PLAIN_SEARCH.search("1" * LINE_CHARS))
    assert bar_point(line) is None
    assert _least_s(lambda: bar_point(line)) <= TIMES_A_PLAIN_SEARCH * plain_s


def _least_s(done: Callable[[], object]) -> float:
    took = []
    for _ in range(3):
        began = time.perf_counter()
        done()
        took.append(time.perf_counter() - began)
    return min(took)


def test_a_bar_behind_long_text_keeps_its_name() -> None:
    found = bar_point("word " * 200 + "| Train epoch 3:  50%|##  | 5/10 [00:10<00:10, 2.00s/it]")
    assert found is not None
    assert (found.name, found.done, found.total, found.elapsed_s, found.step_ms) == ("Train epoch 3:", 5, 10, 10.0, 2e3)


def test_a_bar_that_was_resumed_early_is_stated_by_differences(tmp_path: Path) -> None:
    """Resumed at step 60 with steps of 400 ms: from the start it would be 345 ms."""
    text = "".join(bar(at, 2000, (at - 60) * 2 // 5, "2.50it/s") for at in range(360, 471, 5))
    log = read(tmp_path, text)
    assert log.step_time == "bar"
    assert log.steps["wall_ms"].tolist() == pytest.approx([400.0] * len(log.steps))
    assert len(log.steps) == 2


def test_a_single_update_of_a_bar_that_may_be_resumed_is_stated_by_its_rate(tmp_path: Path) -> None:
    log = read(tmp_path, bar(150, 2000, 48, "2.50it/s"))  # resumed at step 30
    assert (log.step_time, log.steps["wall_ms"].tolist()) == ("smoothed", [400.0])
    whole = read(tmp_path, bar(150, 2000, 60, "2.50it/s"))
    assert (whole.step_time, whole.steps["wall_ms"].tolist()) == ("bar", [400.0])


def test_the_first_step_of_a_bar_is_a_step_of_its_own(tmp_path: Path) -> None:
    """Its time is what the bar shows after one step; the next update is ten steps later."""
    text = bar(1, 300, 25, "25.72s/it") + "".join(
        bar(1 + 10 * at, 300, 25 + 120 * at, "12.00s/it") for at in range(1, 8)
    )
    log = read(tmp_path, text)
    assert log.steps["step"].tolist()[:2] == [1, 11]
    assert log.steps["wall_ms"].tolist() == pytest.approx([25_720.0] + [12_000.0] * 7)


def test_steps_of_a_checkpoint_that_a_bar_counts_at_once_take_no_time(tmp_path: Path) -> None:
    """HF Trainer draws 0 steps first and then the checkpoint's and one more."""
    text = bar(0, 900, 0, "?it/s") + "".join(bar(500 + at, 900, 3 * at, "3.00s/it") for at in range(1, 60))
    log = read(tmp_path, text)
    assert log.step_time == "bar"
    assert log.steps["wall_ms"].tolist() == pytest.approx([3000.0] * len(log.steps))


def test_epochs_of_one_process_are_one_series_and_not_two_processes(tmp_path: Path) -> None:
    epochs = [bar(at, 80, at // 5, "5.00it/s") for at in range(10, 81, 10)]
    epochs += [bar(at, 80, at * 2, "2.00s/it") for at in range(10, 81, 10)]
    log = read(tmp_path, "".join(epochs))
    assert log.bars_apart == ()
    assert log.steps["step"].iloc[-1] == 160
    assert (log.steps["wall_ms"] * log.steps["span"]).sum() == pytest.approx(1e3 * (16.5 + 160))


def test_an_epoch_whose_first_update_shows_the_time_of_the_one_before_is_no_other_process(tmp_path: Path) -> None:
    epochs = [bar(at, 80, at // 4, "4.00it/s") for at in range(10, 81, 10)]
    epochs += [bar(at, 80, at * 2, "2.00s/it") for at in range(10, 81, 10)]  # 10 steps after 20 s as well
    assert read(tmp_path, "".join(epochs)).bars_apart == ()


def test_a_bar_that_another_process_draws_too_counts_its_steps_once(tmp_path: Path) -> None:
    drawn = bar(0, 8, 0, "?it/s") + "".join(bar(at, 8, 110 * at, "110.00s/it") for at in range(1, 9))
    log = read(tmp_path, drawn * 4)
    assert log.steps["wall_ms"].tolist() == [110_000.0] * 8


def test_bars_of_processes_at_different_steps_give_no_time_between_their_updates(tmp_path: Path) -> None:
    """Each process takes 20 s for a step, and one is 6 steps ahead: 401 to 407 in 20 s is of neither."""
    text = "".join(bar(at + 6, 9000, 20 * at, "20.0s/it") + bar(at, 9000, 20 * at, "20.0s/it") for at in range(80, 90))
    log = read(tmp_path, text)
    assert len(log.bars_apart) == 1
    assert set(log.steps["wall_ms"]) == {20_000.0}


def test_steps_behind_a_long_first_one_are_steps_of_their_own(tmp_path: Path) -> None:
    text = bar(1, 4000, 23, "23.4s/it") + bar(2, 4000, 27, "12.1s/it") + bar(3, 4000, 35, "9.9s/it")
    log = read(tmp_path, text)
    assert log.steps[["step", "span", "wall_ms"]].to_numpy().tolist() == [[1, 1, 23_400.0], [3, 2, 6_000.0]]


def test_a_first_step_alone_is_said_to_be_one(tmp_path: Path) -> None:
    text = bar(1, 4000, 23, "23.4s/it") + bar(2, 4000, 27, "12.1s/it")
    (tmp_path / "job.out").write_text(text)
    profile = Profile(load_run([tmp_path / "job.out"]))
    log = profile.run.job_log
    assert log is not None
    (said,) = single_line(profile, log)
    assert said.template.startswith("The first step of a progress bar took {0} (line 1)")
    assert [fact.value for fact in said.facts] == [23_400.0]


def test_rates_of_all_processes_at_different_steps_are_used(tmp_path: Path) -> None:
    """Three processes within three steps of each other, none of which draws more than one update in a row."""
    shown = ((50, 150, 2.9), (47, 150, 3.2), (51, 153, 2.9), (48, 153, 3.2), (52, 156, 3.0), (49, 156, 3.1))
    log = read(tmp_path, "".join(bar(done, 900, at, f"{rate:.2f}s/it") for done, at, rate in shown))
    assert log.step_time == "smoothed"
    assert log.steps["step"].tolist() == [47, 48, 49, 50, 51, 52]
    assert log.steps["wall_ms"].sum() == pytest.approx(1e3 * sum(rate for *_, rate in shown))


def test_items_that_are_too_short_for_steps_are_none(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("".join(f"Epoch {at}: 100%|##| 80000/80000 [00:02<00:00, 36000.0it/s]\n" for at in range(3)))
    found = read_job_log(path)
    assert found.log is None
    assert any("too short for training steps" in note for note in found.notes)


def test_finished_bars_below_each_other_are_epochs_where_name_and_time_differ(tmp_path: Path) -> None:
    """Epochs of 100 steps in 200, 60 and 30 s; the last one is drawn twice."""
    drawn = (
        ("0", "3:20", "2.00s/it"),
        ("1", "1:00", "1.67it/s"),
        ("2", "00:30", "3.33it/s"),
        ("2", "00:30", "3.33it/s"),
    )
    text = "".join(f"Epoch {at}: 100%|####| 100/100 [{clock}<00:00, {rate}]\n" for at, clock, rate in drawn)
    assert read(tmp_path, text).steps["wall_ms"].tolist() == pytest.approx([2000.0, 600.0, 300.0], rel=0.005)


def test_bars_that_are_written_to_the_log_count_steps_with_three_digits(tmp_path: Path) -> None:
    """A line each ten seconds, steps of 2 s: which of the steps 1,205 to 1,214 ``1.21kit`` is, the change shows."""

    def shown(done: int) -> str:
        for scale, unit in ((1, ""), (1000, "k")):
            number = done / scale
            if number < 999.5:
                digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
                return f"{number:.{digits}f}{unit}it"
        raise AssertionError

    lines = [
        "05:14:50.351 [I] Progress on: -/200000 rate:- remaining:? elapsed:00:00 postfix:- (9:tqdm_logging.py:145)\n"
    ]
    for at in range(1, 2400):
        clock = f"{at // 6:02d}:{at % 6}0" if at < 360 else f"{at // 360}:{at // 6 % 60:02d}:{at % 6}0"
        lines.append(
            f"05:14:50.351 [I] Progress on: {shown(5 * at)}/200kit rate:2.0s/it remaining:99:00:00 elapsed:{clock} "
            "postfix:- (9:tqdm_logging.py:145)\n"
        )
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "bar"
    means = log.steps["wall_ms"].to_numpy()
    assert abs(means / 2000.0 - 1.0).max() <= 0.06
    whole = (log.steps["wall_ms"] * log.steps["span"]).sum() / log.steps["span"].sum()
    assert whole == pytest.approx(2000.0, rel=0.005)
    point = bar_point(
        "Progress on:Training:  10.1kbatch/20.0kbatch rate:4.0batch/s remaining:01:00 elapsed:42:05 postfix:-"
    )
    assert point is not None
    assert (point.done, point.total, point.elapsed_s, point.step_ms) == (10_050, 20_000, 2525.0, 250.0)


def test_finished_bars_of_epochs_are_all_counted_where_some_show_how_the_next_begins(tmp_path: Path) -> None:
    text = ""
    for epoch in range(10):
        text += f"epoch {epoch}\n" + "\n" * 3 + "100%|####| 6250/6250 [03:47<00:00, 27.42it/s]\n"
        text += f"  0%|    | {9 + epoch}/6250 [00:00<03:47, 27.37it/s]\n" if epoch in (1, 2, 6) else ""
        text += f"-- test accuracy 0.{70 + epoch}\n"
    steps = read(tmp_path, text).steps
    assert steps["step"].iloc[-1] == 62_500
    assert steps["span"].sum() == 62_500
    assert steps["wall_ms"].to_numpy() == pytest.approx(227e3 / 6250, rel=1e-6)


def epoch(seconds: float, total: int = 300, every: int = 1, name: str = "") -> str:
    """A bar as tqdm draws it: whole seconds, the rate of the last updates, and at the end once more the mean rate."""

    def drawn(done: int, rate: float) -> str:
        at = int(seconds * done / total)
        clock = f"{at // 60:02d}:{at % 60:02d}"
        shown = f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"
        return f"\r{name}{100 * done // total:3d}%|###  | {done}/{total} [{clock}<00:00, {shown}]"

    updates = [drawn(done, 1.19 * total / seconds) for done in range(every, total + 1, every)]
    return f"\r{name}  0%|     | 0/{total} [00:00<?, ?it/s]" + "".join(updates) + drawn(total, total / seconds) + "\n"


def test_epochs_of_the_same_pace_without_a_name_are_all_counted(tmp_path: Path) -> None:
    """Each shows its first step after the same second, as another process would."""
    times = [880.0 + 5 * (at % 7) for at in range(30)]
    log = read(tmp_path, "".join(f"{epoch(each)}loss 0.4\n" for each in times))
    assert log.steps["span"].sum() == log.steps["step"].iloc[-1] == 9000
    assert (log.steps["wall_ms"] * log.steps["span"]).sum() == pytest.approx(1e3 * sum(times))
    assert log.bar_total == 0
    below = read(tmp_path, "".join(epoch(880.0 + 5 * (at % 2)) for at in range(6)))
    assert below.steps["span"].sum() == 1800


def test_bars_with_the_same_seconds_throughout_are_named(tmp_path: Path) -> None:
    """Nothing stands between them: epochs of the same time, or the same one of several processes."""
    (tmp_path / "job.out").write_text(epoch(880.0) * 3)
    found = read_job_log(tmp_path / "job.out")
    assert found.log is not None
    assert found.log.steps["span"].sum() == 300
    assert found.log.bar_total == 0
    assert any("3 progress bars of 300 items show the same seconds" in note for note in found.notes)


def test_short_epochs_take_the_mean_that_their_ends_show(tmp_path: Path) -> None:
    """26 steps in 18.98 s: the clock shows 18 s, and the rate before the end is that of the last updates."""
    log = read(tmp_path, "".join(epoch(18.98, 26, name=f"Epoch {at}: ") for at in range(40)))
    assert log.steps["wall_ms"].tolist() == pytest.approx([730.0] * 40, rel=0.005)
    assert set(log.steps["span"]) == {26}
    assert log.rounding <= 0.005


def test_parts_of_a_bar_end_where_it_ends(tmp_path: Path) -> None:
    log = read(tmp_path, "".join(epoch(50.0, 100, name=f"Epoch {at}: ") for at in range(4)))
    assert {100, 200, 300, 400} <= set(log.steps["step"])
    assert (log.steps["wall_ms"] * log.steps["span"]).sum() == pytest.approx(200e3)
    assert log.rounding == pytest.approx(1 / 25, rel=0.3)


def test_an_evaluation_takes_what_the_end_of_its_bar_shows(tmp_path: Path) -> None:
    """The rate before the end is that of the last update."""
    text = "".join(epoch(60.0, 50, name=f"Epoch {at}: ") + epoch(2.7, 2, name="Validating: ") for at in range(5))
    assert [float(each.value) for each in read(tmp_path, text).evaluation_times] == pytest.approx([2.7] * 5, rel=0.01)
    profile = Profile(load_run([tmp_path / "job.out"]))
    assert profile.run.job_log is not None
    (said,) = evaluation_times(profile, profile.run.job_log)
    assert said.template.startswith("By their finished progress bars 5 evaluations took {0} in the median")


def test_a_bar_of_unknown_length_is_a_series_of_steps(tmp_path: Path) -> None:
    """13 s until the first step, then 25 a second; a second epoch that was stopped."""

    def shown(epoch: int, first_s: float, last: int) -> str:
        head = (
            f"Epoch {epoch}: 0it [00:00, ?it/s]\n" + f"Epoch {epoch}: 1it [00:{int(first_s):02d}, {first_s:.2f}s/it]\n"
        )
        updates = ((done, int(first_s + done / 25)) for done in range(4, last + 1, 4))
        drawn = (f"Epoch {epoch}: {done}it [{at // 60:02d}:{at % 60:02d}, 25.10it/s]\n" for done, at in updates)
        return head + "".join(drawn)

    log = read(tmp_path, shown(0, 13.1, 1000) + shown(1, 1.0, 340))
    assert log.step_time == "bar"
    assert log.steps["step"].tolist() == [1, 1000, 1340]
    assert log.steps["wall_ms"].tolist() == pytest.approx([13_100.0, 40.0, 41.0], rel=0.05)
    assert bar_point("Downloading shards: 5it [00:03, 1.50it/s]") is None

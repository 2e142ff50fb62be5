"""Answers about the length of the whole training, by what the lines of its output state."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.answers.test_job_output import STEADY, job, values
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.tools.analyzers.test_job_output import profile_of

WHOLE, LEFT = "How long will the training take in total?", "How long until it is done?"
D2 = (
    "[11/19 08:{:02d}:{:02d}] d2.utils.events INFO:  eta: 2:00:{:02d}  iter: {}  total_loss: 1.0  time: 0.5000  "
    "data_time: 0.0100\n"
)


def of_text(folder: Path, text: str) -> Discussion:
    return discuss(profile_of(folder, text))


def test_the_stated_time_of_a_training_that_ended_answers_both_questions(tmp_path: Path) -> None:
    steps = "".join(f"step {step} loss 1.0 time 500 ms\n" for step in range(1, 41))
    discussion = of_text(tmp_path, f"{steps}Training time 21:59:39\n")
    for question in (WHOLE, LEFT):
        text = reply(discussion, question).text
        assert text.startswith("By the job's output the whole training took 22.0 h")
        assert unsupported(text, discussion) == []
        assert values(discussion, question)["stated_runtime_s"] == 79_179.0


def test_of_an_output_with_another_training_the_sum_names_its_lines(tmp_path: Path) -> None:
    first = "".join(f"step {step} loss 1.0 time 500 ms\n" for step in range(1, 61))
    second = "".join(f"step {step} loss 3.0 time 500 ms\n" for step in range(1, 21))
    discussion = of_text(tmp_path, f"{first}Training time 0:01:00\n{second}")
    text = reply(discussion, WHOLE).text
    assert "a training took" in text
    assert "The steps of lines 1 to 60 take" in text
    assert "all printed lines" not in text
    assert unsupported(text, discussion) == []


def test_what_is_left_is_by_the_last_line_and_the_steps_of_the_training_are_counted(tmp_path: Path) -> None:
    lines = "".join(D2.format(at // 6, 10 * (at % 6), 59 - at, 20 * at - 1) for at in range(1, 41))
    discussion = of_text(tmp_path, f"  MAX_ITER: 2000\n{lines}")
    found = values(discussion, LEFT)
    assert found["run_left_s"] == 7219.0
    assert found["run_steps"] == 2000
    text = reply(discussion, LEFT).text
    assert "By line 41 (step 799), the last one with an estimate" in text
    assert "times the mean step they take 1000 s" in text
    assert "600 s" in text
    assert "are left after step 799" in text


def test_evaluations_are_in_step_times_that_are_differences_and_on_top_of_others(tmp_path: Path) -> None:
    stamped = "".join(
        f"2026-01-01 10:{at // 2:02d}:{30 * (at % 2):02d} step {at}/1000 loss 1.0\n" for at in range(1, 61)
    )
    (tmp_path / "a").mkdir()
    assert "between the lines are in them" in reply(of_text(tmp_path / "a", stamped), WHOLE).text
    assert "come on top" in reply(job(tmp_path, STEADY), WHOLE).text


def test_without_any_statement_the_length_is_not_known_and_what_the_lines_span_is(tmp_path: Path) -> None:
    stamped = "".join(f"2026-01-01 10:{at // 2:02d}:{30 * (at % 2):02d} step {at} loss 1.0\n" for at in range(1, 61))
    discussion = of_text(tmp_path, stamped)
    assert reply(discussion, WHOLE).text.startswith("How long the training takes is not known")
    assert values(discussion, WHOLE)["step_lines_s"] == pytest.approx(58 * 30.0)


def test_times_of_epochs_are_those_of_one_training(tmp_path: Path) -> None:
    """Behind it another training with another number of epochs, such as a probe of its features."""
    steps = "".join(f"step {step} loss 1.0 time 500 ms\n" for step in range(1, 41))
    epochs = "".join(f"Epoch: [{at}/3] Total time: 0:10:00 (0.5 s / it)\n" for at in range(3))
    probe = "Epoch: [0] Total time: 0:01:00 (0.5 s / it)\n"
    found = values(of_text(tmp_path, steps + epochs + probe), "How long is an epoch?")
    assert found["epoch_ms"] == 600_000.0


def test_a_drift_over_all_steps_of_the_training_is_one_of_the_whole_training(tmp_path: Path) -> None:
    lines = "".join(f"step:{at}/200 loss 1.0 step_time:{200 + at}ms\n" for at in range(1, 201))
    text = reply(of_text(tmp_path, lines), "does it get slower?").text
    assert text.startswith("Over the whole training, yes:")
    assert "two epochs" not in text


def test_what_is_left_out_of_a_progress_bar_are_groups_of_its_updates(tmp_path: Path) -> None:
    """Updates every second are joined to parts of 20 s; the first steps take 4 s, the others 1 s."""
    bar, elapsed = "", 0
    for at in range(1, 401):
        elapsed += 4 if at <= 40 else 1
        rate = "4.00s/it" if at <= 40 else "1.00s/it"
        bar += f"{at // 4:3d}%|###| {at}/400 [{elapsed // 60:02d}:{elapsed % 60:02d}<10:00, {rate}]\r"
    series = profile_of(tmp_path, bar).series
    assert series is not None
    assert "groups of updates of the progress bar" in series.start

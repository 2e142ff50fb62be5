"""Times of evaluations that lines state, and times next to evaluations that are of something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron, read
from tools.analyzers.registry import check_of
from tools.sources.job_log.evaluation_times import evaluation_s, inference_s
from tools.sources.load import load_run
from tools.views.profile import Profile

INFERENCE = (
    "[01/02 10:20:30] d2.evaluation.evaluator INFO: Total inference time: {} (0.04 s / iter per device, on 6 devices)"
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("I1216 14:47:46 train.py:409] [Timing] final eval finished (Took 322.18s).", 322.18),
        ("Validation took 41.5 s", 41.5),
        ("evaluation finished in 3.5 min", 210.0),
        ("final_int8_zlib_roundtrip val_loss:0.9420 val_bpb:1.3595 eval_time:10663ms", 10.663),
        ("epoch 3 val_time=3.2 s", 3.2),
        ("{'eval_loss': 1.2, 'eval_runtime': 12.5, 'eval_samples_per_second': 80.1, 'epoch': 1.0}", 12.5),
        ("{'eval_runtime': '4.37', 'eval_steps_per_second': '2.1'}", 4.37),
    ],
)
def test_a_line_that_names_the_evaluation_states_its_time(text: str, seconds: float) -> None:
    assert evaluation_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "[Timing] train finished (Took 1160.43s).",
        "val loss: 3.1, took 4 s",
        "evaluation loss 3.1 took 4 s",
        "validation took 0.3 s/it",
        "Average evaluation took 3 s",
        "pre-eval took 3 s",
        "Test: [20/242] eval_time: 12 ms",
        "batch 3 val_time: 12 ms",
        "avg eval_time: 3 s",
        "val_time: 0.3 s/it",
        "eval_time: 12",
        "step_eval_time: 12 ms",
        "Total inference pure compute time: 0:02:01 (0.03 s / iter per device, on 6 devices)",
        "evaluation took 1:02:03",
    ],
)
def test_times_of_parts_means_and_other_work_are_none_of_an_evaluation(text: str) -> None:
    assert evaluation_s(text) is None


def test_the_times_of_evaluations_stand_next_to_the_steps(tmp_path: Path) -> None:
    text = megatron(*((at, 1000.0) for at in range(1, 30)))
    text += "".join(f"Validation took {at} s\n" for at in (10, 12, 20))
    (tmp_path / "job.log").write_text(text)
    check = check_of(Profile(load_run([tmp_path / "job.log"])), "step_time.output")
    assert check is not None
    assert [fact.value for said in check.support for fact in said.facts] == [12.0, 10.0, 20.0]


def stamped(at: str, text: str) -> str:
    return f"2023-10-02 23:{at},000 trainer INFO: {text}\n"


STEPS = megatron(*((step, 1000.0) for step in range(1, 13)))


def test_an_evaluation_is_timed_by_the_stamps_of_the_lines_that_begin_and_end_it(tmp_path: Path) -> None:
    text = stamped("19:48", "Start validation, Total sample: 250") + stamped("20:24", "Overall validation mIoU: 0.2")
    again = stamped("31:00", "Starting evaluation") + stamped("31:46", "Evaluation finished")
    (tmp_path / "job.out").write_text(STEPS + text + again)
    profile = Profile(load_run([tmp_path / "job.out"]))
    log = profile.run.job_log
    assert log is not None
    assert [(float(each.value), each.begin_line, each.line) for each in log.evaluation_times] == [
        (36.0, 13, 14),
        (46.0, 15, 16),
    ]
    check = check_of(profile, "step_time.output")
    assert check is not None
    assert any("time stamps of the lines that begin and end them" in each.template for each in check.support)


def test_estimators_state_when_an_evaluation_begins_and_ends(tmp_path: Path) -> None:
    text = "INFO:tensorflow:Starting evaluation at 2019-02-18-08:07:59\nINFO:tensorflow:Finished evaluation at "
    (tmp_path / "job.out").write_text(f"{STEPS}{text}2019-02-18-08:09:56\n")
    log = load_run([tmp_path / "job.out"]).job_log
    assert log is not None
    assert [each.value for each in log.evaluation_times] == ["117.0"]


def test_lines_without_stamps_of_two_evaluations_or_around_a_step_time_none(tmp_path: Path) -> None:
    unstamped = "Start validation\nOverall validation mIoU: 0.2\n"
    around = stamped("19:48", "Start validation") + megatron((13, 1000.0)) + stamped("20:24", "Overall validation")
    ends = stamped("21:00", "Overall validation")
    (tmp_path / "job.out").write_text(STEPS + unstamped + around + ends)
    log = load_run([tmp_path / "job.out"]).job_log
    assert log is not None
    assert log.evaluation_times == ()


def test_the_end_of_a_test_by_a_metric_logger_states_its_time() -> None:
    assert evaluation_s("Test: Total time: 0:00:14 (0.180013 s / it)") == 14.0
    assert evaluation_s("Epoch: [3] Total time: 0:00:14 (0.180013 s / it)") is None


def test_the_inference_of_an_evaluation_is_not_all_of_it(tmp_path: Path) -> None:
    """Two evaluations of 30 s, of which 16.4 s is the inference that the line states."""
    steps = megatron(*((at, 1000.0) for at in range(1, 30)))
    one = (
        "[01/02 10:{0}:00] d2.evaluation.evaluator INFO: Start inference on 3334 batches\n"
        + INFERENCE.format("0:00:16.405067").replace("10:20:30", "10:{0}:20")
        + "\n[01/02 10:{0}:30] d2.engine.defaults INFO: Evaluation results for nyu_val in csv format:\n"
    )
    (tmp_path / "job.log").write_text(steps + one.format("20") + one.format("30"))
    check = check_of(Profile(load_run([tmp_path / "job.log"])), "step_time.output")
    assert check is not None
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([16.405067, 30.0])
    assert check.support[0].template.startswith("2 lines state the time of the inference of an evaluation: {0}")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:02:16.405067", 136.405067), ("1 day, 0:05:12", 86_712.0), ("1:02", None)]
)
def test_the_time_of_an_inference_has_days_hours_and_parts_of_a_second(text: str, seconds: float | None) -> None:
    assert inference_s(INFERENCE.format(text)) == (None if seconds is None else pytest.approx(seconds))
    assert evaluation_s(INFERENCE.format(text)) is None


def test_an_inference_that_does_not_end_in_the_text_is_an_evaluation(tmp_path: Path) -> None:
    begun = "[01/02 10:20:00] d2.evaluation.evaluator INFO: Start inference on 3334 batches\n"
    (note,) = read(tmp_path, megatron(*((at, 1000.0) for at in range(1, 30))) + begun).evaluations
    assert note.line == 30

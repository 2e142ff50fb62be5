"""Logs in the folder of a run and given by their path: recognised by content, next to traces and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL
from tests.tools.sources.kineto_text import span, write_trace
from tools.errors import InputError
from tools.sources.inventory import take_inventory
from tools.sources.job_log.source import JOB_LOG
from tools.sources.load import load_run
from tools.sources.options import Limits
from tools.views.steps.recorded import series_of

STEPS = megatron(*((step, 100.0 + step % 3) for step in range(1, 41)))


@pytest.mark.parametrize("name", ["train.log", "slurm-123.out", "stdout", "anything.txt"])
def test_a_log_of_any_name_makes_a_run_by_itself(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(STEPS)
    for given in (tmp_path, tmp_path / name):
        run = load_run([given])
        assert [(source.format, source.ranks, source.status) for source in run.sources] == [
            (JOB_LOG.name, (0,), "complete")
        ]
        series = series_of(run)
        assert series is not None
        assert series.origin == "job_log"
        assert len(series.usual) == 36  # a tenth of the steps settles
        assert series.averaged == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [("train.py", STEPS), ("README.md", STEPS), ("notes.txt", "we saw step 3 take long\n"), ("words", "hello\n" * 99)],
)
def test_programs_documents_and_sentences_are_no_logs(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="no trace there"):
        take_inventory([tmp_path], Limits())


def test_next_to_a_trace_the_log_is_a_source_and_the_trace_gives_the_steps(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", [span("aten::mm", 10, 90)])
    (tmp_path / "train.log").write_text(STEPS + NCCL)
    run = load_run([tmp_path])
    assert {source.format for source in run.sources} == {"kineto", JOB_LOG.name}
    assert run.job_log is not None
    assert run.job_log.nccl.network[0].value == "Socket"
    assert series_of(run) is None


def test_a_trace_given_by_its_path_does_not_take_the_logs_around_it(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", [span("aten::mm", 10, 90)])
    (tmp_path / "train.log").write_text(STEPS)
    assert take_inventory([tmp_path / "rank0.json"], Limits()).records == ()


def test_files_of_several_ranks_are_one_job(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"out.{rank}").write_text("".join(f"[rank{rank}]:{line}\n" for line in STEPS.splitlines()))
    run = load_run([tmp_path])
    assert run.job_log is not None
    assert run.job_log.files == ("out.0", "out.1", "out.2")
    assert run.job_log.steps.groupby("rank")["file"].first().to_dict() == {0: 0, 1: 1, 2: 2}


def test_lines_of_ten_steps_do_not_speak_of_single_steps(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(megatron(*((step, 100.0) for step in range(10, 500, 10))))
    series = series_of(load_run([tmp_path]))
    assert series is not None
    assert series.averaged == "each line gives the mean over the steps since the one before it"
    assert series.unseen(3) == f"not every single step is known: {series.averaged}"


def words_of(folder: Path, text: str) -> str:
    (folder / "train.log").write_text(text)
    series = series_of(load_run([folder]))
    assert series is not None
    return series.averaged


def test_what_a_line_is_of_is_stated_as_its_program_has_it(tmp_path: Path) -> None:
    pythia = "".join(f"iter: {n}00 train_loss: 3.1  val_loss: 3.3 time(s): {280 + n}.5 s\n" for n in range(1, 9))
    assert words_of(tmp_path, pythia).startswith("the time since the line before is divided by the steps between")
    own = "".join(f"step {n}0: loss 2.5, 42.{n} ms/step\n" for n in range(1, 9))
    assert "does not state whether its time is their mean" in words_of(tmp_path, own)
    classes = "".join(f"INFO: epoch:0  , train step:{n}0 , loss: 3.3, batch_cost: 0.59{n}00 s\n" for n in range(1, 9))
    assert words_of(tmp_path, classes).startswith("the lines give running means")


def test_missing_lines_between_means_are_stated_with_their_place(tmp_path: Path) -> None:
    steps = (2080, 2090, 2100, 3490, 3500, 3510)
    text = megatron(*((step, 100.0) for step in steps))
    assert words_of(tmp_path, text) == (
        "each line gives the mean over the 10 steps up to it, and some steps are in none, such as 2101 to 3480"
    )


def test_lines_of_several_steps_among_single_ones_leave_the_p95_open(tmp_path: Path) -> None:
    text, spent = "", 0.0
    for n, own_s in ((1, 30.0), (2, 4.0), (3, 4.0), (24, 21 * 8.0), (25, 11.0), (26, 1.0), (27, 17.0), (28, 1.0)):
        spent += own_s
        clock = f"20:{int(spent) // 60:02d}:{int(spent) % 60:02d}"
        line = f"- mmengine - INFO - Epoch(train)  [1][{n:4d}/1051]  time: {spent / n:.4f}  data_time: 0.1  loss: 7.6\n"
        text += f"2026/05/24 {clock} {line}"
    assert words_of(tmp_path, text).startswith("the lines give running means")


def test_a_log_without_steps_is_a_run_of_which_the_rest_is_known(tmp_path: Path) -> None:
    (tmp_path / "nccl.log").write_text(NCCL)
    run = load_run([tmp_path])
    assert series_of(run) is None
    assert run.job_log is not None
    assert run.job_log.nccl.lines == 14


def test_logs_are_found_where_launchers_put_them(tmp_path: Path) -> None:
    places = ("logs/train.txt", "logs/attempt_0/0/stdout.log", "attempt_0/1/stderr.log")
    for place in (*places, "data/train.txt", "monitor/train.txt"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(STEPS)
    (found,) = take_inventory([tmp_path], Limits()).records
    assert sorted(file.relative_to(tmp_path).as_posix() for file in found.files) == sorted(places)


def test_what_lies_between_epochs_of_unknown_length_is_said_to_be_left_out(tmp_path: Path) -> None:
    lines = (
        f"Epoch {epoch}, Step {step}, total used time {45.0 * epoch + 0.25 * step:.4f} (s), avg loss 0.5\n"
        for epoch in range(4)
        for step in (20, 40, 60, 80)
    )
    (tmp_path / "job.log").write_text("job begins\n" * 30 + "".join(lines))
    series = series_of(load_run([tmp_path]))
    assert series is not None
    assert series.averaged.endswith("what lies across the end of an epoch is left out")
    assert series.start == "the first 2 of 12 intervals between recorded steps are left out as start-up"

"""Starts of a program that ended with an error, below each other in one output."""

from __future__ import annotations

from pathlib import Path

from tests.tools.sources.job_log.logs import megatron, read
from tools.analyzers.steps.output_warnings import failed_starts, output_warnings
from tools.sources.load import load_run
from tools.views.profile import Profile

BEGIN = "2021-09-03 19:05:28.330 | INFO | before_train:126 - args: Namespace(batch_size=4, devices=1)\n"
FRAME = "    |     -> Namespace(batch_size=4, devices=1)\n"
MEMORY = "RuntimeError: CUDA out of memory. Tried to allocate 2.92 GiB (GPU 0; 4.00 GiB total capacity)\n"


def failed(error: str) -> str:
    return f"{BEGIN}Traceback (most recent call last):\n{FRAME}{error}"


def steps(first: int, last: int) -> str:
    return megatron(*((at, 100.0) for at in range(first, last)))


def test_starts_that_ended_with_an_error_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(failed("FileNotFoundError: no weights\n") + failed(MEMORY) * 2 + BEGIN + steps(1, 60))
    run = load_run([path])
    assert run.job_log is not None
    assert [each.value for each in run.job_log.failed_starts] == ["FileNotFoundError", "RuntimeError", "RuntimeError"]
    said = failed_starts(run.job_log)[0].template
    assert "3 starts of the program that ended with an error" in said
    assert "RuntimeError 2 times, FileNotFoundError 1 time; from line 2 on" in said
    check = output_warnings.once(Profile(run))
    assert check is not None
    assert any("before the first of the steps that are used (line 14)" in each.template for each in check.support)


def test_memory_that_ran_out_behind_the_steps_is_of_their_start(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(BEGIN + steps(1, 60) + "Traceback (most recent call last):\n" + MEMORY)
    run = load_run([path])
    assert run.job_log is not None
    assert run.job_log.failed_starts == ()
    check = output_warnings.once(Profile(run))
    assert check is not None
    assert any(each.template.startswith("The job ran out of device memory: ") for each in check.support)


def test_an_error_that_a_training_survives_ends_no_start(tmp_path: Path) -> None:
    text = steps(1, 30) + "Traceback (most recent call last):\nValueError: a bad sample\n" + steps(30, 60) + BEGIN
    assert read(tmp_path, text).failed_starts == ()

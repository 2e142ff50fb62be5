from pathlib import Path

import pytest

from evals.benchmarks.big_logs import enlarge_log
from tools.sources.job_log.reader import read_job_log

LINES = "started\niter 1: loss 2.0, step time 50 ms\niter 2: loss 1.5, step time 70 ms\n"


def test_repeats_a_log_with_step_numbers_that_go_on(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(LINES)

    made = enlarge_log(tmp_path / "job.log", tmp_path / "big.log", 5 * len(LINES))

    assert (made.lines, made.steps) == (15, 10)
    assert made.size_bytes >= 5 * len(LINES)
    read = read_job_log(tmp_path / "big.log")
    assert read.log is not None
    assert read.log.steps["step"].tolist() == list(range(1, 11))
    assert read.log.steps["wall_ms"].tolist() == [50.0, 70.0] * 5


def test_a_log_that_names_no_step_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("started\nended\n")

    with pytest.raises(ValueError, match="names no step"):
        enlarge_log(tmp_path / "job.log", tmp_path / "big.log", 100)
    assert not (tmp_path / "big.log").exists()

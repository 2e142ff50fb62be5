"""Step lines of programs that nobody knows: a word, a number that rises, and one time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import is_job_log


@pytest.mark.parametrize("head", ["[it {0}/80]", "it {0}/80", "it: {0}"])
def test_an_iteration_with_one_time_is_a_step(tmp_path: Path, head: str) -> None:
    text = "tagger: 12 tags, cpu\n" + "".join(
        f"{head.format(n)} nll=2.5 words=9 took {40 + n} ms\n" for n in range(1, 7)
    )
    (tmp_path / "job.log").write_text(text)
    assert is_job_log(tmp_path / "job.log")
    assert read(tmp_path, text).steps["wall_ms"].tolist() == [41.0, 42.0, 43.0, 44.0, 45.0, 46.0]


@pytest.mark.parametrize(
    "line",
    [
        "[{0}/80] Building CXX object a.o took 45 ms\n",
        "GET /cart?it={0} 200 took 45 ms\n",
        "test_shape_{0} PASSED took 45 ms\n",
        "it took 4{0} ms to compile\n",
        "Batch {0} of the import took 45 ms\n",
    ],
)
def test_builds_servers_and_tests_are_no_training(tmp_path: Path, line: str) -> None:
    (tmp_path / "job.log").write_text("".join(line.format(n) for n in range(1, 30)))
    assert not is_job_log(tmp_path / "job.log")


def test_numbers_that_do_not_rise_are_no_steps(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("it 3 took 45 ms\n" * 20)
    assert not is_job_log(tmp_path / "job.log")


def test_two_times_without_the_name_of_a_step_are_not_chosen_between(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("".join(f"step {n} fwd 20 ms bwd 4{n} ms\n" for n in range(1, 9)))
    assert is_job_log(path)
    found = read_job_log(path)
    assert found.log is None
    assert any("8 step lines state several times" in note and "--log-pattern" in note for note in found.notes)


def test_a_single_line_with_the_field_of_a_step_s_time_is_read(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("== slow ranks ==\n\n[step 173] step_time=381.06s  dt_med=0.0028s\n rank 3\n")
    assert is_job_log(tmp_path / "job.log")


@pytest.mark.parametrize(
    "line",
    [
        "step {0} loss 2.1 forward time 20.0 ms backward time 43.0 ms\n",
        "[it {0}/100] nll=2.1 loader took 3 ms\n",
        "step {0} loss 2.1 took 40 ms 12 ms\n",
        "step {0} optimizer step time 6 ms\n",
        "step {0} loss 2.1 55 ms loader 3 ms\n",
    ],
)
def test_a_time_named_after_a_part_and_one_of_several_unnamed_are_no_step_time(tmp_path: Path, line: str) -> None:
    path = tmp_path / "job.log"
    path.write_text("".join(line.format(n) for n in range(1, 9)))
    found = read_job_log(path)
    assert found.log is None
    assert any("8 step lines" in note and "--log-pattern" in note for note in found.notes)


@pytest.mark.parametrize(
    "line",
    [
        "step {0} loss 2.1 time 6{0} ms (fwd 20 ms, bwd 41 ms)\n",
        "step {0} forward time 20 ms backward time 41 ms total 6{0} ms\n",
        "[it {0}/100] nll=2.1 loader took 3 ms took 6{0} ms\n",
        "step {0} loss 2.1 loader 3 ms 6{0} ms\n",
    ],
)
def test_the_one_time_next_to_those_of_parts_is_the_step_s(tmp_path: Path, line: str) -> None:
    steps = read(tmp_path, "".join(line.format(n) for n in range(1, 6))).steps
    assert steps["wall_ms"].tolist() == [61.0, 62.0, 63.0, 64.0, 65.0]

"""Two sources of one job that state the same steps: the better one is used, and a disagreement is reported."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from evals.fuzz.tracker_files import event
from tests.tools.sources.job_log.logs import megatron
from tools.run.model import Run
from tools.run.recorded.step_times import step_times
from tools.sources.load import load_run

START_S = 1.7e9


def events(step_s: float, count: int = 40, stated: bool = True, every: int = 1) -> bytes:
    """A TensorBoard file with the time of each step, or with losses alone at the times of the steps."""
    steps = range(every, count + 1, every)
    name = "iteration-time" if stated else "lm loss"
    return b"".join(event(START_S + step_s * at, at, {name: step_s}) for at in steps)


def folder(tmp_path: Path, printed_ms: float, data: bytes, name: str = "events.out.tfevents.1") -> Run:
    (tmp_path / "train.log").write_text(megatron(*((step, printed_ms) for step in range(1, 41))))
    (tmp_path / name).write_bytes(data)
    return load_run([tmp_path])


def used(run: Run) -> str:
    assert run.job_log is not None
    return run.job_log.files[int(run.job_log.steps["file"].iloc[0])]


def test_the_same_steps_by_two_sources_are_listed_once_each_and_agree(tmp_path: Path) -> None:
    run = folder(tmp_path, 500.0, events(0.5))
    assert [(each.source, each.median_ms, each.count) for each in step_times(run)] == [
        ("job_log", 500.0, 40),
        ("tracker", 500.0, 40),
    ]
    assert used(run) == "train.log"
    assert run.conflicts == ()


@pytest.mark.parametrize(("tracked_s", "conflict"), [(0.545, False), (0.56, True), (0.4, True)])
def test_a_difference_beyond_a_tenth_is_a_conflict_with_both_times(
    tmp_path: Path, tracked_s: float, conflict: bool
) -> None:
    conflicts = folder(tmp_path, 500.0, events(tracked_s)).conflicts
    assert bool(conflicts) is conflict
    if conflict:
        assert f"train.log states 500 ms for steps that take {1e3 * tracked_s:.0f} ms by events.out" in conflicts[0]
        assert "up to 10 % is taken as the same" in conflicts[0]


def test_stated_times_of_every_step_come_before_times_between_records(tmp_path: Path) -> None:
    assert used(folder(tmp_path, 500.0, events(0.5, stated=False))) == "train.log"
    (tmp_path / "train.log").unlink()
    bars = "".join(f"\rTraining: {at}/40 [00:{at // 2:02d}<00:20, 2.00it/s]" for at in range(2, 41, 2))
    (tmp_path / "bar.log").write_text(bars)
    (tmp_path / "events.out.tfevents.1").write_bytes(events(0.5))
    run = load_run([tmp_path])
    assert used(run) == "events.out.tfevents.1"  # a smoothed rate shows no single step
    assert run.conflicts == ()


def test_means_over_several_steps_are_compared_by_means(tmp_path: Path) -> None:
    run = folder(tmp_path, 500.0, events(0.5, every=10))
    assert run.conflicts == ()
    assert "20 % apart" in folder(tmp_path, 600.0, events(0.5, every=10)).conflicts[0]


def test_sources_of_other_steps_are_not_compared(tmp_path: Path) -> None:
    late = b"".join(event(START_S + at, at, {"iteration-time": 0.9}) for at in range(1000, 1040))
    assert folder(tmp_path, 500.0, late).conflicts == ()


def test_a_packed_event_file_of_a_folder_is_read_like_a_plain_one(tmp_path: Path) -> None:
    run = folder(tmp_path, 500.0, gzip.compress(events(0.7)), "events.out.tfevents.1.gz")
    assert [each.median_ms for each in step_times(run)] == pytest.approx([500.0, 700.0])


@pytest.mark.parametrize(("other_ms", "conflict"), [(505.0, False), (650.0, True)])
def test_two_logs_of_the_same_steps_are_held_against_each_other(
    tmp_path: Path, other_ms: float, conflict: bool
) -> None:
    (tmp_path / "a.log").write_text(megatron(*((step, 500.0) for step in range(1, 41))))
    (tmp_path / "b.log").write_text(megatron(*((step, other_ms) for step in range(1, 31))))
    conflicts = load_run([tmp_path]).conflicts
    assert bool(conflicts) is conflict
    if conflict:
        assert "a.log states 500 ms for steps that take 650 ms by b.log, 30 % apart" in conflicts[0]


def test_logs_of_other_steps_of_the_same_rank_are_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(megatron(*((step, 500.0) for step in range(1, 41))))
    (tmp_path / "b.log").write_text(megatron(*((step, 650.0) for step in range(41, 71))))
    assert load_run([tmp_path]).conflicts == ()

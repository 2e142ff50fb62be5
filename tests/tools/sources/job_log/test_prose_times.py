"""Times that lines state in other forms than those of steps: sentences, tables without rules, clocks of epochs."""

from __future__ import annotations

from pathlib import Path

from tests.tools.sources.job_log.logs import megatron, read
from tools.analyzers.steps.output_warnings import named_times
from tools.sources.job_log.reader import read_job_log
from tools.sources.load import load_run
from tools.views.profile import Profile

STEPS = megatron(*((at, 100.0) for at in range(1, 31)))


def test_times_that_sentences_state_are_those_of_the_named_work(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(
        STEPS + "forward took 0.3 s\nforward took 0.5 s\n[rank 0] all reduce took: 12 ms\nbackward took 7\n"
    )
    run = load_run([path])
    assert run.job_log is not None
    assert [(each.name, each.wall_ms) for each in run.job_log.named_times] == [
        ("forward", 300.0),
        ("forward", 500.0),
        ("all reduce", 12.0),
    ]
    profile = Profile(run)
    said = named_times(profile, run.job_log)
    assert [each.template for each in said] == [
        "2 lines state the time of {n0}: {0} in the median ({1} to {2}).",
        "Line 33 states {0} for {n0}.",
    ]
    assert [round(fact.value, 3) for fact in said[0].facts] == [400.0, 300.0, 500.0]


def test_meters_of_an_evaluation_without_a_unit_are_named_as_not_read(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(
        STEPS + "Test: [10/124] Data 316 (265) Batch 317 (268)\nTest: [20/124] Data 300 (265) Batch 310 (268)\n"
    )
    found = read_job_log(path)
    assert any(note.startswith("2 lines from line 31 on state times of the batches") for note in found.notes)


def test_a_clock_that_lines_call_the_time_of_an_epoch_is_none(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(STEPS + "".join(f"Time taken for 1 epoch: {29 + at / 5} secs\n" for at in range(20)))
    found = read_job_log(path)
    assert found.log is not None
    assert found.log.epoch_times == ()
    assert any("20 lines from line 31 on call a time that of an epoch" in note for note in found.notes)


def test_the_time_taken_for_an_epoch_is_its_time(tmp_path: Path) -> None:
    log = read(tmp_path, "".join(f"Time taken for 1 epoch: {at} secs\n" for at in (30.5, 20.0, 21.0)))
    assert [each.wall_ms for each in log.epoch_times] == [30_500.0, 20_000.0, 21_000.0]


def test_rows_below_the_names_of_their_columns_are_steps(tmp_path: Path) -> None:
    """The time has no unit; the stamps are eight seconds a batch apart, the end of an epoch is left out."""
    head = "2021-01-25 05:58:00 [INFO]:    Epoch       Batch       box      conf      total      time\n"
    rows = [
        f"2021-01-25 {6 + epoch:02d}:{at * 8 // 60:02d}:{at * 8 % 60:02d} [INFO]:     "
        f"{epoch}/29      {at}/165     0.227      2.06        -14      7.12\n"
        for epoch in (0, 1)
        for at in (0, 40, 80, 120, 160)
    ]
    log = read(tmp_path, head + "".join(rows))
    assert log.step_time == "stamps"
    assert log.steps["wall_ms"].tolist() == [8000.0] * 8

"""records and step logs next to the traces become part of the run, and nothing else does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_agent.model.request import Request
from hermes_agent.monitor.format import RECORD, STEPS_MAGIC, Description, Workload
from hermes_agent.workflow.stored import key
from tests.hermes_agent.monitor.monitored import record
from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.errors import InputError, UsageError
from tools.metrics.registry import measure
from tools.run.model import MONITOR_FORMAT, STEP_LOG_FORMAT
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.views.steps.recorded import require_steps

BEGIN_NS = 1_700_000_000_000_000_000


def traced(folder: Path, rank: int = 0, base_ns: int | None = BEGIN_NS) -> Path:
    spans = [span("ProfilerStep#1", 0, 50), span("op", 10, 20)]
    more = {} if base_ns is None else {"baseTimeNanoseconds": base_ns}
    write_trace(folder / f"rank{rank}.json", spans, distributedInfo=rank_info(rank), **more)
    return folder


def monitored(folder: Path, rank: int = 0, world_size: int = 2, begin_ns: int = BEGIN_NS, steps: int = 20) -> Path:
    about = Description(rank, world_size, None, "host", 7, begin_ns, 16, Workload())
    (folder / "monitor").mkdir(exist_ok=True)
    path = folder / "monitor" / f"{about.stem}.steps"
    kept = [replace_end(record(step, 10.0 + step), begin_ns + (step + 1) * 10**7) for step in range(steps)]
    path.write_bytes(about.pack(STEPS_MAGIC) + b"".join(RECORD.pack(*each) for each in kept))
    path.with_suffix(".events.jsonl").touch()
    return path


def replace_end(each: tuple[int, ...], end_unix_ns: int) -> tuple[int, ...]:
    return each._replace(end_unix_ns=end_unix_ns)  # type: ignore[attr-defined, no-any-return]


def logged(folder: Path, rank: int = 0, steps: int = 20) -> Path:
    path = folder / f"steps_rank{rank}.jsonl"
    path.write_text("".join(json.dumps({"step": step, "wall_ms": 30.0}) + "\n" for step in range(steps)))
    return path


def test_records_and_logs_are_read_and_listed_as_sources(tmp_path: Path) -> None:
    monitored(traced(tmp_path))
    logged(tmp_path)
    run = load_run([tmp_path])
    assert run.records is not None
    assert len(run.records.steps) == 20
    assert run.step_log is not None
    assert run.step_log["wall_ms"].tolist() == [30.0] * 20
    assert [source.format for source in run.sources][1:] == [MONITOR_FORMAT, STEP_LOG_FORMAT]
    (note,) = run.notes
    assert note.startswith("the step log holds steps of 30 ms, the monitor measured 19.5 ms")
    fact = measure(Profile(run), "series_step_ms", statistic="median")
    assert fact.path == str(tmp_path / "monitor")


def test_a_single_trace_brings_its_folder_and_a_capture_its_run_folder(tmp_path: Path) -> None:
    monitored(traced(tmp_path))
    records = load_run([tmp_path / "rank0.json"]).records
    assert records is not None
    capture = tmp_path / "capture-0001"
    capture.mkdir()
    (tmp_path / "rank0.json").rename(capture / "rank0.json")
    assert load_run([capture]).records is not None


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        pytest.param({"world_size": 4}, "another number of ranks", id="a larger job"),
        pytest.param({"rank": 3, "world_size": 8}, "another number of ranks", id="a rank there is not"),
        pytest.param({"begin_ns": BEGIN_NS - 9 * 10**13}, "more than a minute", id="a day before"),
        pytest.param({"begin_ns": BEGIN_NS + 1800 * 10**9}, "more than a minute", id="half an hour later"),
    ],
)
def test_records_of_another_run_are_left_out_with_a_note(tmp_path: Path, reported: dict[str, int], reason: str) -> None:
    monitored(traced(tmp_path), **reported)
    run = load_run([tmp_path])
    assert run.records is None
    assert any(reason in note for note in run.notes)
    assert run.sources[-1].status == "excluded"


def test_damaged_records_and_logs_are_notes_and_the_trace_is_read(tmp_path: Path) -> None:
    path = monitored(traced(tmp_path))
    path.write_bytes(b"no records")
    (tmp_path / "steps_rank0.jsonl").write_text('{"step": 1, "wall_ms": 30.0}\n{broken\n{"step": -1, "wall_ms": 1}\n')
    (tmp_path / "steps_rank1.jsonl").write_bytes(b"\xff\xfe")
    run = load_run([tmp_path])
    assert run.records is None
    assert run.step_log is not None
    assert len(run.step_log) == 1
    assert sum("steps_rank0.jsonl: 2 lines" in note for note in run.notes) == 1
    assert any("steps_rank1.jsonl" in note for note in run.notes)
    assert any("monitor records" in note for note in run.notes)


def test_of_a_rank_that_was_started_twice_the_traced_start_is_used(tmp_path: Path) -> None:
    traced(tmp_path)
    monitored(tmp_path, begin_ns=BEGIN_NS - 10**11, steps=5)
    monitored(tmp_path, begin_ns=BEGIN_NS - 10**7, steps=20)
    monitored(tmp_path, begin_ns=BEGIN_NS + 10**12, steps=7)
    run = load_run([tmp_path])
    assert run.records is not None
    assert len(run.records.steps) == 20
    assert any("more than once" in note for note in run.notes)


def test_starts_are_chosen_for_all_ranks_together_and_one_that_was_not_restarted_is_left_out(tmp_path: Path) -> None:
    traced(tmp_path)
    traced(tmp_path, rank=1)
    monitored(tmp_path, begin_ns=BEGIN_NS - 5 * 10**9, steps=5)
    monitored(tmp_path, rank=1, begin_ns=BEGIN_NS - 5 * 10**9, steps=6)
    monitored(tmp_path, begin_ns=BEGIN_NS - 10**7, steps=20)
    run = load_run([tmp_path])
    assert run.records is not None
    assert [(each.rank, each.attempt, each.steps) for each in run.records.ranks] == [(0, 1, 20)]
    assert set(run.records.steps["rank"]) == {0}


def test_a_rank_that_ended_early_is_of_the_start_that_was_traced(tmp_path: Path) -> None:
    traced(tmp_path)
    monitored(tmp_path, begin_ns=BEGIN_NS - 10**7)
    monitored(tmp_path, rank=1, begin_ns=BEGIN_NS - 10**7, steps=1)
    run = load_run([tmp_path])
    assert run.records is not None
    assert [each.steps for each in run.records.ranks] == [20, 1]
    assert not run.notes


def test_of_the_logs_of_a_rank_in_two_folders_only_one_is_used(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, rank, steps in ((one, 0, 5), (other, 1, 10)):
        folder.mkdir()
        logged(traced(folder, rank), 0, steps)
    logged(other, 1, 10)
    run = load_run([one, other])
    assert run.step_log is not None
    assert run.step_log.groupby("rank").size().to_dict() == {0: 5, 1: 10}
    assert any("another folder" in note for note in run.notes)


@pytest.mark.parametrize("wall_us", [0, 0xFFFFFFFF])
def test_steps_without_a_possible_duration_are_left_out_with_a_note(tmp_path: Path, wall_us: int) -> None:
    path = monitored(traced(tmp_path))
    impossible = replace_end(record(20, 0.0, wall_us=wall_us), BEGIN_NS + 3 * 10**8)
    path.write_bytes(path.read_bytes() + RECORD.pack(*impossible))
    run = load_run([tmp_path])
    assert run.records is not None
    assert len(run.records.steps) == 20
    assert any("1 steps have no possible duration" in note for note in run.notes)
    series = Profile(run).series
    assert series is not None
    assert series.mean_ms > 0


def test_records_whose_steps_all_took_no_time_leave_the_run_readable(tmp_path: Path) -> None:
    path = monitored(traced(tmp_path), steps=0)
    path.write_bytes(path.read_bytes() + b"".join(RECORD.pack(*record(step, 0.0)) for step in range(50)))
    run = load_run([tmp_path])
    assert run.records is not None
    assert run.records.steps.empty
    assert Profile(run).series is None


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"event":"environment","unix_ns":1,"gc_tracked_objects":1' + "0" * 400 + "}", id="huge count"),
        pytest.param('{"event":"environment","unix_ns":1' + "0" * 30 + "}", id="huge time"),
        pytest.param('{"event":"environment","unix_ns":1,"cores":-1}', id="negative"),
        pytest.param('{"event":"system","unix_ns":1,"step":1,"load_1min":1e300}', id="huge share"),
        pytest.param('{"event":"gc","x":' + "[" * 100_000, id="deep"),
    ],
)
def test_an_event_that_cannot_be_costs_its_line_only(tmp_path: Path, line: str) -> None:
    path = monitored(traced(tmp_path)).with_suffix(".events.jsonl")
    path.write_text(line + '\n{"event":"system","unix_ns":5,"step":1,"load_1min":0.5}\n', encoding="utf-8")
    run = load_run([tmp_path])
    assert run.records is not None
    assert run.records.system["load_1min"].tolist() == [0.5]
    assert any("1 lines cannot be read" in note for note in run.notes)


def test_records_without_a_trace_are_a_run_without_traced_ranks(tmp_path: Path) -> None:
    monitored(tmp_path)
    monitored(tmp_path, rank=1)
    (tmp_path / "env.json").write_text('{"variables": {"NCCL_DEBUG": "TRACE"}}')
    run = load_run([tmp_path])
    assert run.rank_numbers == ()
    assert run.layout.world_size == 2
    assert [source.format for source in run.sources] == [MONITOR_FORMAT]
    assert run.variables == {"NCCL_DEBUG": "TRACE"}
    assert any("no trace was read" in note for note in run.notes)
    profile = Profile(run)
    assert profile.rank_numbers == (0, 1)
    assert profile.mean_step_ms == measure(profile, "series_step_ms").value
    with pytest.raises(UsageError, match="holds no trace"):
        run.select(ranks=(0,))
    with pytest.raises(UsageError, match="monitor profile"):
        measure(profile, "part_ms", part="host")


def test_a_step_log_alone_is_a_run_too(tmp_path: Path) -> None:
    logged(tmp_path)
    run = load_run([tmp_path])
    assert run.records is None
    assert Profile(run).mean_step_ms == 30.0


def test_of_several_starts_without_a_trace_the_last_one_counts(tmp_path: Path) -> None:
    monitored(tmp_path, steps=20)
    monitored(tmp_path, steps=10, begin_ns=BEGIN_NS + 10**12)
    run = load_run([tmp_path])
    assert run.records is not None
    assert len(run.records.steps) == 10
    assert "only the last start is used" in run.sources[0].note


def test_records_that_cannot_be_read_and_no_trace_are_no_run(tmp_path: Path) -> None:
    (tmp_path / "monitor").mkdir()
    (tmp_path / "monitor" / "rank00000-1-2.steps").write_bytes(b"damaged")
    with pytest.raises(InputError, match="holds no trace, and what else lies there cannot be used"):
        load_run([tmp_path])


def test_a_log_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "steps_rank3.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"steps_rank3\.jsonl: it holds no step with a number and a time"):
        load_run([tmp_path])


def test_too_few_recorded_steps_and_no_trace_are_no_run(tmp_path: Path) -> None:
    monitored(tmp_path, steps=4)
    with pytest.raises(InputError, match="fewer than 5 steps"):
        require_steps(load_run([tmp_path]), [tmp_path])


def test_a_folder_with_nothing_of_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no other source of a run: no job output"):
        load_run([tmp_path])


def test_changed_records_and_logs_make_another_diagnosis(tmp_path: Path) -> None:
    path = monitored(traced(tmp_path))
    log = logged(tmp_path)
    request = Request(paths=(tmp_path,))
    names = [key(request)]
    path.write_bytes(path.read_bytes() + RECORD.pack(*record(20, 30.0)))
    names.append(key(request))
    log.write_text(log.read_text() + '{"step": 20, "wall_ms": 31.0}\n')
    names.append(key(request))
    assert len(set(names)) == 3
    assert key(replace(request)) == names[-1]


def test_a_folder_of_records_or_its_files_given_alone_are_read(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "run").mkdir()
    trace = traced(tmp_path / "traces")
    steps = monitored(tmp_path / "run")
    for paths in ([steps.parent], [steps]):
        alone, together = load_run(paths), load_run([trace, *paths])
        assert [len(run.records.steps) for run in (alone, together) if run.records is not None] == [20, 20]
        assert [source.status for source in together.sources] == ["complete", "complete"]
    assert len(load_run([tmp_path / "run", steps.parent]).sources) == 1
    (tmp_path / "other" / "monitor").mkdir(parents=True)
    with pytest.raises(InputError, match="no trace there"):
        load_run([tmp_path / "other" / "monitor"])


def test_records_of_another_time_are_left_out_with_both_times(tmp_path: Path) -> None:
    monitored(traced(tmp_path), begin_ns=BEGIN_NS + 3_600 * 10**9)
    (note,) = [each for each in load_run([tmp_path]).notes if "left out" in each]
    assert "2023-11-14 23:13:20 to 2023-11-14 23:13:20 UTC" in note
    assert note.endswith("than a minute before or after the traces (2023-11-14 22:13:20 UTC)")

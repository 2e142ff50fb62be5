"""Scheduler events of an export show whether a thread ran while its device waited for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.nsys.export import CALL, KERNEL, RANGE, US, Export, process
from tools.analyzers.registry import all_checks
from tools.errors import UsageError
from tools.metrics.registry import measure
from tools.run.kinds import OFF_CPU
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions
from tools.views.profile import Profile

STEPS = 6


def pausing() -> Export:
    """Each step of 10 ms launches 1 ms of work, then its host pauses for 8 ms."""
    export = Export()
    for step in range(STEPS):
        at = 10_000 * step
        export.range(500, f"step {step}", at, at + 10_000)
        export.range(500, "aten::mm", at + 10, at + 40)
        export.launched(500, 0, at + 20, at + 30, at + 1_030, "gemm")
        export.range(500, "aten::add", at + 9_000, at + 9_040)
        export.launched(500, 0, at + 9_020, at + 9_030, at + 9_990, "add")
    return export


def profiled(path: Path, export: Export) -> Profile:
    return Profile(load_run([export.write(path / "a.sqlite")], LoadOptions(workers=1)))


def test_time_off_the_processor_is_a_share_of_the_pauses(tmp_path: Path) -> None:
    """Between the two kernels of a step the device waits from 1.03 to 9.02 ms; the thread is off for 4 ms of it."""
    export = pausing()
    for step in range(STEPS):
        export.off_cpu(500, 10_000 * step + 2_000, 10_000 * step + 6_000)
    profile = profiled(tmp_path, export)
    pause_ms = measure(profile, "host_pause_ms", rank=0).value
    assert pause_ms == pytest.approx(8, abs=0.1)
    assert measure(profile, "host_pause_off_cpu_pct", rank=0).value == pytest.approx(100 * 4 / pause_ms, abs=0.1)


def test_the_check_of_pauses_cites_it(tmp_path: Path) -> None:
    export = pausing()
    for step in range(STEPS):
        export.off_cpu(500, 10_000 * step + 1_000, 10_000 * step + 9_030)
    (check,) = (each for each in all_checks(profiled(tmp_path, export)) if each.name == "cpu.host_pauses")
    assert check.status == "cannot_answer"
    (said,) = (each for each in check.support if "no processor" in each.template)
    assert [fact.value for fact in said.facts] == [pytest.approx(100)]


def test_a_thread_that_runs_all_the_time_is_off_for_nothing(tmp_path: Path) -> None:
    export = pausing()
    export.off_cpu(500, 100, 200)
    assert measure(profiled(tmp_path, export), "host_pause_off_cpu_pct", rank=0).value == 0


def test_without_scheduler_events_it_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--cpuctxsw"):
        measure(profiled(tmp_path, pausing()), "host_pause_off_cpu_pct", rank=0)


def test_only_whole_times_of_threads_that_call_cuda_are_kept(tmp_path: Path) -> None:
    export = pausing()
    export.add("SCHED_EVENTS", start=50 * US, cpu=0, isSchedIn=1, globalTid=process(500) + 500)
    export.off_cpu(500, 300, 400)
    export.add("SCHED_EVENTS", start=900 * US, cpu=0, isSchedIn=0, globalTid=process(500) + 500)
    export.add("SCHED_EVENTS", start=100 * US, cpu=0, isSchedIn=0, globalTid=process(500) + 777)
    export.add("SCHED_EVENTS", start=800 * US, cpu=0, isSchedIn=1, globalTid=process(500) + 777)
    events = profiled(tmp_path, export).rank(0).events.frame
    off = events[(events["name"] == OFF_CPU).to_numpy()]
    assert [tuple(each) for each in (off[["start_ns", "end_ns"]] // US).to_numpy()] == [(300, 400)]


def limited(path: Path, export: Export, most: int) -> Run:
    """The export, read with room for so many rows."""
    return load_run([export.write(path)], LoadOptions(workers=1, limits=Limits(export_rows=most)))


def test_more_scheduler_events_than_memory_holds_are_left_out_with_a_note_and_the_rest_is_read(tmp_path: Path) -> None:
    export = pausing()
    needed = sum(len(export.rows[table]) for table in (KERNEL, CALL, RANGE))
    for step in range(STEPS):
        export.off_cpu(500, 10_000 * step + 2_000, 10_000 * step + 6_000)
    export.add("SCHED_EVENTS", start=100 * US, cpu=0, isSchedIn=0, globalTid=process(500) + 777)  # calls no CUDA
    whole = limited(tmp_path / "whole.sqlite", export, needed + 2 * STEPS)
    part = limited(tmp_path / "part.sqlite", export, needed + 2 * STEPS - 1)
    assert [run.sources[0].status for run in (whole, part)] == ["complete", "partial"]
    assert f"the {2 * STEPS} events of SCHED_EVENTS were left out" in part.sources[0].note
    off = [int((run.ranks[0].events.frame["name"] == OFF_CPU).sum()) for run in (whole, part)]
    assert off == [STEPS, 0]
    assert len(part.ranks[0].events.frame) == len(whole.ranks[0].events.frame) - STEPS
    with pytest.raises(UsageError, match="--cpuctxsw"):
        measure(Profile(part), "host_pause_off_cpu_pct", rank=0)


def test_more_allocations_than_memory_holds_are_left_out_with_a_note(tmp_path: Path) -> None:
    export = pausing()
    needed = sum(len(export.rows[table]) for table in (KERNEL, CALL, RANGE))
    for at in range(5):
        export.memory(500, 0, 100 * at, 1 << 20)
    (whole,) = limited(tmp_path / "whole.sqlite", export, needed + 5).sources
    (part,) = limited(tmp_path / "part.sqlite", export, needed + 4).sources
    assert "left out" not in whole.note
    assert "the 5 events of CUDA_GPU_MEMORY_USAGE_EVENTS were left out" in part.note


def test_threads_off_their_processor_in_a_real_export(traces: Path) -> None:
    """With plain SQL: of the 490 events of the thread that calls CUDA 245 let it in, the first one included."""
    run = load_run([traces / "nsys/torch_ex_schema3_16.sqlite.gz"], LoadOptions(workers=1))
    events = run.ranks[0].events.frame
    assert int((events["name"] == OFF_CPU).sum()) == 244

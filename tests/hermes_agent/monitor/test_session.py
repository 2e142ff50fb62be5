from __future__ import annotations

import gc
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.monitor.format import ring_folders
from hermes_agent.monitor.ring import open_ring_folder
from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.ring_reader import RingReader
from tests.hermes_agent.monitor.monitored import options, start_script
from tools.sources.monitor.reader import read_monitor


def slow_items(count: int, seconds: float) -> Iterator[int]:
    for number in range(count):
        time.sleep(seconds)
        yield number


def test_step_time_and_data_wait_are_recorded_and_add_up(run_folder: Path) -> None:
    with Monitor(run_folder, rank=2, batch_size=16, options=options()) as monitor:
        for _ in monitor.loader(slow_items(5, 0.02)):
            time.sleep(0.01)
            monitor.step()
    steps = read_monitor(run_folder).steps
    assert list(steps["rank"]) == [2] * 5
    assert list(steps["step"]) == [0, 1, 2, 3, 4]
    assert list(steps["fetches"]) == [1] * 5
    assert (steps["data_wait_ms"] >= 20).all()
    assert (steps["wall_ms"] - steps["data_wait_ms"] >= 10).all()
    assert list(steps["first"]) == [True, False, False, False, False]
    assert steps["samples_per_s"].iloc[1] == pytest.approx(16 / steps["wall_ms"].iloc[1] * 1e3)
    assert steps["own_ms"].isna().all()


def test_steps_carry_the_numbers_and_samples_that_the_script_gives(run_folder: Path) -> None:
    with Monitor(run_folder, flops_per_step=2e9, peak_flops_per_s=1e12, options=options()) as monitor:
        monitor.step(step=1000, samples=8)
        monitor.step()
        monitor.step(step=2000)
    steps = read_monitor(run_folder).steps
    assert list(steps["step"]) == [1000, 1001, 2000]
    assert list(steps["samples"]) == [8, 0, 0]
    assert math.isnan(steps["samples_per_s"].iloc[1])
    assert steps["mfu"].iloc[0] == pytest.approx(2e9 / (steps["wall_ms"].iloc[0] / 1e3) / 1e12)


def test_a_long_collection_is_counted_in_its_step_and_told_by_itself(run_folder: Path) -> None:
    with Monitor(run_folder, options=options()) as monitor:
        monitor.step()
        heap = [[] for _ in range(300_000)]  # type: list[list[int]]
        gc.collect()
        monitor.step()
        monitor.step()
        del heap
    records = read_monitor(run_folder)
    during, after = records.steps.iloc[1], records.steps.iloc[2]
    assert during["gc_runs"] >= 1
    assert 1 < during["gc_longest_ms"] <= during["gc_ms"] <= during["wall_ms"]
    assert after["gc_runs"] == 0
    full = records.gc[records.gc["generation"] == 2]
    assert full["pause_ms"].max() == pytest.approx(during["gc_longest_ms"], abs=0.01)


def test_waiting_for_others_is_counted(run_folder: Path) -> None:
    with Monitor(run_folder, options=options()) as monitor:
        with monitor.waiting():
            time.sleep(0.02)
        monitor.step()
        monitor.step()
    waiting = read_monitor(run_folder).steps["waiting_ms"]
    assert waiting.iloc[0] >= 20
    assert waiting.iloc[1] == 0


class Parameter:
    """As torch's, as far as the monitor goes."""

    def __init__(self, requires_grad: bool) -> None:
        self.requires_grad = requires_grad
        self.hooks: dict[int, object] = {}

    def register_post_accumulate_grad_hook(self, hook: object) -> Handle:
        return Handle(self.hooks, hook)


class Handle:
    def __init__(self, hooks: dict[int, object], hook: object) -> None:
        self.hooks = hooks
        hooks[id(self)] = hook

    def remove(self) -> None:
        del self.hooks[id(self)]


class Model:
    def __init__(self, *parameters: Parameter) -> None:
        self._parameters = parameters

    def parameters(self) -> tuple[Parameter, ...]:
        return self._parameters


def test_own_time_ends_with_the_first_trained_parameters_gradient(run_folder: Path) -> None:
    frozen, trained = Parameter(requires_grad=False), Parameter(requires_grad=True)
    with Monitor(run_folder, options=options()) as monitor:
        monitor.watch_model(Model(frozen, trained, Parameter(requires_grad=True)))
        assert not frozen.hooks
        (hook,) = trained.hooks.values()
        assert callable(hook)
        time.sleep(0.01)
        hook(trained)
        time.sleep(0.03)
        monitor.step()
        monitor.step()
    assert not trained.hooks
    steps = read_monitor(run_folder).steps
    assert 10 <= steps["own_ms"].iloc[0] <= steps["wall_ms"].iloc[0] - 30
    assert math.isnan(steps["own_ms"].iloc[1])


def test_an_orderly_end_leaves_nothing_behind_but_the_files(run_folder: Path) -> None:
    before = list(gc.callbacks)
    monitor = Monitor(run_folder, options=options())
    assert len(gc.callbacks) == len(before) + 1
    monitor.step()
    monitor.close()
    monitor.close()
    monitor.step()
    assert gc.callbacks == before
    assert [path for folder in ring_folders(run_folder) for path in folder.glob("*.ring")] == []
    records = read_monitor(run_folder)
    assert len(records.steps) == 1
    assert records.ranks[0].ended_in_order


def test_system_samples_tell_the_cores_that_may_be_used(run_folder: Path) -> None:
    Monitor(run_folder, options=options()).close()
    system = read_monitor(run_folder).system
    assert system["allowed_cores"].iloc[-1] == len(os.sched_getaffinity(0))
    assert system["resident_bytes"].iloc[-1] > 1e6


def test_a_second_start_of_a_rank_is_another_attempt(run_folder: Path) -> None:
    for count in (2, 3):
        with Monitor(run_folder, rank=1, options=options()) as monitor:
            for _ in range(count):
                monitor.step()
        time.sleep(0.002)
    records = read_monitor(run_folder)
    assert records.steps.groupby("attempt").size().to_dict() == {0: 2, 1: 3}
    assert [(each.rank, each.attempt, each.steps) for each in records.ranks] == [(1, 0, 2), (1, 1, 3)]


KILLED = """
import os, signal, sys, time
from hermes_agent.monitor import Monitor, Options
from hermes_agent.monitor.flush import FlushPlan
monitor = Monitor(sys.argv[1], rank=7, options=Options(capacity=64, plan=FlushPlan(flush_s=float(sys.argv[2]))))
for step in range(50):
    monitor.step()
if sys.argv[3:]:
    time.sleep(float(sys.argv[3]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_records_of_a_killed_process_survive_in_its_ring_although_nothing_was_flushed(run_folder: Path) -> None:
    assert start_script(KILLED, str(run_folder), "1000").wait(30) == -signal.SIGKILL
    records = read_monitor(run_folder)
    assert list(records.steps["step"]) == list(range(50))
    assert not records.ranks[0].ended_in_order
    assert records.ranks[0].lost_steps == 0


def test_records_of_a_killed_process_survive_in_its_file_although_the_ring_is_lost(run_folder: Path) -> None:
    assert start_script(KILLED, str(run_folder), "0.02", "1").wait(30) == -signal.SIGKILL
    for path in ring_folders(run_folder)[0].glob("*.ring"):
        path.unlink()
    assert list(read_monitor(run_folder).steps["step"]) == list(range(50))


def test_steps_faster_than_the_flushing_are_counted_as_lost(run_folder: Path) -> None:
    script = KILLED.replace("range(50)", "range(200)")
    assert start_script(script, str(run_folder), "1000").wait(30) == -signal.SIGKILL
    records = read_monitor(run_folder)
    assert list(records.steps["step"]) == list(range(136, 200))
    assert records.ranks[0].lost_steps == 136
    assert any("136 steps" in note for note in records.notes)


def test_a_forked_child_records_nothing(run_folder: Path) -> None:
    others = len(gc.callbacks)
    with Monitor(run_folder, options=options()) as monitor:
        monitor.step()
        child = os.fork()
        if child == 0:
            monitor.step()
            monitor.close()
            os._exit(0 if not monitor.on and len(gc.callbacks) == others else 1)
        assert os.waitpid(child, 0)[1] == 0
        monitor.step()
    assert list(read_monitor(run_folder).steps["step"]) == [0, 1]


def kept_files(process: int) -> list[Path]:
    """What this process holds open of the kernel's files on a process."""
    opened = (each.resolve() for each in Path("/proc/self/fd").iterdir())
    return [each for each in opened if each.parent == Path(f"/proc/{process}")]


def test_a_forked_child_keeps_none_of_the_monitors_files_on_the_process_open(run_folder: Path) -> None:
    before = len(kept_files(os.getpid()))
    with Monitor(run_folder, options=options()):
        deadline = time.monotonic() + 5
        while len(kept_files(os.getpid())) < before + 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(kept_files(os.getpid())) >= before + 3
        child = os.fork()
        if child == 0:
            os._exit(len(kept_files(os.getppid())))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == before


def test_a_folder_that_cannot_be_made_is_said_once_and_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monitor = Monitor(tmp_path / "file")
    seen = []
    for item in monitor.loader([1, 2, 3]):
        with monitor.waiting():
            seen.append(item)
        monitor.step()
    monitor.close()
    assert seen == [1, 2, 3]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("hermes-dx monitor: it could not start (")
    assert said.endswith("training goes on\n")


def test_a_step_that_cannot_be_recorded_is_said_once_and_ends_the_monitor(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callbacks = len(gc.callbacks)
    monitor = Monitor(run_folder, options=options())
    for _ in range(3):
        monitor.step(step="five")  # type: ignore[arg-type]
    assert not monitor.on
    assert len(gc.callbacks) == callbacks
    assert capsys.readouterr().err.count("a step could not be recorded") == 1


def test_files_do_not_grow_beyond_their_limit_and_the_ring_goes_on(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    from hermes_agent.monitor.flush import FlushPlan

    plan = FlushPlan(flush_s=0.01, largest_file_bytes=2500)
    with Monitor(run_folder, options=replace(options(), plan=plan)) as monitor:
        for _ in range(100):
            monitor.step()
            time.sleep(0.001)
    assert capsys.readouterr().err.count("as large as allowed") == 1
    records = read_monitor(run_folder)
    assert list(records.steps["step"]) == list(range(100))
    assert all(path.stat().st_size <= 2500 for path in (run_folder / "monitor").glob("*.steps"))


def test_monitors_whose_files_are_full_leave_no_file_open(run_folder: Path) -> None:
    from dataclasses import replace

    from hermes_agent.monitor.flush import FlushPlan

    full = replace(options(), plan=FlushPlan(flush_s=0.01, largest_file_bytes=2500))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for rank in range(3):
        with Monitor(run_folder, rank=rank, options=full) as monitor:
            for _ in range(100):
                monitor.step()
    assert len(rings_of(run_folder)) == 3
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_error_in_the_loader_reaches_the_script_unchanged(run_folder: Path) -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("sample 17")

    with Monitor(run_folder, options=options()) as monitor:
        with pytest.raises(KeyError, match="sample 17"):
            list(monitor.loader(failing()))
        assert monitor.on


def test_a_watched_loader_still_is_the_loader(run_folder: Path) -> None:
    class Loader(list[int]):
        batch_size = 4

    with Monitor(run_folder, options=options()) as monitor:
        loader = monitor.loader(Loader([1, 2]))
        assert len(loader) == 2  # type: ignore[arg-type]
        assert loader.batch_size == 4  # type: ignore[attr-defined]
        assert list(loader) == list(loader) == [1, 2]


def test_the_ring_goes_beside_the_records_where_shared_memory_has_no_room(run_folder: Path) -> None:
    assert open_ring_folder(run_folder, 1 << 60) == run_folder / "monitor"


def test_one_import_and_one_call_per_step_are_enough(tmp_path: Path) -> None:
    script = "from hermes_agent import monitor\nfor _ in range(3):\n    monitor.step()\n"
    folder = tmp_path / "run"
    process = start_script(script, RANK="5", WORLD_SIZE="8", HERMES_DX_RUN_FOLDER=str(folder))
    assert process.communicate(timeout=30) == ("", "")
    records = read_monitor(folder)
    assert list(records.steps["step"]) == [0, 1, 2]
    assert (records.ranks[0].rank, records.ranks[0].world_size) == (5, 8)


def test_importing_the_monitor_loads_nothing_of_ours_but_itself_and_nothing_heavy() -> None:
    script = """
    import sys
    before = set(sys.modules)
    from hermes_agent import monitor
    monitor.step, monitor.Monitor, monitor.LightningCallback, monitor.TrainerCallback
    for name in sorted({each.split(".")[0] for each in set(sys.modules) - before} - sys.stdlib_module_names):
        print(name)
    for name in sorted(each for each in sys.modules if each.startswith("hermes_agent.")):
        print(name.split(".")[1])
    """
    out, error = start_script(script).communicate(timeout=30)
    assert error == ""
    assert set(out.split()) <= {"hermes_agent", "monitor", "psutil"}


def test_a_folder_without_records_is_refused_with_what_to_do(tmp_path: Path) -> None:
    from tools.errors import InputError

    with pytest.raises(InputError, match="holds no monitor records"):
        read_monitor(tmp_path)


def rings_of(folder: Path) -> list[Path]:
    return [path for place in ring_folders(folder) for path in place.glob("*.ring")]


def test_after_a_step_that_cannot_be_recorded_no_rank_seems_to_live(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = Monitor(run_folder, options=options())
    monitor.step()
    ring = RingReader(rings_of(run_folder)[0])
    monitor.step(step=1.5)  # type: ignore[arg-type]
    assert ring.state()[2]
    heartbeat_ns = ring.state()[1]
    time.sleep(0.1)
    assert ring.state()[1] == heartbeat_ns
    assert rings_of(run_folder) == []
    assert "hermes-dx-monitor" not in {each.name for each in threading.enumerate()}
    monitor.step()
    monitor.close()
    assert list(read_monitor(run_folder).steps["step"]) == [0]
    assert capsys.readouterr().err.count("training goes on") == 1
    ring.close()


def test_when_records_cannot_be_written_the_ring_says_so_and_keeps_the_steps(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = Monitor(run_folder, options=options())
    ring = RingReader(rings_of(run_folder)[0])
    monitor._files.close()
    monitor.step()
    deadline = time.monotonic() + 5
    while not ring.state()[2] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ring.state()[2]
    monitor.step()
    assert not monitor.on
    monitor.close()
    assert [each.step for each in ring.new()] == [0]
    assert "cannot be written any more" in capsys.readouterr().err
    ring.close()


def test_nothing_of_the_ring_is_mapped_after_the_end(run_folder: Path) -> None:
    with Monitor(run_folder, options=options()) as monitor:
        (ring,) = rings_of(run_folder)
        assert str(ring) in Path("/proc/self/maps").read_text(encoding="utf-8")
        monitor.step()
    assert str(ring) not in Path("/proc/self/maps").read_text(encoding="utf-8")
    monitor.step()
    monitor.close()
    assert len(read_monitor(run_folder).steps) == 1

"""Job output, samples and traces of one folder on one time of day."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.run.model import Run
from tools.run.source_clock import SourceClock, clock_of, step_shift
from tools.sources.load import load_run
from tools.views.counters import counter_view
from tools.views.profile import Profile

BEGIN = datetime(2025, 9, 16, 5, 20, tzinfo=UTC)
WALLS_MS = np.round(500.0 + 150.0 * np.random.default_rng(7).random(120), 2).tolist()
ENDS_S = [sum(WALLS_MS[: at + 1]) / 1e3 for at in range(len(WALLS_MS))]
FIRST_TRACED, TRACED = 60, 8


def stamped(zone_h: float, walls_ms: list[float] = WALLS_MS, late_s: float = 0.004) -> str:
    """The output of a training whose clock is so many hours ahead of UTC and names no zone."""
    lines = []
    for at, wall_ms in enumerate(walls_ms):
        moment = BEGIN + timedelta(hours=zone_h, seconds=sum(walls_ms[: at + 1]) / 1e3 + late_s * (at % 3))
        lines.append(
            f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} step {at} loss 2.5 step_time {wall_ms:.2f}ms"
        )
    return "\n".join(lines) + "\n"


def samples(zone_h: float, begin_s: int, end_s: int) -> str:
    """Readings of one device each second: 100 % while the training runs, else 0 %."""
    rows = ["timestamp, index, utilization.gpu [%]"]
    for at in range(begin_s, end_s):
        moment = BEGIN + timedelta(hours=zone_h, seconds=at + 0.25)
        rows.append(
            f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d}, 0, {100 if 0 <= at < ENDS_S[-1] else 0} %"
        )
    return "\n".join(rows) + "\n"


def folder(path: Path, log: str, smi: str = "", traced: bool = True, steps: int = TRACED) -> Run:
    """A trace of steps in the middle of the training, its output and its samples."""
    if traced:
        events = []
        for number in range(steps):
            at = FIRST_TRACED + number
            begin_us = 1e6 * (ENDS_S[at] - WALLS_MS[at] / 1e3)
            events.append(span(f"ProfilerStep#{number}", begin_us, 1e3 * WALLS_MS[at] - 1, "user_annotation"))
            events.append(span("aten::mm", begin_us + 10, 90))
        base_ns = int(BEGIN.timestamp()) * 10**9
        write_trace(path / "rank0.json", events, distributedInfo=rank_info(0), baseTimeNanoseconds=base_ns)
    (path / "job.out").write_text(log)
    if smi:
        (path / "gpus.csv").write_text(smi)
    return load_run([path])


def of_log(run: Run) -> SourceClock:
    found = clock_of(run.clocks, "job.out")
    assert found is not None
    return found


@pytest.mark.parametrize("zone_h", [0.0, 2.0, -7.0, 5.75])
def test_the_zone_of_a_log_follows_from_its_steps(tmp_path: Path, zone_h: float) -> None:
    run = folder(tmp_path, stamped(zone_h))
    clock = of_log(run)
    assert (clock.method, clock.to, clock.step_shift) == ("steps", "the traces", -FIRST_TRACED)
    assert clock.offset_ns is not None
    assert clock.residual_ns is not None
    assert abs(clock.offset_ns + zone_h * 3600e9) <= clock.residual_ns <= 20e6


def test_the_slowest_printed_step_is_placed_in_the_trace(tmp_path: Path) -> None:
    run = folder(tmp_path, stamped(2.0))
    traced = range(FIRST_TRACED, FIRST_TRACED + TRACED)
    slowest = max(traced, key=lambda at: WALLS_MS[at])
    (note,) = [each for each in run.notes if "slowest traced step" in each]
    assert note == (
        f"job.out: its slowest traced step is {slowest} with {WALLS_MS[slowest]:.4g} ms, "
        f"step {slowest - FIRST_TRACED} of the traces"
    )


def test_samples_in_the_zone_of_the_log_are_kept_for_the_training_alone(tmp_path: Path) -> None:
    run = folder(tmp_path, stamped(2.0), samples(2.0, -60, 100))
    clock = clock_of(run.clocks, "gpus.csv")
    assert clock is not None
    assert (clock.method, clock.offset_ns) == ("stamps", -2 * 3600e9)
    view = counter_view(Profile(run))
    assert view is not None
    (device,) = view.devices.values()
    assert device.table["device_busy_pct"].unique().tolist() == [100.0]
    inside = sum(0 <= at + 0.25 <= ENDS_S[-1] for at in range(-60, 100))
    assert abs(len(device.table) - inside) <= 1
    assert f"gpus.csv: {160 - len(device.table)} of 160 readings are from before or after the training" in " ".join(
        run.notes
    )


def test_samples_without_a_zone_next_to_a_trace_alone_are_not_placed(tmp_path: Path) -> None:
    run = folder(tmp_path, "no steps here\n", samples(2.0, -60, 100))
    clock = clock_of(run.clocks, "gpus.csv")
    assert clock is not None
    assert (clock.method, clock.offset_ns) == ("none", None)
    assert "no time zone" in clock.why


def test_a_log_of_other_steps_is_not_placed(tmp_path: Path) -> None:
    regular = [530.0 + (at * 37 % 11) for at in range(120)]
    clock = of_log(folder(tmp_path, stamped(2.11, regular)))
    assert (clock.method, clock.offset_ns, clock.step_shift) == ("none", None, None)
    assert clock.why


def test_shifts_of_steps_add_up_over_the_source_between() -> None:
    clocks = (
        SourceClock("the traces", "reference", "the traces", 0.0, 0.0, 6, 0),
        SourceClock("the monitor", "stamps", "the traces", 0.0, 1e6, 0, -60),
        SourceClock("job.out", "steps", "the monitor", None, 5e6, 32, -1),
        SourceClock("the step log", "none"),
    )
    assert step_shift(clocks, "job.out", "the traces") == -61
    assert step_shift(clocks, "the traces", "job.out") == 61
    assert step_shift(clocks, "the step log", "the traces") is None


def ahead_of_utc(log: str, seconds: float) -> str:
    """The same output with times that name their zone, of a host whose clock is so far ahead."""
    lines = []
    for line in log.splitlines():
        moment = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f") + timedelta(seconds=seconds)
        lines.append(f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z{line[23:]}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("ahead_s", [0.0, 0.6, -0.6, 1.2])
def test_the_skew_of_a_log_that_names_its_zone_follows_from_its_steps(tmp_path: Path, ahead_s: float) -> None:
    """By the stamps alone the nearest ends are those of the steps before or after."""
    run = folder(tmp_path, ahead_of_utc(stamped(0.0), ahead_s))
    clock = of_log(run)
    assert (clock.method, clock.step_shift) == ("steps", -FIRST_TRACED)
    assert clock.offset_ns is not None
    assert clock.residual_ns is not None
    assert abs(clock.offset_ns + ahead_s * 1e9) <= clock.residual_ns <= 20e6


@pytest.mark.parametrize("ahead_s", [3.0, -5.0])
def test_steps_and_stamps_that_contradict_each_other_name_no_step(tmp_path: Path, ahead_s: float) -> None:
    run = folder(tmp_path, ahead_of_utc(stamped(0.0), ahead_s))
    clock = of_log(run)
    assert (clock.method, clock.offset_ns, clock.step_shift) == ("stamps", 0.0, None)
    assert clock.residual_ns is not None
    assert abs(ahead_s) <= clock.residual_ns / 1e9 <= abs(ahead_s) + 0.02
    assert not [each for each in run.notes if "slowest traced step" in each]


@pytest.mark.parametrize(("ahead_s", "shift"), [(0.0, -FIRST_TRACED), (0.6, None), (-0.6, None)])
def test_few_traced_steps_confirm_or_doubt_the_stamps_alone(tmp_path: Path, ahead_s: float, shift: int | None) -> None:
    clock = of_log(folder(tmp_path, ahead_of_utc(stamped(0.0), ahead_s), steps=6))
    assert (clock.method, clock.offset_ns, clock.step_shift) == ("stamps", 0.0, shift)
    assert clock.residual_ns is not None
    assert clock.residual_ns >= abs(ahead_s) * 1e9


def every_hundredth(first: int) -> str:
    """The output of 1,000 steps of 1 s of which every 100th prints a line."""
    lines = []
    for at in range(first + 99, first + 1000, 100):
        moment = BEGIN + timedelta(seconds=at - first + 1)
        lines.append(f"{moment:%Y-%m-%dT%H:%M:%S}Z iteration {at + 1}/ 9000 | elapsed time per iteration (ms): 1000.0")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("first", "before"),
    [pytest.param(0, 29, id="from the first step"), pytest.param(5000, 0, id="begins in the middle of a training")],
)
def test_readings_before_the_first_printed_line_are_of_the_training(tmp_path: Path, first: int, before: int) -> None:
    """Of readings each second from 30 s before to 19 s after the training, of which each step may begin 1 s earlier."""
    labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "Hostname": "h"}
    values = [[BEGIN.timestamp() + at, "99"] for at in range(-30, 1020)]
    result = {"resultType": "matrix", "result": [{"metric": labels, "values": values}]}
    (tmp_path / "prom.json").write_text(json.dumps({"status": "success", "data": result}))
    run = folder(tmp_path, every_hundredth(first), traced=False)
    left_out = [each for each in run.notes if "left out" in each]
    assert left_out == [f"prom.json: {before + 19} of 1050 readings are from before or after the training and left out"]


def smi(zone_h: float, begin_s: int, end_s: int, path: Path, log: str) -> SourceClock:
    """The clock of samples next to a log alone, without any trace."""
    run = folder(path, log, samples(zone_h, begin_s, end_s), traced=False)
    found = clock_of(run.clocks, "gpus.csv")
    assert found is not None
    return found


def test_samples_and_a_log_without_zones_that_meet_are_taken_to_be_of_one_clock(tmp_path: Path) -> None:
    clock = smi(2.0, -20, 100, tmp_path, stamped(2.0))
    assert (clock.method, clock.to, clock.offset_ns) == ("stamps", "job.out", 0.0)
    assert "assumption" in clock.why


@pytest.mark.parametrize("apart_h", [8.0, -5.5, 1.0])
def test_samples_that_meet_a_log_in_one_zone_alone_are_placed_in_it(tmp_path: Path, apart_h: float) -> None:
    clock = smi(2.0 + apart_h, 0, 60, tmp_path, stamped(2.0))
    assert (clock.method, clock.offset_ns) == ("stamps", -apart_h * 3600e9)
    assert "only whole number of half hours" in clock.why


@pytest.mark.parametrize(
    ("log", "zone_h", "begin_s", "why"),
    [
        (stamped(2.0), 2.11, 60, "no whole number of half hours"),
        (stamped(2.0, [60e3 + at for at in range(120)]), 6.0, 0, "several zones"),
    ],
)
def test_samples_that_meet_a_log_in_no_zone_or_in_several_are_not_placed(
    tmp_path: Path, log: str, zone_h: float, begin_s: int, why: str
) -> None:
    clock = smi(zone_h, begin_s, begin_s + 60, tmp_path, log)
    assert (clock.method, clock.offset_ns) == ("none", None)
    assert why in clock.why

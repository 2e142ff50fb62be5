"""The recorded steps of a run: from the monitor's records, step logs, the job's output or a profiler's own tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tools.errors import InputError
from tools.run.model import Run
from tools.views.steps.levels import level_at
from tools.views.steps.output_lines import LEAST_LINES, from_output
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import LEAST_STEPS as LEVEL_STEPS
from tools.views.steps.shape import StepSeries
from tools.views.steps.traced_rows import (
    UNTRACED,
    next_to_captured,
    of_chosen_steps,
    of_these_traces,
    traced_by_clock,
    traced_in_log,
)
from tools.views.steps.usual_rows import in_order, settling

LEAST_STEPS = 5  # fewer usual steps than this are no series
NS_PER_MS = 1e6


def series_of(run: Run) -> RunSeries | None:
    """From the monitor's records, else from step logs, else from the job's output, else None.

    None too when hardly a step was left alone.
    """
    for series in (_from_records(run), _from_log(run), from_output(run), _from_tables(run), _from_operations(run)):
        if series is not None and not series.usual.empty and len(series.slowest_ms) >= least_rows(series):
            return _at_level(series)
    return None


def least_rows(series: RunSeries) -> int:
    """The fewest usual rows that make a series."""
    return {"job_log": LEAST_LINES, "ascend": 1, "operations": 1}.get(series.origin, LEAST_STEPS)


def require_steps(run: Run, paths: Sequence[Path]) -> None:
    """Raises InputError where neither a trace nor a series holds any steps."""
    names = ", ".join(map(str, paths))
    if run.ranks and not any(step.wall_ns for rank in run.ranks for step in rank.steps):
        raise InputError(f"{names}: holds no training run: no time passes in its steps")
    parts = (
        run.job_log,
        run.ascend,
        run.counters,
        run.operations,
        run.collectives,
        run.host_stacks,
        run.snapshots or None,
        run.environments or None,
    )
    other = any(each is not None for each in parts)
    if not run.ranks and not run.cut and not other and series_of(run) is None:
        few = f"holds no trace, and records of fewer than {LEAST_STEPS} steps after the first ones"
        raise InputError(f"{names}: {few}; let the training run on, or capture some steps")


def _at_level(series: RunSeries) -> RunSeries:
    """The steps of the level that the last traced step is of; all where every rank has too few of them."""
    if series.captured.empty:
        return series
    slowest = series.slowest_ms
    steps = StepSeries(slowest.index.to_numpy(dtype=np.int64), np.asarray(slowest, dtype=np.float64))
    level = level_at(steps, int(series.captured["step"].max()))
    usual = series.usual[level.holds(series.usual["step"].to_numpy(dtype=np.int64))]
    counts = usual.groupby("rank").size().reindex(list(series.ranks), fill_value=0)
    if level.whole or counts.min() < LEVEL_STEPS:
        return series
    captured = series.captured[level.holds(series.captured["step"].to_numpy(dtype=np.int64))]
    return replace(series, usual=usual, captured=captured, level=level, every=series.usual)


def _from_records(run: Run) -> RunSeries | None:
    if run.records is None or run.records.steps.empty:
        return None
    table, notes = in_order(run.records.steps, ["attempt", "end_unix_ns"])
    begin = table["end_unix_ns"] - (table["wall_ms"] * NS_PER_MS).astype("int64")
    table = table.assign(begin_unix_ns=begin)
    traced = traced_by_clock(run, table)
    captured = table["captured"].to_numpy(dtype=bool) | (traced != UNTRACED)
    near = captured | next_to_captured(table["rank"], captured)
    # On every rank: where one is held up by its profiler the others wait for it.
    near = np.asarray(table["step"].isin(table["step"][near]), dtype=bool)
    usual = ~(near | table["first"].to_numpy(dtype=bool) | settling(table))
    profiled = of_these_traces(table, captured, of_chosen_steps(run, table, traced))
    return RunSeries(table[usual], table[profiled], "monitor", notes)


def _from_log(run: Run) -> RunSeries | None:
    if run.step_log is None or run.step_log.empty:
        return None
    table, notes = in_order(run.step_log, [])
    traced = traced_in_log(run, table)
    captured = traced != UNTRACED
    usual = ~(captured | next_to_captured(table["rank"], captured) | settling(table))
    return RunSeries(table[usual], table[of_chosen_steps(run, table, traced)], "step_log", notes)


PROFILED = "an Ascend profiler touched every step, and wrote its own account of it"


def _from_tables(run: Run) -> RunSeries | None:
    """Steps of an Ascend profiler's tables where no trace shows them: from the device's first to its last work."""
    if run.ascend is None or run.ascend.steps.empty or run.ranks:
        return None
    steps = run.ascend.steps[["rank", "step", "stage_ms"]].rename(columns={"stage_ms": "wall_ms"})
    table, notes = in_order(steps.assign(step=steps["step"].clip(lower=0)), [])
    return RunSeries(table, table.iloc[:0], "ascend", notes, averaged=PROFILED if len(table) else "")


SELECTED = "only some of the steps were recorded"


def _from_operations(run: Run) -> RunSeries | None:
    """Steps of a table of operations where no trace shows them: until the last operation of any rank has ended."""
    if run.operations is None or run.ranks:
        return None
    table, notes = in_order(run.operations.steps, [])
    numbers = np.unique(table["step"].to_numpy(dtype=np.int64))
    gaps = len(numbers) and numbers[-1] - numbers[0] >= len(numbers)
    return RunSeries(table, table.iloc[:0], "operations", notes, averaged=SELECTED if gaps else "")

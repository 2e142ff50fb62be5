"""Figures of single rows of profilers' tables in a job's output, as excerpts show them: time, share, calls, mean."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.metrics.recorded.job_tables import COMMUNICATION
from tools.run.recorded.job_log import JobLog
from tools.views.profile import Profile

EPOCH, BATCH = "run_training_epoch", "run_training_batch"  # of Lightning's profiler: the one holds the other


def tables_of(log: JobLog) -> dict[str, pd.DataFrame]:
    """Rows of profilers' tables by table, the longest first; of a row that was printed again the largest time."""
    rows = log.actions[log.actions["table"] != COMMUNICATION]
    longest = rows.sort_values("total_ms", ascending=False, kind="stable").drop_duplicates(["table", "action"])
    return {str(name): own for name, own in longest.groupby("table", sort=False)}


@metric("ms", "time in {name} by the table of {table}", "How long does this take by the profiler's table?")
def table_row_ms(profile: Profile, table: str, name: str) -> Measurement:
    """Total time of a row, as the table states it."""
    return _of_row(profile, table, name, "total_ms")


@metric("ms", "time in all rows of the table of {table}", "How much time do the rows of a profiler's table add up to?")
def table_rows_ms(profile: Profile, table: str) -> Measurement:
    """Sum of the rows, for tables of which none contains another one."""
    log = job_log(profile)
    tables = tables_of(log)
    rows = tables[choice("table", table, list(tables))]
    return of_lines(log, float(rows["total_ms"].sum()), rows, f"rows of {table}")


@metric("%", "share of {name} by the table of {table}", "How much of the time does this take by the profiler's table?")
def table_row_pct(profile: Profile, table: str, name: str) -> Measurement:
    """The share that the row states of all time of the table's kind, also of rows that were cut off."""
    return _of_row(profile, table, name, "share_pct")


@metric("calls", "calls of {name} by the table of {table}", "How often is this called by the profiler's table?")
def table_row_calls(profile: Profile, table: str, name: str) -> Measurement:
    """The number of calls that a row states."""
    return _of_row(profile, table, name, "calls")


@metric("ms", "mean time of {name} by the table of {table}", "How long is one call by the profiler's table?")
def table_row_mean_ms(profile: Profile, table: str, name: str) -> Measurement:
    """Mean time of a call, as the row states it or by its total and its calls."""
    return _of_row(profile, table, name, "mean_ms")


@metric("us", "mean time of {name} by the table of {table}", "How long is one short call by the profiler's table?")
def table_row_mean_us(profile: Profile, table: str, name: str) -> Measurement:
    """The same in microseconds."""
    found = _of_row(profile, table, name, "mean_ms")
    return replace(found, value=1e3 * found.value)


@metric("ms", "time of {outer} outside of {inner} by Lightning's profiler", "How long does Lightning itself take?")
def lightning_outside_ms(profile: Profile, outer: str, inner: str) -> Measurement:
    """Total of an action less that of an action inside of it."""
    log = job_log(profile)
    rows = tables_of(log).get("Lightning")
    if rows is None:
        raise UsageError("the job's output holds no table of Lightning's profiler")
    names = list(rows["action"])
    own = rows[rows["action"].isin([choice("action", outer, names), choice("action", inner, names)])]
    whole, part = (float(own.loc[own["action"] == name, "total_ms"].iloc[0]) for name in (outer, inner))
    return of_lines(log, whole - part, own, "rows of Lightning's profiler")


def _of_row(profile: Profile, table: str, name: str, column: str) -> Measurement:
    log = job_log(profile)
    tables = tables_of(log)
    rows = tables[choice("table", table, list(tables))]
    own = rows[rows["action"] == choice("row", name, list(rows["action"]))]
    value = float(own[column].iloc[0])
    if value != value:
        raise UsageError("the table does not state it")
    return of_lines(log, value, own, f"row of {table}")

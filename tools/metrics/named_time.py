"""Time and number of the events of one exact name: device kernels, and calls on the host."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, MetricTable, event_rows, of_events, of_rank, over_steps
from tools.run.events import HOST_WORK
from tools.views.host_calls import by_step, host_calls, step_kernels
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import kernel_work, operator_work

METRICS = MetricTable()


def kernel_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of the device kernels that start inside the rank's steps."""
    return view.in_steps(view.kernels)


def host_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of host work (operators, calls, marked spans, Python frames) inside the steps, on any thread."""
    return view.in_steps(np.flatnonzero(np.isin(view.kind, [int(kind) for kind in HOST_WORK])))


@METRICS.define("ms", "time per step in kernels named {name}", "How long do kernels of this name run per step?")
def rank_kernel_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Sum of the durations of the kernels of exactly this name per step of one rank; 0 where there are none."""
    view = profile.rank(rank)
    rows = _named(view, kernel_rows(view), name)
    total_ms = float((view.end[rows] - view.start[rows]).sum()) / 1e6
    return of_events(view, total_ms / len(view.steps), rows, "device kernels of one name")


@METRICS.define("calls", "kernels named {name} per step", "How many kernels of this name does a step of a rank run?")
def rank_kernel_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Kernels of exactly this name per step of one rank."""
    view = profile.rank(rank)
    rows = _named(view, kernel_rows(view), name)
    return of_events(view, len(rows) / len(view.steps), rows, "device kernels of one name")


@METRICS.define("ms", "host time per step in events named {name}", "How long is the host in events of this name?")
def host_name_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Time per step in which at least one host event of exactly this name is open; 0 where there are none."""
    view = profile.rank(rank)
    rows = _named(view, host_rows(view), name)
    value = over_steps(view.per_step_ms(view.covered(rows)), "mean")
    return of_events(view, value, rows, "host events of one name")


@METRICS.define("calls", "host events named {name} per step", "How often do events of this name occur?")
def host_name_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step."""
    view = profile.rank(rank)
    rows = _named(view, host_rows(view), name)
    return of_events(view, len(rows) / len(view.steps), rows, "host events of one name")


@METRICS.define("ms", "longest host event named {name}", "How long is the longest host call of this name?")
def host_name_longest_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """The longest host event of exactly this name in the recorded steps; 0 where there are none."""
    view = profile.rank(rank)
    rows = _named(view, host_rows(view), name)
    longest = float((view.end[rows] - view.start[rows]).max(initial=0)) / 1e6
    return of_events(view, longest, rows, "host events of one name")


def _named(view: RankProfile, rows: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    names = view.events.frame["name"].cat
    code = names.categories.get_indexer(pd.Index([name]))[0]
    return rows[names.codes.to_numpy()[rows] == code] if code >= 0 else rows[:0]


@METRICS.define("ms", "mean time per step and rank in kernels named {name}", "How long do such kernels run?")
def kernel_name_ms(profile: Profile, name: str) -> Measurement:
    """Time per step and rank in device kernels of exactly this name; 0 where there are none."""
    return _time_under(profile, kernel_work(profile), name, "device kernels of one name")


@METRICS.define("calls", "mean number of kernels named {name} per step and rank", "How many such kernels run per step?")
def kernel_name_count(profile: Profile, name: str) -> Measurement:
    """Device kernels of exactly this name per step and rank; 0 where there are none."""
    return _time_under(profile, kernel_work(profile), name, "device kernels of one name", "count")


@METRICS.define("ms", "mean own time of operators named {name} per step and rank", "How long do such operators run?")
def operator_name_ms(profile: Profile, name: str) -> Measurement:
    """Time per step and rank that operators of exactly this name take themselves; 0 where there are none."""
    return _time_under(profile, operator_work(profile), name, "operators of one name, own time")


def _time_under(profile: Profile, table: pd.DataFrame, name: str, selector: str, column: str = "ms") -> Measurement:
    value = float(table[column].get(name, 0.0))
    windows = [view.rank.window() for view in profile.ranks]
    return Measurement(
        value,
        lambda: table[table.index == name].reset_index(),
        selector,
        profile.run.rank_numbers,
        tuple(int(number) for number in sorted(profile.breakdown["number"].unique())),
        (min(start for start, _ in windows), max(end for _, end in windows)),
    )


PLACES = ("host", "device")


@METRICS.define("ms", "own host time per step in calls named {name}", "How long is the host itself in such calls?")
def host_own_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Own time per step of the training threads' host events of exactly this name; 0 where there are none."""
    view = profile.rank(rank)
    table = _rows_named(view, host_calls(profile, rank), name)
    return _of_events(view, float(table["own_ns"].sum()) / 1e6 / len(view.steps), table)


@METRICS.define("calls", "host calls named {name} per step", "How often does a step make such calls?")
def host_own_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step on the training threads."""
    view = profile.rank(rank)
    table = _rows_named(view, host_calls(profile, rank), name)
    return _of_events(view, len(table) / len(view.steps), table)


@METRICS.define("ms", "extra {place} time in events named {name}", "How much longer than usual is one step there?")
def step_name_excess_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """Own time of events of this name in one step, minus its median over the rank's steps.

    ``place`` says whether host calls or device kernels of that name are meant.
    """
    view = profile.rank(rank)
    table = _rows_named(view, _table(profile, rank, place), name)
    sums = by_step(view, table)
    _known_step(view, step)
    value = 0.0 if sums.empty else float(sums[step].iloc[0] - sums.iloc[0].median()) / 1e6
    return _of_events(view, value, table)


@METRICS.define("ms", "longest {place} event named {name}", "How long is the longest event of this name in one step?")
def step_name_longest_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """The longest single event of this name in one step, with all that runs inside it; 0 where there is none."""
    view = profile.rank(rank)
    _known_step(view, step)
    table = _rows_named(view, _table(profile, rank, place), name)
    chosen = table[table["step"] == step]
    longest = float(chosen["duration_ns"].max()) / 1e6 if len(chosen) else 0.0
    return _of_events(view, longest, chosen)


def _table(profile: Profile, rank: int, place: str) -> pd.DataFrame:
    match place:
        case "host":
            return host_calls(profile, rank)
        case "device":
            return step_kernels(profile, rank)
        case _:
            raise UsageError(f"there is no place {place!r}; choose one of {', '.join(PLACES)}")


def _rows_named(view: RankProfile, table: pd.DataFrame, name: str) -> pd.DataFrame:
    code = view.events.frame["name"].cat.categories.get_indexer(pd.Index([name]))[0]
    return table[table["name"] == code] if code >= 0 else table.iloc[:0]


def _known_step(view: RankProfile, step: int) -> None:
    if step not in view.steps["number"].to_numpy():
        raise UsageError(f"there is no step {step} on rank {view.rank.rank}")


def _of_events(view: RankProfile, value: float, table: pd.DataFrame) -> Measurement:
    def rows() -> pd.DataFrame:
        events = event_rows(view, table["row"].to_numpy())
        return events.assign(step=table["step"].to_numpy(), own_ns=table["own_ns"].to_numpy())

    return of_rank(view, value, rows, "events of one name, own time")

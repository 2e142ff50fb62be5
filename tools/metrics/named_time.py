"""Time and number of the events of one exact name: device kernels, and calls on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, event_rows, metric, of_events, of_rank, of_ranks
from tools.run.events import HOST_WORK
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import by_step, host_calls, kernel_work, operator_work, step_kernels

KERNELS, HOST_EVENTS = "device kernels of one name", "host events of one name"
Rows = NDArray[np.int64]


def kernel_rows(view: RankProfile) -> Rows:
    """Rows of the device kernels that start inside the rank's steps."""
    return view.in_steps(view.kernels)


def host_rows(view: RankProfile) -> Rows:
    """Rows of host work (operators, calls, marked spans, Python frames) inside the steps, on any thread."""
    return view.in_steps(np.flatnonzero(np.isin(view.kind, [int(kind) for kind in HOST_WORK])))


@metric("ms", "time per step in kernels named {name}", "How long do kernels of this name run per step?")
def rank_kernel_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Sum of the durations of the kernels of exactly this name per step of one rank; 0 where only others run them."""
    view, rows = _named(profile, rank, name, "kernel", kernel_rows)
    return of_events(view, float((view.end[rows] - view.start[rows]).sum()) / 1e6 / len(view.steps), rows, KERNELS)


@metric("calls", "kernels named {name} per step", "How many kernels of this name does a step of a rank run?")
def rank_kernel_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Kernels of exactly this name per step of one rank."""
    view, rows = _named(profile, rank, name, "kernel", kernel_rows)
    return of_events(view, len(rows) / len(view.steps), rows, KERNELS)


@metric("ms", "host time per step in events named {name}", "How long is the host in events of this name?")
def host_name_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Time per step in which at least one host event of exactly this name is open; 0 where only others have them."""
    view, rows = _named(profile, rank, name, "host event", host_rows)
    return of_events(view, float(view.host_per_step_ms(view.covered(rows)).mean()), rows, HOST_EVENTS)


@metric("calls", "host events named {name} per step", "How often do events of this name occur?")
def host_name_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step."""
    view, rows = _named(profile, rank, name, "host event", host_rows)
    return of_events(view, len(rows) / len(view.steps), rows, HOST_EVENTS)


@metric("ms", "longest host event named {name}", "How long is the longest host call of this name?")
def host_name_longest_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """The longest host event of exactly this name in the recorded steps; 0 where only other ranks have them."""
    view, rows = _named(profile, rank, name, "host event", host_rows)
    return of_events(view, float((view.end[rows] - view.start[rows]).max(initial=0)) / 1e6, rows, HOST_EVENTS)


def _named(
    profile: Profile, rank: int, name: str, what: str, rows_of: Callable[[RankProfile], Rows]
) -> tuple[RankProfile, Rows]:
    """The rank and its events of that name; UsageError with the nearest names where no rank has any."""
    view = profile.rank(rank)
    rows = rows_of(view)
    chosen = rows[view.codes[rows] == view.code(name)]
    if not len(chosen):
        choice(what, name, {text: 0 for each in profile.ranks for text in each.distinct_names(rows_of(each))})
    return view, chosen


@metric("ms", "mean time per step and rank in kernels named {name}", "How long do such kernels run?")
def kernel_name_ms(profile: Profile, name: str, compared: int = 0) -> Measurement:
    """Time per step and rank in device kernels of exactly this name; with ``compared`` 1, 0 where the run has none."""
    return _work(profile, kernel_work(profile), name, compared, "kernel", KERNELS)


@metric("calls", "mean number of kernels named {name} per step and rank", "How many such kernels run per step?")
def kernel_name_count(profile: Profile, name: str, compared: int = 0) -> Measurement:
    """Device kernels of exactly this name per step and rank; with ``compared`` 1, 0 where the run has none."""
    return _work(profile, kernel_work(profile), name, compared, "kernel", KERNELS, "count")


@metric("ms", "mean own time of operators named {name} per step and rank", "How long do such operators run?")
def operator_name_ms(profile: Profile, name: str, compared: int = 0) -> Measurement:
    """Own time per step and rank of operators of exactly this name; with ``compared`` 1, 0 where the run has none."""
    return _work(profile, operator_work(profile), name, compared, "operator", "operators of one name, own time")


def _work(
    profile: Profile, table: pd.DataFrame, name: str, compared: int, what: str, selector: str, column: str = "ms"
) -> Measurement:
    if not compared:
        choice(what, name, list(table.index))
    return of_ranks(profile, float(table[column].get(name, 0.0)), table[table.index == name].reset_index(), selector)


PLACES = {"host": host_calls, "device": step_kernels}


@metric("ms", "own host time per step in calls named {name}", "How long is the host itself in such calls?")
def host_own_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Own time per step of the training threads' host events of exactly this name; 0 where only others have them."""
    view, table = _named_calls(profile, rank, name)
    return _of_calls(view, float(table["own_ns"].sum()) / 1e6 / len(view.steps), table)


@metric("calls", "host calls named {name} per step", "How often does a step make such calls?")
def host_own_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step on the training threads."""
    view, table = _named_calls(profile, rank, name)
    return _of_calls(view, len(table) / len(view.steps), table)


@metric("%", "share of the step of rank {rank} in {place} events named {name}", "How much of a step are such events?")
def named_own_pct(profile: Profile, rank: int, name: str, place: str = "host") -> Measurement:
    """Own time of host calls, or time of device kernels (``place``), of exactly this name, of the mean step."""
    view, table = _named_calls(profile, rank, name, place)
    steps = view.host_steps if place == "host" else view.steps
    whole_ns = float((steps["end_ns"] - steps["start_ns"]).sum())
    return _of_calls(view, 100.0 * float(table["own_ns"].sum()) / whole_ns, table)


@metric("ms", "extra {place} time in events named {name}", "How much longer than usual is one step there?")
def step_name_excess_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """Own time of host calls or device kernels (``place``) of this name in one step, minus its median over steps."""
    view, table = _named_calls(profile, rank, name, place, step)
    sums = by_step(view, table)
    return _of_calls(view, 0.0 if sums.empty else float(sums[step].iloc[0] - sums.iloc[0].median()) / 1e6, table)


@metric("ms", "longest {place} event named {name}", "How long is the longest event of this name in one step?")
def step_name_longest_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """The longest single event of this name in one step, with all that runs inside it; 0 where there is none."""
    view, table = _named_calls(profile, rank, name, place, step)
    chosen = table[table["step"] == step]
    return _of_calls(view, float(chosen["duration_ns"].max()) / 1e6 if len(chosen) else 0.0, chosen)


def _named_calls(
    profile: Profile, rank: int, name: str, place: str = "host", step: int | None = None
) -> tuple[RankProfile, pd.DataFrame]:
    """The calls of that name; UsageError where there is no such place, step or name."""
    calls_of = PLACES[choice("place", place, PLACES)]
    if step is not None and step not in profile.rank(rank).steps["number"].to_numpy():
        raise UsageError(f"there is no step {step} on rank {rank}")
    view, rows = _named(
        profile, rank, name, f"{place} call", lambda each: calls_of(profile, each.rank.rank)["row"].to_numpy()
    )
    table = calls_of(profile, rank)
    return view, table[table["row"].isin(rows)]


def _of_calls(view: RankProfile, value: float, table: pd.DataFrame) -> Measurement:
    def rows() -> pd.DataFrame:
        events = event_rows(view, table["row"].to_numpy())
        return events.assign(step=table["step"].to_numpy(), own_ns=table["own_ns"].to_numpy())

    return of_rank(view, value, rows, "events of one name, own time")

"""Time and number of the events of one exact name: device kernels, and calls on the host."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, MetricTable, event_rows, of_events, of_rank, of_ranks
from tools.run.events import HOST_WORK
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import by_step, host_calls, kernel_work, operator_work, step_kernels

METRICS = MetricTable()
KERNELS, HOST_EVENTS = "device kernels of one name", "host events of one name"


def kernel_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of the device kernels that start inside the rank's steps."""
    return view.in_steps(view.kernels)


def host_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of host work (operators, calls, marked spans, Python frames) inside the steps, on any thread."""
    return view.in_steps(np.flatnonzero(np.isin(view.kind, [int(kind) for kind in HOST_WORK])))


@METRICS.define("ms", "time per step in kernels named {name}", "How long do kernels of this name run per step?")
def rank_kernel_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Sum of the durations of the kernels of exactly this name per step of one rank; 0 where there are none."""
    view, rows = _kernels(profile, rank, name)
    total_ms = float((view.end[rows] - view.start[rows]).sum()) / 1e6
    return of_events(view, total_ms / len(view.steps), rows, KERNELS)


@METRICS.define("calls", "kernels named {name} per step", "How many kernels of this name does a step of a rank run?")
def rank_kernel_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Kernels of exactly this name per step of one rank."""
    view, rows = _kernels(profile, rank, name)
    return of_events(view, len(rows) / len(view.steps), rows, KERNELS)


@METRICS.define("ms", "host time per step in events named {name}", "How long is the host in events of this name?")
def host_name_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Time per step in which at least one host event of exactly this name is open; 0 where there are none."""
    view, rows = _host_events(profile, rank, name)
    return of_events(view, float(view.per_step_ms(view.covered(rows)).mean()), rows, HOST_EVENTS)


@METRICS.define("calls", "host events named {name} per step", "How often do events of this name occur?")
def host_name_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step."""
    view, rows = _host_events(profile, rank, name)
    return of_events(view, len(rows) / len(view.steps), rows, HOST_EVENTS)


@METRICS.define("ms", "longest host event named {name}", "How long is the longest host call of this name?")
def host_name_longest_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """The longest host event of exactly this name in the recorded steps; 0 where there are none."""
    view, rows = _host_events(profile, rank, name)
    return of_events(view, float((view.end[rows] - view.start[rows]).max(initial=0)) / 1e6, rows, HOST_EVENTS)


def _kernels(profile: Profile, rank: int, name: str) -> tuple[RankProfile, NDArray[np.int64]]:
    view = profile.rank(rank)
    return view, _named(view, kernel_rows(view), name)


def _host_events(profile: Profile, rank: int, name: str) -> tuple[RankProfile, NDArray[np.int64]]:
    view = profile.rank(rank)
    return view, _named(view, host_rows(view), name)


def _named(view: RankProfile, rows: NDArray[np.int64], name: str) -> NDArray[np.int64]:
    codes = view.events.frame["name"].cat.codes.to_numpy()[rows]
    return np.asarray(rows[codes == _code(view, name)], dtype=np.int64)


def _code(view: RankProfile, name: str) -> int:
    """The code of the recorded name; -2, which no event has, where it is not recorded."""
    code = int(view.events.frame["name"].cat.categories.get_indexer(pd.Index([name]))[0])
    return code if code >= 0 else -2


@METRICS.define("ms", "mean time per step and rank in kernels named {name}", "How long do such kernels run?")
def kernel_name_ms(profile: Profile, name: str) -> Measurement:
    """Time per step and rank in device kernels of exactly this name; 0 where there are none."""
    return _time_under(profile, kernel_work(profile), name, KERNELS)


@METRICS.define("calls", "mean number of kernels named {name} per step and rank", "How many such kernels run per step?")
def kernel_name_count(profile: Profile, name: str) -> Measurement:
    """Device kernels of exactly this name per step and rank; 0 where there are none."""
    return _time_under(profile, kernel_work(profile), name, KERNELS, "count")


@METRICS.define("ms", "mean own time of operators named {name} per step and rank", "How long do such operators run?")
def operator_name_ms(profile: Profile, name: str) -> Measurement:
    """Time per step and rank that operators of exactly this name take themselves; 0 where there are none."""
    return _time_under(profile, operator_work(profile), name, "operators of one name, own time")


def _time_under(profile: Profile, table: pd.DataFrame, name: str, selector: str, column: str = "ms") -> Measurement:
    rows = table[table.index == name].reset_index()
    return of_ranks(profile, float(table[column].get(name, 0.0)), rows, selector)


PLACES = {"host": host_calls, "device": step_kernels}


@METRICS.define("ms", "own host time per step in calls named {name}", "How long is the host itself in such calls?")
def host_own_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Own time per step of the training threads' host events of exactly this name; 0 where there are none."""
    view, table = _named_calls(profile, rank, name)
    return _of_calls(view, float(table["own_ns"].sum()) / 1e6 / len(view.steps), table)


@METRICS.define("calls", "host calls named {name} per step", "How often does a step make such calls?")
def host_own_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step on the training threads."""
    view, table = _named_calls(profile, rank, name)
    return _of_calls(view, len(table) / len(view.steps), table)


@METRICS.define("ms", "extra {place} time in events named {name}", "How much longer than usual is one step there?")
def step_name_excess_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """Own time of host calls or device kernels (``place``) of this name in one step, minus its median over steps."""
    view, table = _named_calls(profile, rank, name, place, step)
    sums = by_step(view, table)
    value = 0.0 if sums.empty else float(sums[step].iloc[0] - sums.iloc[0].median()) / 1e6
    return _of_calls(view, value, table)


@METRICS.define("ms", "longest {place} event named {name}", "How long is the longest event of this name in one step?")
def step_name_longest_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """The longest single event of this name in one step, with all that runs inside it; 0 where there is none."""
    view, table = _named_calls(profile, rank, name, place, step)
    chosen = table[table["step"] == step]
    return _of_calls(view, float(chosen["duration_ns"].max()) / 1e6 if len(chosen) else 0.0, chosen)


def _named_calls(
    profile: Profile, rank: int, name: str, place: str = "host", step: int | None = None
) -> tuple[RankProfile, pd.DataFrame]:
    """The calls of that name; UsageError where there is no such place or step."""
    view = profile.rank(rank)
    if place not in PLACES:
        raise UsageError(f"there is no place {place!r}; choose one of {', '.join(PLACES)}")
    if step is not None and step not in view.steps["number"].to_numpy():
        raise UsageError(f"there is no step {step} on rank {rank}")
    table = PLACES[place](profile, rank)
    return view, table[table["name"] == _code(view, name)]


def _of_calls(view: RankProfile, value: float, table: pd.DataFrame) -> Measurement:
    def rows() -> pd.DataFrame:
        events = event_rows(view, table["row"].to_numpy())
        return events.assign(step=table["step"].to_numpy(), own_ns=table["own_ns"].to_numpy())

    return of_rank(view, value, rows, "events of one name, own time")

"""Host calls by their own time, and what in one step took longer than in the usual one."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, MetricTable, event_rows, of_rank
from tools.views.host_calls import by_step, host_calls, step_kernels
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

METRICS = MetricTable()

PLACES = ("host", "device")


@METRICS.define("ms", "own host time per step in calls named {name}", "How long is the host itself in such calls?")
def host_own_ms(profile: Profile, rank: int, name: str) -> Measurement:
    """Own time per step of the training threads' host events of exactly this name; 0 where there are none."""
    view = profile.rank(rank)
    table = _named(view, host_calls(profile, rank), name)
    return _of_events(view, float(table["own_ns"].sum()) / 1e6 / len(view.steps), table)


@METRICS.define("calls", "host calls named {name} per step", "How often does a step make such calls?")
def host_own_count(profile: Profile, rank: int, name: str) -> Measurement:
    """Host events of exactly this name per step on the training threads."""
    view = profile.rank(rank)
    table = _named(view, host_calls(profile, rank), name)
    return _of_events(view, len(table) / len(view.steps), table)


@METRICS.define("ms", "extra {place} time in events named {name}", "How much longer than usual is one step there?")
def step_name_excess_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """Own time of events of this name in one step, minus its median over the rank's steps.

    ``place`` says whether host calls or device kernels of that name are meant.
    """
    view = profile.rank(rank)
    table = _named(view, _table(profile, rank, place), name)
    sums = by_step(view, table)
    _known_step(view, step)
    value = 0.0 if sums.empty else float(sums[step].iloc[0] - sums.iloc[0].median()) / 1e6
    return _of_events(view, value, table)


@METRICS.define("ms", "longest {place} event named {name}", "How long is the longest event of this name in one step?")
def step_name_longest_ms(profile: Profile, rank: int, step: int, name: str, place: str = "host") -> Measurement:
    """The longest single event of this name in one step, with all that runs inside it; 0 where there is none."""
    view = profile.rank(rank)
    _known_step(view, step)
    table = _named(view, _table(profile, rank, place), name)
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


def _named(view: RankProfile, table: pd.DataFrame, name: str) -> pd.DataFrame:
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

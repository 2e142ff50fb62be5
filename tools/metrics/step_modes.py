"""Groups of steps (``tools.views.steps.modes``): length, frequency, cost, and what differs from the shortest group.

Groups are counted from 1, the shortest. What a group costs is its excess times its frequency.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.host.pauses import at_place, pause_places, places
from tools.metrics.measurement import Measurement, choice, event_rows, metric, of_ranks
from tools.views.parts import PARTS
from tools.views.profile import Profile, memoized
from tools.views.steps.coarse import step_series
from tools.views.steps.modes import Mode, common_steps, step_modes
from tools.views.work import host_calls, step_kernels

HALF = 0.5  # of a difference: what makes up so much of it accounts for it
CALLS = {"host": host_calls, "device": step_kernels}


@dataclass(frozen=True)
class Difference:
    """What takes longer in a group of steps than in the shortest: rank, part, and what accounts for most of it."""

    rank: int
    part: str
    name: str = ""  # host calls, Python frames or kernels
    where: str = "host"  # of these calls: ``host`` or ``device``
    pause: int = 0  # the place of a pause of the host, see ``tools.metrics.host.pauses``


@memoized
def part_differences(profile: Profile, mode: int) -> pd.DataFrame:
    """Of each rank (index) and part of the step (columns): median in a group minus median in the shortest, ms."""
    table, columns = profile.breakdown, [f"{part}_ns" for part in PARTS]
    own, shortest = (table[table["number"].isin(group.steps)] for group in _pair(profile, mode))
    found: pd.DataFrame = (own.groupby("rank")[columns].median() - shortest.groupby("rank")[columns].median()) / 1e6
    return found.set_axis(list(PARTS), axis=1)


@memoized
def difference(profile: Profile, mode: int) -> Difference:
    """Where the extra time of a group is: on a rank that takes longer itself before those that wait for it."""
    table = part_differences(profile, mode)
    own = table.drop(columns="exposed_communication")
    amounts = own if own.to_numpy().max() >= HALF * table.to_numpy().max() else table
    row, column = divmod(int(amounts.to_numpy().argmax()), amounts.shape[1])
    rank, part = int(amounts.index[row]), str(amounts.columns[column])
    least_ms = HALF * float(amounts.to_numpy().max())
    if part not in ("compute", "host"):
        return Difference(rank, part)
    where = "device" if part == "compute" and profile.rank(rank).rank.has_device else "host"
    by_name = _by_name(profile, rank, mode, where)
    if len(by_name) and by_name.max() >= least_ms:
        return Difference(rank, part, str(by_name.idxmax()), where)
    pauses_ms = _pauses_ms(profile, mode, rank)
    if part == "host" and len(pauses_ms) and pauses_ms.max() >= least_ms:
        return Difference(rank, part, pause=1 + int(pauses_ms.argmax()))
    return Difference(rank, part)


def _pair(profile: Profile, mode: int) -> tuple[Mode, Mode]:
    """The group of that number and the shortest one."""
    groups = step_modes(profile)
    if not 1 <= mode <= len(groups):
        raise UsageError(f"the steps of the run form {len(groups)} groups; there is no group {mode}")
    return groups[mode - 1], groups[0]


def _by_name(profile: Profile, rank: int, mode: int, where: str) -> pd.Series[float]:
    """Own time per step in calls by name, mean over the group's steps minus mean over the shortest's, ms."""
    calls, names = CALLS[where](profile, rank), profile.rank(rank).categories
    own, shortest = (
        calls[calls["step"].isin(group.steps)].groupby("name")["own_ns"].sum() / len(group.steps) / 1e6
        for group in _pair(profile, mode)
    )
    found = own.sub(shortest, fill_value=0.0)
    return found.set_axis([str(names[int(code)]) for code in found.index])


def _pauses_ms(profile: Profile, mode: int, rank: int) -> NDArray[np.float64]:
    """Pauses of the host per step at each of ``places``, mean over the group's steps minus over the shortest's, ms."""
    table, count = pause_places(profile, rank), len(places(profile, rank))
    lasting_ns = (table["end_ns"] - table["start_ns"]).to_numpy(np.float64)
    own, shortest = (
        np.bincount(table["place"], lasting_ns * table["step"].isin(group.steps), count + 1) / len(group.steps) / 1e6
        for group in _pair(profile, mode)
    )
    return np.asarray((own - shortest)[1:])


def _of_mode(profile: Profile, mode: int, value: float, rank: int | None = None) -> Measurement:
    series, group = step_series(profile, rank), _pair(profile, mode)[0]
    table = pd.DataFrame({"number": series.numbers, "step_ms": series.ms})
    table = table.assign(of_group=table["number"].isin(group.steps))
    return of_ranks(profile, value, table, "steps by length, split at the largest gaps", rank, group.steps)


@metric("ms", "median step time of group {mode} of the steps", "How long are the steps of this group?")
def step_mode_ms(profile: Profile, mode: int) -> Measurement:
    """Median over the steps of a group, the slowest rank of each."""
    return _of_mode(profile, mode, _pair(profile, mode)[0].median_ms)


@metric("steps", "number of steps in group {mode}", "How many steps are of this length?")
def step_mode_steps(profile: Profile, mode: int) -> Measurement:
    """Steps of a group."""
    return _of_mode(profile, mode, len(_pair(profile, mode)[0].steps))


@metric("ms", "time per step that group {mode} adds to the mean step", "What do the longer steps cost per step?")
def step_mode_cost_ms(profile: Profile, mode: int) -> Measurement:
    """Excess of the group's median over the shortest's, times the group's share of all steps."""
    own, shortest = _pair(profile, mode)
    frequency = len(own.steps) / len(common_steps(profile))
    return _of_mode(profile, mode, (own.median_ms - shortest.median_ms) * frequency)


@metric("ms", "extra {part} in group {mode} of the steps", "Which part is longer in these steps?")
def step_mode_part_ms(profile: Profile, mode: int, part: str, rank: int) -> Measurement:
    """Median of a part of the rank's step over the group, minus that over the shortest group."""
    value = float(part_differences(profile, mode)[choice("part", part, PARTS)].loc[profile.rank(rank).rank.rank])
    table = profile.breakdown[profile.breakdown["rank"] == rank]
    return of_ranks(profile, value, table, f"breakdown part {part}", rank, _pair(profile, mode)[0].steps)


@metric("ms", "extra own time in calls named {name} in group {mode} of the steps", "Which calls are longer?")
def step_mode_name_ms(profile: Profile, mode: int, rank: int, name: str, where: str = "host") -> Measurement:
    """Own time per step in host calls or device kernels of a name, mean over the group minus over the shortest."""
    choice("place", where, CALLS)
    by_name, view, calls = _by_name(profile, rank, mode, where), profile.rank(rank), CALLS[where](profile, rank)
    value = float(by_name[choice("call", name, list(by_name.index))])
    rows = calls["row"].to_numpy(np.int64)[calls["name"].to_numpy() == view.code(name)]
    return of_ranks(profile, value, event_rows(view, rows), "events of one name", rank, _pair(profile, mode)[0].steps)


@metric("ms", "extra host pause in group {mode} of the steps", "Which pause of the host is longer in these steps?")
def step_mode_pause_ms(profile: Profile, mode: int, rank: int, place: int) -> Measurement:
    """Pauses of the host at a place, mean over the group's steps minus that over the shortest's."""
    table, steps = at_place(profile, rank, place), _pair(profile, mode)[0].steps
    value = float(_pauses_ms(profile, mode, rank)[place - 1])
    return of_ranks(profile, value, table, "no operator, call, collective or device work", rank, steps)

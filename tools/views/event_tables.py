"""All operators and all kernels of a run by name, one row per rank and name; the units stand in the column names.

Operators: rank, name, calls, calls_per_step, total_ms, own_ms (without operators inside them), own_ms_per_step,
mean_us, longest_us, device_ms (kernels, copies and memsets that they launch themselves), device_ms_per_step, share_pct
(of the rank's own time).
Kernels: rank, name, kernel_class, calls, calls_per_step, total_ms, ms_per_step, mean_us, longest_us, share_pct (of the
rank's kernel time). Only events that start inside the steps count; operators of any host thread.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.knowledge.name_patterns import kernel_class
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import own_ns


def operators(profile: Profile) -> pd.DataFrame:
    """The table of operators, the largest own time first within each rank."""
    return pd.concat([_operators(view) for view in profile.ranks], ignore_index=True)


def kernels(profile: Profile) -> pd.DataFrame:
    """The table of kernels, the longest time first within each rank."""
    return pd.concat([_kernels(view) for view in profile.ranks], ignore_index=True)


def _operators(view: RankProfile) -> pd.DataFrame:
    every = np.flatnonzero(view.kind == EventKind.OPERATOR)
    own = own_ns(view.track[every], view.start[every], view.end[every])
    inside = view.step_of(every) >= 0
    device = np.zeros(len(view.start), dtype=np.int64)
    launched = view.launches
    took = (launched["end_ns"] - launched["start_ns"]).to_numpy()
    by = view.launching_operators
    np.add.at(device, by[by >= 0], took[by >= 0])
    rows = every[inside]
    table = _by_name(view, rows, {"own": own[inside], "device": device[rows]})
    table = table.rename(columns={"device_ns": "device_ms"}).assign(device_ms=table["device_ns"] / 1e6)
    own_ms = table["own_ns"] / 1e6
    table = table.assign(own_ms=own_ms, own_ms_per_step=own_ms / len(view.steps), share_pct=_share(own_ms))
    table = table.assign(device_ms_per_step=table["device_ms"] / len(view.steps))
    columns = ["rank", "name", "calls", "calls_per_step", "total_ms", "own_ms", "own_ms_per_step"]
    ordered = table.sort_values(["own_ms", "name"], ascending=[False, True], kind="stable")
    return ordered[[*columns, "mean_us", "longest_us", "device_ms", "device_ms_per_step", "share_pct"]]


def _kernels(view: RankProfile) -> pd.DataFrame:
    table = _by_name(view, view.in_steps(view.kernels), {})
    table = table.assign(ms_per_step=table["total_ms"] / len(view.steps), share_pct=_share(table["total_ms"]))
    table = table.assign(kernel_class=[kernel_class(name) for name in table["name"]])
    columns = ["rank", "name", "kernel_class", "calls", "calls_per_step", "total_ms", "ms_per_step"]
    ordered = table.sort_values(["total_ms", "name"], ascending=[False, True], kind="stable")
    return ordered[[*columns, "mean_us", "longest_us", "share_pct"]]


def _by_name(view: RankProfile, rows: NDArray[np.int64], sums: dict[str, NDArray[np.int64]]) -> pd.DataFrame:
    """Calls, times and the sums (``<name>_ns``) of the rows by name."""
    used, place = np.unique(view.codes[rows], return_inverse=True)
    length = view.end[rows] - view.start[rows]
    calls = np.bincount(place, minlength=len(used))
    total, longest = np.zeros(len(used), dtype=np.int64), np.zeros(len(used), dtype=np.int64)
    np.add.at(total, place, length)
    np.maximum.at(longest, place, length)
    columns: dict[str, object] = {"rank": view.rank.rank, "name": [str(name) for name in view.categories[used]]}
    columns |= {"calls": calls, "calls_per_step": calls / max(len(view.steps), 1), "total_ms": total / 1e6}
    columns |= {"mean_us": total / np.maximum(calls, 1) / 1e3, "longest_us": longest / 1e3}
    for name, values in sums.items():
        added = np.zeros(len(used), dtype=np.int64)
        np.add.at(added, place, values)
        columns[f"{name}_ns"] = added
    return pd.DataFrame(columns, index=range(len(used)))


def _share(values: pd.Series[float]) -> pd.Series[float]:
    whole = float(values.sum())
    return 100.0 * values / whole if whole > 0 else values

"""Runs of element-wise kernels that fusion could make one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.profilers.kernels import kernel_table
from tools.profilers.profile import Profile

FUSED_LEAST = 1 / 3  # a fused run of element-wise kernels still reads every operand and writes a result


def streaming_runs(profile: Profile, rank: int) -> pd.DataFrame:
    """Runs of two or more element-wise kernels in a row on one stream, with equal grids where grids are recorded.

    Columns: row, duration_ns, run, run_ns (time of the whole run), fused_ns (this kernel's share of what one fused
    kernel would need: the longest of the run, and at least a third of it). Runs of very short kernels are left out,
    because launches bound them.
    """
    return profile.memo(f"streaming_runs:{rank}", lambda: _streaming_runs(profile, rank))


def _streaming_runs(profile: Profile, rank: int) -> pd.DataFrame:
    view = profile.rank(rank)
    table = kernel_table(profile, rank).sort_values(["track", "start_ns"], kind="stable")
    streaming = (table["kernel_class"] == "elementwise").to_numpy()
    keys = np.column_stack((table["track"], streaming, table["blocks"], view.step_of(table["row"].to_numpy())))
    changed = np.ones(len(table), dtype=bool)
    changed[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    table = table.assign(run=np.cumsum(changed))[streaming][["row", "duration_ns", "run"]]
    runs = table.groupby("run")["duration_ns"]
    table = table.assign(run_ns=runs.transform("sum"), longest_ns=runs.transform("max"), kernels=runs.transform("size"))
    mean_ns = table["run_ns"] / table["kernels"]
    table = table[(table["kernels"] > 1) & (mean_ns >= 1000 * profile.thresholds["streaming_kernel_us"])]
    whole = np.maximum(table["longest_ns"], table["run_ns"] * FUSED_LEAST)
    fused = whole * table["duration_ns"] / table["run_ns"].clip(lower=1)
    return table[["row", "duration_ns", "run", "run_ns"]].assign(fused_ns=fused).reset_index(drop=True)

"""How fast matrix operators compute on the host, against the fastest of the same run."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.views.device.operator_cost import CostModel, precision_of
from tools.views.device.roofline import math_operators
from tools.views.profile import Profile, memoized

LEAST_FLOPS = 1e7  # below it the call itself takes much of the time
LEAST_INTENSITY = 16.0  # FLOP per byte: below it an operator waits for memory as well as for arithmetic
SEVERAL = 3  # calls of one operator and shape; the best of fewer may have been held up as a whole


@memoized
def host_rates(profile: Profile, rank: int) -> pd.DataFrame:
    """Achieved rates of the matrix operators that compute on one rank's host, one row per operator, shape and type.

    Columns: name, dims, types (as recorded), precision, calls, rows (row ids inside the steps), total_ns, best_ns,
    gflops (of the best call). Only operators whose arithmetic takes longer than their memory traffic; empty for a
    rank with a device, and where no shapes were recorded.
    """
    view = profile.rank(rank)
    columns = ["name", "dims", "types", "precision", "calls", "rows", "total_ns", "best_ns", "gflops"]
    recorded = math_operators(view)
    if view.rank.has_device or recorded.empty:
        return pd.DataFrame(columns=columns)
    names = view.events.frame["name"].to_numpy()[recorded["row"].to_numpy()]
    model = CostModel(list(zip(map(str, names), recorded["dims"].astype(str), strict=True)))
    rows = view.in_steps(np.asarray(recorded["row"], dtype=np.int64))
    outer = view.outermost(rows)
    table = recorded.set_index("row").loc[outer, ["dims", "types"]].astype(str).rename_axis("rows").reset_index()
    table = table.assign(name=view.names(outer), ns=view.end[outer] - view.start[outer])
    found = [
        (name, dims, types, precision_of(str(types)), len(group), group["rows"].to_numpy(), group["ns"].sum(), best)
        for (name, dims, types), group in table.groupby(["name", "dims", "types"], sort=True)
        if len(group) >= SEVERAL and (best := int(group["ns"].min())) > 0
    ]
    rates = pd.DataFrame(found, columns=columns[:-1])
    costs = [model.math_cost(name, dims) for name, dims in zip(rates["name"], rates["dims"], strict=True)]
    flops = np.array([cost.flops for cost in costs], dtype=float)
    intense = np.array([cost.flops >= LEAST_INTENSITY * cost.elements * 4.0 for cost in costs], dtype=bool)
    rates = rates.assign(gflops=flops / rates["best_ns"].to_numpy(dtype=float))
    kept: pd.DataFrame = rates[(flops >= LEAST_FLOPS) & intense].reset_index(drop=True)
    return kept


def reference_gflops(rates: pd.DataFrame, plain_gflops: float) -> float:
    """What two kinds of operators reach; at least what any core of today does (``plain_gflops``).

    One alone may be broken off before its work is done, as checkpointing does with what it need not compute again.
    """
    fastest = np.sort(rates["gflops"].to_numpy(dtype=float))
    return max(float(fastest[-2]) if len(fastest) > 1 else 0.0, plain_gflops)


@memoized
def slow_math(profile: Profile, rank: int) -> pd.DataFrame:
    """The rows of ``host_rates`` whose best call stays below a tenth (``slow_math_ratio``) of ``reference_gflops``."""
    rates = host_rates(profile, rank)
    limits = profile.thresholds
    usual = reference_gflops(rates, limits["plain_core_gflops"])
    limit = min(usual / limits["slow_math_ratio"], limits["slowest_math_gflops"])
    slow: pd.DataFrame = rates[rates["gflops"] < limit]
    return slow


def rows_of(rates: pd.DataFrame) -> NDArray[np.int64]:
    """The operators of these rates, ascending."""
    return np.sort(np.concatenate([*rates["rows"], np.empty(0, dtype=np.int64)])).astype(np.int64)

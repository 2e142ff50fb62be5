"""Time per step under one name: a kernel's duration, an operator's own time."""

from __future__ import annotations

import pandas as pd

from tools.metrics.measurement import Measurement, Metric
from tools.profilers.profile import Profile
from tools.profilers.work import kernel_work, operator_work


def kernel_name_ms(profile: Profile, name: str) -> Measurement:
    """Time per step and rank in device kernels of exactly this name; 0 where there are none."""
    return _named(profile, kernel_work(profile), name, "device kernels of one name")


def kernel_name_count(profile: Profile, name: str) -> Measurement:
    """Device kernels of exactly this name per step and rank; 0 where there are none."""
    return _named(profile, kernel_work(profile), name, "device kernels of one name", "count")


def operator_name_ms(profile: Profile, name: str) -> Measurement:
    """Time per step and rank that operators of exactly this name take themselves; 0 where there are none."""
    return _named(profile, operator_work(profile), name, "operators of one name, own time")


def _named(profile: Profile, table: pd.DataFrame, name: str, selector: str, column: str = "ms") -> Measurement:
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


METRICS = (
    Metric("kernel_name_ms", "ms", "How long does a step spend in kernels of this name?", kernel_name_ms),
    Metric("kernel_name_count", "calls", "How many kernels of this name does a step run?", kernel_name_count),
    Metric("operator_name_ms", "ms", "How long does a step spend in operators of this name?", operator_name_ms),
)

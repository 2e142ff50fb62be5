"""Work of a rank by name: kernels of the device and calls of the host."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from tools.agent_tools.context import MOST_ROWS, ROWS, ToolContext, page
from tools.agent_tools.tool import Arguments
from tools.metrics.named_time import host_rows, kernel_rows
from tools.views.rank_profile import RankProfile


class Names(Arguments):
    """Names of one rank."""

    rank: int = Field(ge=0)
    contains: str = Field(default="", max_length=200, description="plain text that the name has to contain")
    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS)


def slowest_kernels(context: ToolContext, asked: Names) -> str:
    """The device kernels of a rank that take most time per step, by name, with their number per step."""
    view = context.profile().rank(asked.rank)
    if not view.rank.has_device:
        return f"Rank {asked.rank} has no device, so it runs no kernels; host_calls lists what its host does."
    names = _by_time(view, kernel_rows(view), asked.contains)
    return _listed(context, asked.rank, names, asked.limit, ("rank_kernel_ms", "rank_kernel_count"), "kernel names")


def host_calls(context: ToolContext, asked: Names) -> str:
    """Work of a rank's host: operators, runtime calls and marked spans, by name, most time per step first.

    Calls contain one another, so their times do not add up.
    """
    view = context.profile().rank(asked.rank)
    names = _by_time(view, host_rows(view), asked.contains)
    return _listed(context, asked.rank, names, asked.limit, ("host_name_ms", "host_name_count"), "names of host calls")


def _by_time(view: RankProfile, rows: NDArray[np.int64], contains: str) -> list[str]:
    """The distinct names of the rows, most time first; the text is looked for in names, not in events."""
    names = view.events.frame["name"].cat
    codes = names.codes.to_numpy()[rows]
    total = np.bincount(codes, weights=view.end[rows] - view.start[rows], minlength=len(names.categories))
    present = np.unique(codes)
    found = pd.Index(names.categories)[present].astype(str)
    wanted = present[np.asarray(found.str.contains(contains, case=False, regex=False), dtype=bool)]
    order = wanted[np.argsort(-total[wanted], kind="stable")]
    return [str(names.categories[code]) for code in order]


def _listed(context: ToolContext, rank: int, names: list[str], limit: int, metrics: tuple[str, str], what: str) -> str:
    lines = []
    for name in names[:limit]:
        time, count = (context.measure(metric, rank=rank, name=name) for metric in metrics)
        lines.append("- " + context.say("{n0}: {0} in {1} per step", time, count, names=(name,)))
    return page(lines, len(names), what)

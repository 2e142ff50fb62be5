"""One row per traced step: its slowest rank, wall time and parts."""

from __future__ import annotations

from tools.views.coarse import step_series
from tools.views.parts import PARTS
from tools.views.profile import Profile

StepRow = dict[str, int | float]


def step_rows(profile: Profile) -> list[StepRow]:
    """Return per step its slowest rank with its wall time and parts in ms; ``marked_ms`` is from mark to mark."""
    series = {view.rank.rank: step_series(profile, view.rank.rank) for view in profile.ranks}
    columns = ("wall", *PARTS, "overlapped_communication")
    ordered = profile.breakdown.sort_values(["number", "wall_ns", "rank"], ascending=[True, False, True])
    rows: list[StepRow] = []
    for record in ordered.drop_duplicates("number").to_dict("records"):
        step, rank = int(record["number"]), int(record["rank"])
        marked = series[rank].ms[series[rank].numbers == step]
        parts = {f"{name}_ms": float(record[f"{name}_ns"]) / 1e6 for name in columns}
        rows.append({"step": step, "rank": rank, **parts, "marked_ms": float(marked[0])})
    return rows

"""One row per step: its slowest rank and wall time, of a traced step its parts as well."""

from __future__ import annotations

from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.steps.coarse import step_series
from tools.views.steps.series import RunSeries

StepRow = dict[str, int | float]


def step_rows(profile: Profile) -> list[StepRow]:
    """Return per step its slowest rank with its wall time and parts in ms; ``marked_ms`` is from mark to mark.

    Without a trace the steps are those of records or logs: there are no parts, but the line of a job's output.
    """
    if not profile.traced and profile.series is not None:
        return _recorded_rows(profile.series)
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


def _recorded_rows(series: RunSeries) -> list[StepRow]:
    slowest = series.usual.sort_values(["step", "wall_ms", "rank"], ascending=[True, False, True])
    columns = [name for name in ("step", "rank", "wall_ms", "line") if name in slowest]
    rows: list[StepRow] = [
        {str(name): float(value) if name == "wall_ms" else int(value) for name, value in row.items()}
        for row in slowest.drop_duplicates("step")[columns].to_dict("records")
    ]
    return rows

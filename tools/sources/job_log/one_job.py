"""Logs of one folder that are of another job than the others."""

from __future__ import annotations

from collections.abc import Sequence

from tools.run.recorded.job_log import JobLog
from tools.run.recorded.step_times import LEAST_STEPS

APART = 3.0  # medians of two logs of one job differ by less: a restart may use another batch


def of_another_job(logs: Sequence[JobLog], world_size: int | None) -> dict[int, str]:
    """The reason why a log cannot be of the same job as the others, by its place in the list.

    The log with the most steps counts, among those of a job of ``world_size`` ranks where traces state that. By its
    steps a log is of another job only where it states settings of a job itself: standard error of the same job may hold
    the bars of an evaluation.
    """
    sizes = [log.whole("world_size") for log in logs]
    possible = [at for at, size in enumerate(sizes) if None in (size, world_size) or size == world_size]
    if not possible:  # each of them is held against the traces
        return {}
    first = max(possible, key=lambda at: (len(logs[at].steps), -at))
    found = {}
    for at, log in enumerate(logs):
        size = sizes[at]
        if size is not None and world_size is not None and size != world_size:
            found[at] = f"of a job of {size} ranks, the traces are of one of {world_size}"
        elif size is not None and sizes[first] is not None and size != sizes[first]:
            found[at] = f"of a job of {size} ranks, {logs[first].files[0]} is of one of {sizes[first]}"
        elif log.settings and (reason := _other_steps(logs[first], log)):
            found[at] = reason
    return found


def _other_steps(first: JobLog, other: JobLog) -> str:
    ranks = set(first.steps["rank"]) & set(other.steps["rank"])
    walls = [log.steps.loc[log.steps["rank"].isin(ranks), "wall_ms"].dropna() for log in (first, other)]
    if min(map(len, walls)) < LEAST_STEPS:
        return ""
    known_ms, own_ms = (float(each.median()) for each in walls)
    if known_ms <= 0 or own_ms <= 0 or max(known_ms / own_ms, own_ms / known_ms) <= APART:
        return ""
    return f"of a job whose steps take {own_ms:.4g} ms, those of {first.files[0]} take {known_ms:.4g} ms"

"""The ranks of logs that are named by them, one file for each rank: ``rank3.log``, ``rank_3/train.log``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.run.recorded.job_log import JobLog

NAMED_RANK = re.compile(r"(?:([A-Za-z]+)[_\-.]?)?(?<![A-Za-z])rank[_\-.]?(\d{1,6})(?!\d)", re.I)
# Words before it: the rank in a node or in a group is not that of the job, and that of a matrix (LoRA's) is no process.
OF_OTHERS = frozenset(
    ("node", "local", "group", "role", "parallel", "tp", "dp", "pp", "mp", "ep", "cp", "sp", "lora", "low", "matrix")
)
UNNAMED = "its steps name no rank; they are those of the job and are listed under rank 0"


def ranks_by_name(paths: Sequence[Path], logs: Sequence[JobLog]) -> dict[int, int]:
    """The rank of each log with steps of no stated rank, by its place; none unless the names of all of these hold one,
    those of 0 to n - 1 once each and of two or more, within the size of the job."""
    unstated = [at for at, log in enumerate(logs) if not log.ranks_stated and _has_steps(log)]
    found = {at: rank for at in unstated if (rank := _named(paths[at])) is not None}
    sizes = [size for log in logs if (size := log.whole("world_size")) is not None]
    inside = all(rank < size for rank in found.values() for size in sizes)
    whole = len(found) > 1 and sorted(found.values()) == list(range(len(unstated)))
    return found if whole and inside else {}


def of_rank(log: JobLog, rank: int) -> JobLog:
    """The log with all steps as those of the rank."""
    rates = log.throughput
    return replace(
        log,
        steps=log.steps.assign(rank=rank),
        timers=log.timers.assign(rank=rank),
        throughput=None if rates is None else replace(rates, table=rates.table.assign(rank=rank)),
        ranks_stated=True,
    )


def _has_steps(log: JobLog) -> bool:
    return not log.steps.empty or log.throughput is not None


def _named(path: Path) -> int | None:
    for name in (path.name, path.parent.name):
        found = NAMED_RANK.search(name)
        if found is not None and (found[1] or "").lower() not in OF_OTHERS:
            return int(found[2])
    return None

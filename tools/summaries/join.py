"""Cross-rank facts from the summaries of all ranks: who is waited for, who waits, which rank is slowest in a step.

The summaries are read twice, one after the other, and forgotten: memory grows with the ranks and with the instances of
collectives (``tools.summaries.instances``), not with their product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tools.summaries.instances import Instances
from tools.summaries.record import RankSummary, TableName
from tools.views.parts import PARTS

MEANS = ("wall_ns", *(f"{part}_ns" for part in PARTS))


@dataclass(frozen=True)
class SummarizedTrace:
    """One trace of a rank: zero of its times on a common axis, and how to read these tables of its summary."""

    rank: int
    origin_ns: int
    read: Callable[[Sequence[TableName]], RankSummary]


@dataclass(frozen=True, eq=False)
class Joined:
    """The ranks of a run compared.

    ranks: index rank; number of steps, means per step ``wall_ns`` and ``<part>_ns``; over all steps ``caused_ns``
    (what others waited for it in collectives, mean over those that waited) with its ``share`` of all such waiting,
    ``first_steps`` (in how many steps most is for it) and ``waited_ns`` (its own waiting)
    slowest: by step number its slowest ``rank`` and ``wall_ns``
    caused: ``rank``, ``group`` (number), ``caused_ns``: in which groups a rank is waited for
    groups: by that number the ranks whose collectives are of the group, ascending
    collectives: number of matched instances
    instances: the table that they were matched in
    """

    ranks: pd.DataFrame
    slowest: pd.DataFrame
    caused: pd.DataFrame
    groups: dict[int, tuple[int, ...]]
    collectives: int
    instances: Instances

    def known(self, traces: Sequence[SummarizedTrace]) -> pd.DataFrame:
        """What all ranks say of the collectives of these traces, see ``Instances.known``; each once."""
        first = [trace for trace, part in _placed(traces) if not part]
        found = [self.instances.known(trace.read(("collectives",)).collectives) for trace in first]
        return pd.concat(found, ignore_index=True).drop_duplicates("instance", ignore_index=True)


def join(traces: Sequence[SummarizedTrace], steps: tuple[int, int] | None = None) -> Joined:
    """Compare the ranks, in the steps first..last (inclusive) where given; traces of a rank are in order of time."""
    instances, tally = Instances(), _Tally()
    places: list[int] = []
    last: dict[int, int] = {}  # of each rank the highest number of a step so far
    for trace, part in _placed(traces):
        summary = _between(trace.read(("steps", "collectives")), steps)
        numbers = summary.table("steps")["number"]
        goes_on = int(numbers.min()) > last.get(trace.rank, -1) if len(numbers) else True
        last[trace.rank] = max(last.get(trace.rank, -1), int(numbers.max()) if len(numbers) else -1)
        # Numbers that begin anew with each capture name other steps than those of the capture before.
        places.append(0 if summary.facts.step_origin == "profiler_step" and goes_on else part)
        table = summary.table("collectives")
        instances.add(trace.rank, table, trace.origin_ns, places[-1])
        tally.add(trace.rank, summary.table("steps"), instances.groups_of(table))
    waited = dict.fromkeys(tally.sums, 0)
    for trace, place in zip(traces, places, strict=True):
        summary = _between(trace.read(("collectives", "exposed")), steps)
        exposed = summary.table("exposed").to_numpy()
        waited[trace.rank] += instances.exposed_waits(summary.table("collectives"), exposed, place)
    return _joined(instances, tally, waited)


def _placed(traces: Sequence[SummarizedTrace]) -> list[tuple[SummarizedTrace, int]]:
    """Each trace with its place among those of its rank."""
    seen: dict[int, int] = {}
    placed = []
    for trace in traces:
        placed.append((trace, seen.setdefault(trace.rank, 0)))
        seen[trace.rank] += 1
    return placed


def _between(summary: RankSummary, steps: tuple[int, int] | None) -> RankSummary:
    if steps is None:
        return summary
    first, last = steps
    return replace(
        summary,
        steps=summary.steps[summary.steps["number"].between(first, last)],
        collectives=summary.collectives[summary.collectives["step"].between(first, last)],
    )


class _Tally:
    """What is kept of each rank: sums of its steps, its groups, and the slowest rank of each step so far."""

    def __init__(self) -> None:
        self.sums: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        self.groups: dict[int, list[int]] = {}
        self.slowest: dict[int, tuple[int, int]] = {}  # wall_ns, rank

    def add(self, rank: int, table: pd.DataFrame, groups: set[int]) -> None:
        """Enter one trace of a rank."""
        sums = np.append(table[list(MEANS)].to_numpy(dtype=np.float64).sum(axis=0), len(table))
        self.sums[rank] = self.sums.get(rank, 0.0) + sums
        for group in groups:
            own = self.groups.setdefault(group, [])
            if not own or own[-1] != rank:
                own.append(rank)
        for number, wall_ns in zip(table["number"].tolist(), table["wall_ns"].tolist(), strict=True):
            self.slowest[number] = max(self.slowest.get(number, (-1, rank)), (wall_ns, rank))

    def means(self) -> pd.DataFrame:
        """Index rank; steps and the means of the parts; ranks without a step are left out."""
        sums = np.array(list(self.sums.values())).reshape(-1, len(MEANS) + 1)
        steps = sums[:, -1]
        table = pd.DataFrame(sums[:, :-1] / np.maximum(steps, 1)[:, None], columns=list(MEANS), index=list(self.sums))
        return table.assign(steps=steps.astype(np.int64))[steps > 0].sort_index()


def _joined(instances: Instances, tally: _Tally, waited: dict[int, int]) -> Joined:
    table, means = instances.table(), tally.means()
    caused = table.groupby("last_rank")["caused_ns"].sum().reindex(means.index, fill_value=0.0)
    per_step = table.groupby(["part", "step", "last_rank"])["caused_ns"].sum()
    per_step = per_step[per_step > 0]
    leaders = per_step.groupby(["part", "step"]).idxmax().map(lambda key: key[2]) if len(per_step) else per_step
    total = float(caused.sum())
    by_group = table.groupby(["last_rank", "group"])["caused_ns"].sum().reset_index()
    numbers = sorted(tally.slowest)
    return Joined(
        ranks=means.assign(
            caused_ns=caused,
            share=caused / total if total > 0 else 0.0,
            first_steps=leaders.value_counts().reindex(means.index, fill_value=0).astype("int64"),
            waited_ns=pd.Series(waited).reindex(means.index, fill_value=0),
        ),
        slowest=pd.DataFrame(
            [tally.slowest[number] for number in numbers], columns=["wall_ns", "rank"], index=numbers, dtype="int64"
        ),
        caused=by_group.rename(columns={"last_rank": "rank"}),
        groups={group: tuple(sorted(ranks)) for group, ranks in tally.groups.items()},
        collectives=len(table),
        instances=instances,
    )

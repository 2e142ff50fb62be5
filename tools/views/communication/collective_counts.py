"""Ranks that are behind by NCCL RAS: its answers count the collectives that each rank has called.

A difference alone is normal, as the ranks are asked one after the other. It means something where it is in two answers
and no rank of the communicator has called anything in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tools.run.recorded.collective_records import RasCommunicator, RasRank, RasRecords

IN_PROGRESS = 7  # ncclInProgress: no error


@dataclass(frozen=True)
class RankCounts:
    """A rank that has called ``behind`` collectives fewer than another rank of its communicator, whose counts stay."""

    rank: int  # in the job, or in the communicator where that is not known
    known: bool  # it is the rank in the job
    host: str
    communicator: str
    kind: str  # of the collectives
    behind: int
    file: int


def rank_counts(records: RasRecords) -> tuple[RankCounts, ...]:
    """Of each process the largest difference in the last answer, in communicators whose counts did not change since
    the answer before; none with one answer."""
    last = {each.key: each for each in records.communicators if each.sample == records.samples - 1}
    before = {each.key: each for each in records.communicators if each.sample == records.samples - 2}
    numbers = job_ranks(records)
    found: dict[tuple[str, int], RankCounts] = {}
    for key, communicator in last.items():
        if key not in before or _counts(before[key]) != _counts(communicator):
            continue
        for each, kind, behind in _behind(communicator):
            process = each.host, each.pid
            known, rank = process in numbers, numbers.get(process, each.rank)
            if process not in found or behind > found[process].behind:
                found[process] = RankCounts(rank, known, each.host, key, kind, behind, communicator.file)
    return tuple(sorted(found.values(), key=lambda each: (not each.known, each.rank, each.host)))


def moving(records: RasRecords) -> bool:
    """Whether the counts of some communicator rose between the last two answers."""
    last = {each.key: _counts(each) for each in records.communicators if each.sample == records.samples - 1}
    before = {each.key: _counts(each) for each in records.communicators if each.sample == records.samples - 2}
    return any(key in before and counts != before[key] for key, counts in last.items())


def differing(records: RasRecords) -> bool:
    """Whether ranks of a communicator differ in their counts in the last answer."""
    last = [each for each in records.communicators if each.sample == records.samples - 1]
    return any(_behind(each) for each in last)


def job_ranks(records: RasRecords) -> dict[tuple[str, int], int]:
    """The rank in the job of each process: that in the communicator of all processes; empty where there is none."""
    processes = {(rank.host, rank.pid) for each in records.communicators for rank in (*each.ranks, *each.missing)}
    whole = [each for each in records.communicators if each.size >= len(processes)]
    return {(each.host, each.pid): each.rank for known in whole for each in (*known.ranks, *known.missing)}


def lost(records: RasRecords) -> tuple[RasRank, ...]:
    """The members of communicators that are missing from the last answer."""
    last = [each for each in records.communicators if each.sample == records.samples - 1]
    return tuple(rank for each in last for rank in each.missing)


def failed(records: RasRecords) -> tuple[RasRank, ...]:
    """The members in the last answer that are dead, or whose communicator reports an error."""
    last = [each for each in records.communicators if each.sample == records.samples - 1]
    errors = [rank for each in last for rank in each.ranks if rank.error not in (0, IN_PROGRESS)]
    return (*errors, *(each for each in lost(records) if each.dead))


def _counts(communicator: RasCommunicator) -> dict[int, Mapping[str, int] | None]:
    return {each.rank: each.counts for each in communicator.ranks}


def _behind(communicator: RasCommunicator) -> list[tuple[RasRank, str, int]]:
    """Each rank that lacks calls of a kind that another rank has made, with the kind that it lacks most of."""
    answered = [(each, each.counts) for each in communicator.ranks if each.counts is not None]
    kinds = sorted({kind for _, counts in answered for kind in counts})
    most = {kind: max(counts.get(kind, 0) for _, counts in answered) for kind in kinds}
    found = []
    for each, counts in answered:
        lacking = {kind: most[kind] - counts.get(kind, 0) for kind in kinds}
        kind = max(kinds, key=lambda name: lacking[name], default="")
        if kind and lacking[kind] > 0:
            found.append((each, kind, lacking[kind]))
    return found

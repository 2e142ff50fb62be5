"""Who holds up a group of ranks, by the dumps of PyTorch's flight recorder.

A collective ends when every rank of its group has called it, so three things can be read from the dumps of all ranks:
a rank that has not called what others wait in; a rank that has not seen the end of what others have finished; and ranks
whose calls of one place in the order differ. A rank that waits itself is not the one to look at: what is named is where
the waiting ends. The dumps hold no time of their own, so that alone does not show for how long the ranks wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from tools.run.recorded.collective_records import NO_PEER, NOT_COMPARED, CallState, FlightGroup, FlightRecords

KEY = ["group", "sequence"]
# No rank can leave one of these before all have entered. A broadcast may end on its root, a reduce on the others.
SYMMETRIC = (
    *("all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "all_to_all", "alltoall", "barrier"),
    *("_all_gather_base", "_allgather_base", "_reduce_scatter_base"),
)
Difference = Literal["operations", "sizes", "data types"]


@dataclass(frozen=True)
class Collective:
    """One place in the order of a group's collectives."""

    group: FlightGroup
    sequence: int
    operation: str


@dataclass(frozen=True)
class MissingRank:
    """A rank that waits in no collective and has not called the first of ``behind`` that others wait in."""

    rank: int
    behind: int
    first: Collective
    waiting: tuple[int, ...]  # ranks that have called it


@dataclass(frozen=True)
class StalledRank:
    """A rank that has called ``unconfirmed`` collectives which others have finished, and has not seen them end."""

    rank: int
    unconfirmed: int
    first: Collective


@dataclass(frozen=True)
class Mismatch:
    """Ranks that made different calls at one place in the order: by call, the ranks, the fewest first."""

    group: FlightGroup
    sequence: int
    difference: Difference
    calls: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def odd_ranks(self) -> tuple[int, ...]:
        """The ranks whose call differs from that of the most; () where no call has the most ranks."""
        most, others = self.calls[-1], self.calls[:-1]
        if any(len(ranks) == len(most[1]) for _, ranks in others):
            return ()
        return tuple(sorted(rank for _, ranks in others for rank in ranks))


@dataclass(frozen=True)
class Entered:
    """A collective that all ranks of its group have called, each as the first that it waits in."""

    collective: Collective
    started: tuple[int, ...]  # whose kernel was seen running
    scheduled: tuple[int, ...]


@dataclass(frozen=True)
class DumpMoments:
    """Two dumps of different moments: the later rank has finished what the earlier one had not called."""

    earlier: int
    later: int


@dataclass(frozen=True)
class Hang:
    """What the dumps show of ranks that wait; ``unseen`` ranks take part in what others wait in and left no dump."""

    waiting: tuple[int, ...]
    missing: tuple[MissingRank, ...] = ()
    stalled: tuple[StalledRank, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    entered: tuple[Entered, ...] = ()
    moments: DumpMoments | None = None
    unseen: tuple[int, ...] = ()
    each_other: tuple[int, ...] = ()  # ranks that wait for one another, in a circle
    timed_out: bool = False  # some rank noted a time so long after a call that it had waited for its whole limit

    @property
    def holding_up(self) -> tuple[int, ...]:
        """The ranks to look at first."""
        odd = {rank for each in self.mismatches for rank in each.odd_ranks}
        stalled = {each.rank for each in self.stalled}
        return tuple(sorted(odd | stalled | {each.rank for each in self.missing}))


@dataclass
class _Waits:
    """Which rank waits, and for which."""

    waiting: set[int]  # for a rank that has not called, or does not move
    awaited: set[int] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)


def find_hang(records: FlightRecords) -> Hang:
    """What the dumps of a run show together."""
    progress = _progress(records)
    calls = records.calls.merge(progress[["group", "rank", "completed"]], on=["group", "rank"], how="left")
    done = (calls["state"] == CallState.COMPLETED) | (~calls["p2p"] & (calls["sequence"] <= calls["completed"]))
    pending = calls[~done]
    waiting = tuple(sorted(int(rank) for rank in pending["rank"].unique()))
    if not waiting:
        return Hang(())
    mismatches = _mismatches(records, calls, pending)
    moments = _moments(calls, progress)
    if moments is not None:
        return Hang(waiting, mismatches=mismatches, moments=moments)
    stalled = _stalled(records, pending, progress)
    waits = _waits(records, pending, progress, {each.rank for each in stalled})
    roots = waits.awaited - set(waiting)
    missing = _missing(records, calls, pending, progress, roots)
    named = bool(missing or stalled or mismatches)
    entered = () if named else _entered(records, pending)
    circle = sorted(waits.waiting) if not (named or entered or waits.unseen) else ()
    latest_ns = int(records.calls["seen_ns"].max())
    limited = pending[pending["timeout_ms"] > 0]
    passed = (latest_ns - limited["created_ns"]) / 1e6 >= limited["timeout_ms"]
    return Hang(
        waiting,
        missing,
        stalled,
        mismatches,
        entered,
        unseen=tuple(sorted(waits.unseen)),
        each_other=tuple(circle),
        timed_out=bool(passed.any()),
    )


def _progress(records: FlightRecords) -> pd.DataFrame:
    """The last collective enqueued and completed by each rank of each group with calls; NaN where no dump shows it."""
    calls, dumps = records.calls, {each.rank: each for each in records.dumps}
    used = [int(group) for group in calls["group"].unique()]
    members = pd.DataFrame(
        [(group, rank) for group in used for rank in records.groups[group].ranks], columns=["group", "rank"]
    ).astype("int64")
    own = calls[~calls["p2p"]].groupby(["group", "rank"])["sequence"].max().rename("called").reset_index()
    ended = calls[~calls["p2p"] & (calls["state"] == CallState.COMPLETED)]
    last = ended.groupby(["group", "rank"])["sequence"].max().rename("ended").reset_index()
    # In a group with sends and receives the status counts these as well.
    mixed = records.status["group"].isin(calls[calls["p2p"]]["group"])
    table = members.merge(records.status[~mixed], on=["group", "rank"], how="left")
    table = table.merge(own, on=["group", "rank"], how="left").merge(last, on=["group", "rank"], how="left")
    table["enqueued"] = table[["enqueued", "called"]].max(axis=1)
    # The status counts in the order of the calls; entries may end out of it where there is no status.
    table["completed"] = table["completed"].where(table["completed"].notna(), table["ended"])
    whole = table["rank"].map(lambda rank: rank in dumps and dumps[rank].whole)
    table.loc[whole & table["enqueued"].isna(), "enqueued"] = 0
    return table.drop(columns=["called", "ended"])


def _mismatches(records: FlightRecords, calls: pd.DataFrame, pending: pd.DataFrame) -> tuple[Mismatch, ...]:
    """The first place of each group where the ranks' calls differ, of those in which one still waits."""
    open_ones = pending[~pending["p2p"]][KEY].drop_duplicates()
    own = calls[~calls["p2p"]].merge(open_ones, on=KEY)
    coalesced = own.groupby([*KEY, "rank"])["row"].transform("size") > 1
    own = own[~coalesced.groupby([own["group"], own["sequence"]]).transform("any")]
    found: dict[int, Mismatch] = {}
    for column, difference in (("operation", "operations"), ("elements", "sizes"), ("types", "data types")):
        if column != "operation":  # only of one and the same operation, whose sizes must agree
            own = own[own["elements"] != NOT_COMPARED]
        counts = own.groupby(KEY)[column].nunique()
        for group, sequence in counts[counts > 1].index:
            if group in found and found[group].sequence <= sequence:
                continue
            rows = own[(own["group"] == group) & (own["sequence"] == sequence)]
            texts = rows["operation"] if column == "operation" else rows["operation"] + " of " + rows[column].map(str)
            by_call = [(str(text), tuple(sorted(map(int, each)))) for text, each in rows["rank"].groupby(texts)]
            by_call.sort(key=lambda each: (len(each[1]), each[1]))
            found[group] = Mismatch(records.groups[group], int(sequence), _difference(difference), tuple(by_call))
    return tuple(found[group] for group in sorted(found))


def _difference(text: str) -> Difference:
    return "operations" if text == "operations" else "sizes" if text == "sizes" else "data types"


def _moments(calls: pd.DataFrame, progress: pd.DataFrame) -> DumpMoments | None:
    """Two ranks of which one has finished what the other had not called, of collectives that all must enter."""
    known = progress[progress["enqueued"].notna()]
    ended = known[known["completed"].notna()].sort_values("completed").drop_duplicates("group", keep="last")
    ended = ended.set_index("group")
    seen = known.merge(ended[["rank", "completed"]], left_on="group", right_index=True, suffixes=("", "_most"))
    early = seen[seen["enqueued"] < seen["completed_most"]]
    columns = ["group", "enqueued", "completed_most", "rank", "rank_most"]
    distinct = early.drop_duplicates(columns[:3])[columns].astype("int64")
    for group, called, finished, rank, other in distinct.to_numpy().tolist():
        own = calls[(calls["group"] == group) & ~calls["p2p"]]
        between = own[(own["sequence"] > called) & (own["sequence"] <= finished)]
        remembered = between["sequence"].nunique() == finished - called
        if not remembered or between["operation"].isin(SYMMETRIC).any():
            return DumpMoments(rank, other)
    return None


def _stalled(records: FlightRecords, pending: pd.DataFrame, progress: pd.DataFrame) -> tuple[StalledRank, ...]:
    """Ranks with calls that another rank of the group has finished, of collectives that all leave together."""
    most = progress.groupby("group")["completed"].max().rename("most").reset_index()
    own = pending[~pending["p2p"] & pending["operation"].isin(SYMMETRIC)].merge(most, on="group")
    own = own[own["sequence"] <= own["most"]].sort_values("record")
    return tuple(
        StalledRank(int(str(rank)), len(rows), _collective(records, rows.iloc[0])) for rank, rows in own.groupby("rank")
    )


def _waits(records: FlightRecords, pending: pd.DataFrame, progress: pd.DataFrame, stalled: set[int]) -> _Waits:
    """Each rank that waits for one that has not called or is stalled, and the ranks that are waited for."""
    own = pending[~pending["p2p"]].groupby(["group", "rank"])["sequence"].max().rename("last").reset_index()
    members = progress[progress["group"].isin(own["group"])]
    least = members.groupby("group")["enqueued"].min().rename("least")
    last = own.groupby("group")["last"].max().rename("most")
    stuck = members[members["rank"].isin(stalled)]["group"]
    behind = own.merge(least, left_on="group", right_index=True)
    held = behind[(behind["last"] > behind["least"]) | behind["group"].isin(stuck)]
    found = _Waits({int(rank) for rank in held["rank"]} - stalled)
    members = members.merge(last, left_on="group", right_index=True)
    found.awaited = {int(rank) for rank in members[members["enqueued"] < members["most"]]["rank"]}
    found.unseen = {int(rank) for rank in members[members["enqueued"].isna()]["rank"]}
    _add_transfers(found, pending[pending["p2p"] & (pending["peer"] != NO_PEER)], stalled, _dumped(records))
    return found


def _add_transfers(found: _Waits, pending: pd.DataFrame, stalled: set[int], dumped: set[int]) -> None:
    """Sends that wait for a receive which the other rank has not called, and the other way round."""
    made = {
        (int(rank), int(peer), bool(sends))
        for rank, peer, sends in pending[["rank", "peer", "sends"]].drop_duplicates().itertuples(index=False)
    }
    for rank, peer, sends in made:
        if peer not in dumped:
            found.unseen.add(peer)
        elif peer in stalled:
            found.waiting |= {rank} - stalled
        elif (peer, rank, not sends) not in made:
            found.waiting |= {rank} - stalled
            found.awaited.add(peer)


def _dumped(records: FlightRecords) -> set[int]:
    return {each.rank for each in records.dumps}


def _missing(
    records: FlightRecords, calls: pd.DataFrame, pending: pd.DataFrame, progress: pd.DataFrame, roots: set[int]
) -> tuple[MissingRank, ...]:
    """Those ranks with the earliest call that they lack; one that lacks no collective lacks a send or receive."""
    found = []
    collectives = pending[~pending["p2p"]]
    for rank in sorted(roots & _dumped(records)):
        own = progress[(progress["rank"] == rank) & progress["enqueued"].notna()][["group", "enqueued"]]
        lacking = collectives.merge(own, on="group")
        lacking = lacking[lacking["sequence"] > lacking["enqueued"]]
        if lacking.empty:
            lacking = pending[pending["p2p"] & (pending["peer"] == rank)]
            behind = len(lacking)
        if lacking.empty:
            continue
        first = lacking.sort_values("created_ns").iloc[0]
        same = lacking[lacking["group"] == first["group"]]
        if not first["p2p"]:
            behind = int(same["sequence"].max() - first["enqueued"])
            same = same[same["sequence"] == first["sequence"]]
        waiting = tuple(sorted({int(each) for each in same["rank"]}))
        found.append(MissingRank(rank, behind, _collective(records, first), waiting))
    return tuple(found)


def _entered(records: FlightRecords, pending: pd.DataFrame) -> tuple[Entered, ...]:
    """Collectives that are the first to wait in for every rank of their group."""
    heads = pending.sort_values("record").groupby("rank").head(1)
    found = []
    for _, rows in heads[~heads["p2p"]].groupby(KEY):
        members = records.groups[int(rows["group"].iloc[0])].ranks
        if members and set(rows["rank"]) == set(members):
            started = rows[rows["state"] == CallState.STARTED]["rank"]
            others = rows[rows["state"] == CallState.SCHEDULED]["rank"]
            found.append(Entered(_collective(records, rows.iloc[0]), _ranks(started), _ranks(others)))
    return tuple(found)


def _collective(records: FlightRecords, call: pd.Series) -> Collective:
    return Collective(records.groups[int(call["group"])], int(call["sequence"]), str(call["operation"]))


def _ranks(ranks: Sequence[int] | pd.Series) -> tuple[int, ...]:
    return tuple(sorted(int(rank) for rank in ranks))

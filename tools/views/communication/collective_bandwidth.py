"""What NCCL Inspector's lines show of a communicator: who enters last, and how fast it moves what its peers move too.

The time of a collective on a rank ends when all have it, and begins when the rank enters it: the rank with the least
time entered last, and its time is the transfer (the others' is the wait for it and the transfer).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import pandas as pd

from tools.run.recorded.collective_records import InspectorRecords

HOST_TIMING = "collective_cpu"  # the host's time of the call, which may return before the device is done
FEWEST_COLLECTIVES = 20  # fewer may be chance
LEAST_BYTES = 1 << 20  # smaller messages are bound by latency, which says little of a link
FEWEST_PEERS = 2  # other communicators of the same shape
INSTANCE = ["communicator", "operation", "sequence"]
SHAPE = ["operation", "bytes", "ranks", "nodes"]


@dataclass(frozen=True)
class LastRank:
    """The rank of a communicator that enters most of its collectives last."""

    communicator: str
    rank: int  # in the job, or in the communicator where that is not known
    known: bool  # it is the rank in the job
    host: str
    last_pct: float  # of the collectives
    wait_us: float  # mean wait of the others for it, per collective
    time_us: float  # mean time of a collective on the others
    collectives: int


@dataclass(frozen=True)
class SlowCommunicator:
    """A communicator that moves less per second than others of the same shape, waiting taken off."""

    communicator: str
    operation: str
    bytes: int
    busbw_gb_per_s: float
    peers_gb_per_s: float  # median of the other communicators
    peers: int
    ranks: tuple[int, ...]  # in the job, those that are known
    hosts: tuple[str, ...]


def complete(records: InspectorRecords) -> pd.DataFrame:
    """The rows of collectives that every rank of their communicator recorded, timed on the device."""
    table = records.collectives
    table = table[(table["timing"] != HOST_TIMING) & (table["ranks"] > 1)]
    members = table.groupby(INSTANCE)["member"]
    return table[(members.transform("nunique") == table["ranks"]) & (members.transform("size") == table["ranks"])]


def last_ranks(records: InspectorRecords) -> tuple[LastRank, ...]:
    """Of each communicator with enough collectives the rank that enters most of them last, largest wait first."""
    table = complete(records)
    if table.empty:
        return ()
    least = table.loc[table.groupby(INSTANCE)["time_us"].idxmin()]
    others = table.merge(least[[*INSTANCE, "member", "time_us"]], on=INSTANCE, suffixes=("", "_last"))
    others = others[others["member"] != others["member_last"]]
    found = []
    for communicator, rows in least.groupby("communicator"):
        if len(rows) < FEWEST_COLLECTIVES:
            continue
        member = int(rows["member"].mode().iloc[0])
        own = rows[rows["member"] == member]
        waiting = others[(others["communicator"] == communicator) & (others["member_last"] == member)]
        rank = int(own["rank"].iloc[0])
        found.append(
            LastRank(
                str(communicator),
                rank if rank >= 0 else member,
                rank >= 0,
                str(own["host"].iloc[0]),
                100.0 * len(own) / len(rows),
                float((waiting["time_us"] - waiting["time_us_last"]).mean()),
                float(waiting["time_us"].mean()),
                len(rows),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.wait_us * each.collectives, each.communicator)))


def transfers(records: InspectorRecords) -> pd.DataFrame:
    """Bus bandwidth without waiting: columns ``SHAPE``, communicator, busbw_gb_per_s (median), collectives."""
    table = complete(records)
    least = table.loc[table.groupby(INSTANCE)["time_us"].idxmin()]
    grouped = least.groupby([*SHAPE, "communicator"])["busbw_gb_per_s"]
    return grouped.agg(busbw_gb_per_s="median", collectives="size").reset_index()


def slow_communicators(records: InspectorRecords) -> tuple[SlowCommunicator, ...]:
    """Each communicator with enough peers of one shape, by its share of their bandwidth, slowest first."""
    moved = transfers(records)
    moved = moved[(moved["collectives"] >= FEWEST_COLLECTIVES) & (moved["bytes"] >= LEAST_BYTES)]
    found: dict[str, tuple[float, SlowCommunicator]] = {}
    for _, rows in moved.groupby(SHAPE):
        if len(rows) <= FEWEST_PEERS:
            continue
        for row in rows.to_dict("records"):
            others = rows[rows["communicator"] != row["communicator"]]["busbw_gb_per_s"]
            share = row["busbw_gb_per_s"] / max(float(others.median()), 1e-12)
            name = str(row["communicator"])
            if name not in found or share < found[name][0]:
                found[name] = share, _slow(records, row, float(others.median()), len(others))
    return tuple(each for _, each in sorted(found.values(), key=lambda each: (each[0], each[1].communicator)))


def _slow(records: InspectorRecords, row: Mapping[Hashable, object], peers: float, count: int) -> SlowCommunicator:
    table = records.collectives
    own = table[table["communicator"] == row["communicator"]]
    return SlowCommunicator(
        str(row["communicator"]),
        str(row["operation"]),
        int(str(row["bytes"])),
        float(str(row["busbw_gb_per_s"])),
        peers,
        count,
        tuple(sorted({int(rank) for rank in own["rank"] if rank >= 0})),
        tuple(sorted({str(host) for host in own["host"]})),
    )

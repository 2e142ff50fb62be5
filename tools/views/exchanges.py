"""Exposed exchanges of activations: all-to-alls whose result the next operator needs at once.

No order of the same work hides them, unlike gradients, which nobody needs before the update: what overlaps
them has to come from another part of the batch (pipelined experts, or shards of the micro-batch).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tools.intervals import IntervalSet, intersect, length, subtract, union
from tools.views.arrivals import waits
from tools.views.collectives import collectives
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.transfers import SMALL_BYTES, fits, small_start_ns

NEEDED_AT_ONCE = ("all_to_all",)
SHARDS = (2, 3, 4)  # more make operators small: with eight GPT3-13B was slower than without (Hermes, USENIX ATC'25)


def exchange_rows(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` in steps whose result is needed at once."""
    table = collectives(profile)
    return table[(table["step"] >= 0) & table["kind"].isin(NEEDED_AT_ONCE)]


def moving(profile: Profile, rank: RankProfile) -> IntervalSet:
    """Exposed communication of the rank without its waiting for late ranks."""
    table = waits(profile)
    mine = table[table["rank"] == rank.rank.rank]
    start = mine["start_ns"].to_numpy()
    return subtract(rank.parts.exposed_communication, union(start, start + mine["wait_ns"].to_numpy()))


def exposed_exchange_ns(profile: Profile, rank: RankProfile) -> float:
    """Exposed transfer of the exchanges, mean per step of the rank."""
    table = exchange_rows(profile)
    mine = table[table["rank"] == rank.rank.rank]
    under_way = union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
    return float(np.mean(rank.per_step_ns(intersect(moving(profile, rank), under_way))))


def pipelined_ns(profile: Profile, exposed_ns: float) -> float:
    """What of these exchanges shards would hide per step: all but the first shard's, less starting them that often."""
    count = len(exchange_rows(profile)) / max(len(profile.breakdown), 1)
    start_ns = max(
        (fit.fixed_ns for fit in fits(profile) if fit.kind in NEEDED_AT_ONCE), default=small_start_ns(profile)
    )
    return max(0.0, *(exposed_ns * (1.0 - 1.0 / shards) - (shards - 1) * count * start_ns for shards in SHARDS))


# Between two of them the thread that computes gives up its core to the library's threads and gets it back late, so the
# cost is what the ranks did meanwhile and not how long one collective takes.


@dataclass(frozen=True)
class MessageCost:
    """Per step of one rank: time with such a collective under way, exposed and overlapped with compute."""

    rank: int
    exposed_ms: float
    overlapped_ms: float


def mergeable_messages(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` in steps that are small and that a larger one could carry as well."""
    table = collectives(profile)
    small = (table["bytes"] > 0) & (table["bytes"] <= SMALL_BYTES) & (table["step"] >= 0)
    return table[small & ~table["kind"].isin((*NEEDED_AT_ONCE, "send_recv"))]


@memoized
def message_cost(profile: Profile) -> MessageCost:
    """The cost on the rank that has least exposed: unlike the others it waits for none that has more to compute."""
    table = mergeable_messages(profile)
    costs = []
    for rank in profile.ranks:
        mine = table[table["rank"] == rank.rank.rank]
        under_way = union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        exposed, overlapped = (
            length(intersect(under_way, part)) / 1e6 / max(len(rank.rank.steps), 1)
            for part in (rank.parts.exposed_communication, rank.parts.overlapped_communication)
        )
        costs.append(MessageCost(rank.rank.rank, exposed, overlapped))
    return min(costs, key=lambda each: (each.exposed_ms, each.rank))

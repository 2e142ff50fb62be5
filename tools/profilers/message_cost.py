"""What many small collectives cost ranks without a device: waiting with nothing else to do, and cores taken away.

Between two of them the thread that computes gives up its core to the library's threads and gets it back late, so the
cost is told by what the ranks did meanwhile and not by how long one collective takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tools.intervals import IntervalSet, intersect, length, union
from tools.profilers.collectives import collectives
from tools.profilers.exchanges import NEEDED_AT_ONCE
from tools.profilers.profile import Profile
from tools.profilers.transfers import SMALL_BYTES


@dataclass(frozen=True)
class MessageCost:
    """Per step of one rank: time with such a collective under way, apart from computation and beside it."""

    rank: int
    exposed_ms: float
    beside_ms: float


def mergeable_messages(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` in steps that are small and that a larger one could carry as well."""
    table = collectives(profile)
    small = (table["bytes"] > 0) & (table["bytes"] <= SMALL_BYTES) & (table["step"] >= 0)
    return table[small & ~table["kind"].isin((*NEEDED_AT_ONCE, "send_recv"))]


def message_cost(profile: Profile) -> MessageCost:
    """The cost on the rank that has least exposed: unlike the others it waits for none that has more to compute."""
    return profile.memo("message_cost", lambda: _message_cost(profile))


def _message_cost(profile: Profile) -> MessageCost:
    table = mergeable_messages(profile)
    costs = []
    for rank in profile.ranks:
        mine = table[table["rank"] == rank.rank.rank]
        under_way = union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
        parts, steps = rank.parts, max(len(rank.rank.steps), 1)
        exposed, beside = (
            _ms(under_way, part, steps) for part in (parts.exposed_communication, parts.overlapped_communication)
        )
        costs.append(MessageCost(rank.rank.rank, exposed, beside))
    return min(costs, key=lambda each: (each.exposed_ms, each.rank))


def _ms(under_way: IntervalSet, part: IntervalSet, steps: int) -> float:
    return length(intersect(under_way, part)) / 1e6 / steps

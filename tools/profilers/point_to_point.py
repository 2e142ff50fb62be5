"""Transfers between two ranks (send, receive): how long each took, and how much of that was waiting for the partner.

The trace does not tell when the partner was ready. The shortest transfer of the same size in the run is taken for the
transfer itself, everything beyond it for waiting; what is exposed of it is time in which the rank did nothing else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, covered, intersect, union
from tools.profilers.collectives import collectives
from tools.profilers.profile import Profile

KIND = "send_recv"


def point_to_point(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` that are sends or receives inside steps, with a column ``wait_ns``."""
    return profile.memo("point_to_point", lambda: _table(profile))


def waiting_for_partner(profile: Profile, rank: int) -> IntervalSet:
    """The moments in which a rank does nothing but wait for the partner of a transfer."""
    table = point_to_point(profile)
    mine = table[(table["rank"] == rank) & (table["wait_ns"] > 0)]
    if mine.empty:
        return EMPTY
    start = mine["start_ns"].to_numpy()
    return intersect(union(start, start + mine["wait_ns"].to_numpy()), profile.rank(rank).parts.exposed_communication)


def partner_wait_ns(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Per step of the rank, the time in which it does nothing but wait for the partner of a transfer."""
    steps = profile.rank(rank).steps
    return covered(waiting_for_partner(profile, rank), steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())


def _table(profile: Profile) -> pd.DataFrame:
    table = collectives(profile)
    table = table[((table["kind"] == KIND) & (table["step"] >= 0)).to_numpy()].reset_index(drop=True)
    duration = table["end_ns"] - table["start_ns"]
    return table.assign(wait_ns=duration - duration.groupby(table["bytes"]).transform("min"))

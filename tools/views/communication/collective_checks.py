"""Checks that TORCH_DISTRIBUTED_DEBUG=DETAIL makes before every collective, as a trace shows them.

The wrapper of torch (``ProcessGroupWrapper.cpp``, ``runCollectiveChecks``) lets all ranks meet first: inside the call
that asks for a collective every rank sends to rank 0 and receives from it (a monitored barrier), then the ranks gather
the number of tensors and a fingerprint of the call. A program that asks for a collective does none of that.
"""

from __future__ import annotations

import numpy as np

from tools.run.links import enclosing
from tools.views.communication.collectives import KIND, collectives
from tools.views.profile import Profile, memoized

SEVERAL = 5  # collectives, fewer of which show no rule
NEARLY_ALL = 0.9  # of the calls hold a send and a receive; the first may have begun before the recording
GATHERED = 2  # times for each collective


@memoized
def collectives_checked(profile: Profile, rank: int) -> bool:
    """Whether nearly all collectives of a rank inside its steps are preceded by such checks."""
    view, table = profile.rank(rank), collectives(profile)
    table = table[(table["rank"] == rank) & (table["step"] >= 0)]
    asked = view.outermost(view.in_steps(np.flatnonzero(view.named("communication_operator"))))
    if len(asked) < SEVERAL:
        return False
    direct = table.loc[table["kind"] == KIND, "row"].to_numpy(np.int64)
    met = np.unique(enclosing(view.events, direct, asked))
    gathers = int((table["kind"] == "all_gather").sum())
    return bool((met >= 0).sum() >= NEARLY_ALL * len(asked) and gathers >= NEARLY_ALL * GATHERED * len(asked))

"""How continuously a rank's collectives run, from the first of a step to the end of the last."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.intervals import covered, union
from tools.profilers.collectives import collectives
from tools.profilers.profile import Profile


def link_use(profile: Profile) -> pd.DataFrame:
    """One row per rank and step with collectives: columns rank, step, span_ns (first start to last end), busy_ns.

    Where busy is nearly the span, the collectives follow each other without a pause: an earlier start of one of them
    would only have it wait for the one before. Transfers between two ranks are left out.
    """
    return profile.memo("link_use", lambda: _link_use(profile))


def busy_share(profile: Profile) -> float:
    """Busy time over span, all ranks and steps together; 0 without collectives."""
    table = link_use(profile)
    span = float(table["span_ns"].sum())
    return float(table["busy_ns"].sum()) / span if span > 0 else 0.0


def _link_use(profile: Profile) -> pd.DataFrame:
    table = collectives(profile)
    table = table[((table["step"] >= 0) & (table["kind"] != "send_recv")).to_numpy()]
    spans = table.groupby(["rank", "step"], as_index=False).agg(begin_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    busy = np.zeros(len(spans), dtype=np.int64)
    for rank in spans["rank"].unique():
        mine, own = (spans["rank"] == rank).to_numpy(), table[table["rank"] == rank]
        moments = union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        busy[mine] = covered(moments, spans["begin_ns"].to_numpy()[mine], spans["end_ns"].to_numpy()[mine])
    return spans.assign(span_ns=spans["end_ns"] - spans["begin_ns"], busy_ns=busy)

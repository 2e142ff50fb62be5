"""Chains of element-wise operators on the host, and what one fused operator would keep of their time.

A chain is a run of three or more element-wise operators over whole tensors, and of the reductions between them, as in a
normalization written by hand. Each reads and writes memory that one fused operator would keep in registers. What stays
is the arithmetic of exponentials and the like, and as much traffic as one plain operator of the chain has, twice where
the chain reduces (the statistics are needed before the values). The passes of an optimizer go over other tensors with
every parameter: of its 21 reads and writes an update of Adam keeps 7, a third.

Operators too short to stream memory are passed over, any other one ends a chain. Time for which a call is held up is
left out as far as it is more than new pages for its result take.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.links import parents
from tools.views.device.operator_cost import largest_bytes
from tools.views.host.held_up import held_up
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

RUN_LENGTH = 3  # two in a row are usual (an addition and its activation)
UPDATE_LEFT = 1 / 3  # of the traffic of an optimizer's chain, one fused operator for each parameter
PASSES, REDUCING_PASSES = 1, 2
PAGE_BYTES = 4096.0
COLUMNS = ("row", "chain", "ns", "kept_ns")

Rows = NDArray[np.int64]


def training_operators(view: RankProfile) -> Rows:
    """Operators of the training itself: what a loader computes in the training process is waiting for data."""
    rows = view.in_steps(view.host_compute_rows)
    spans = view.loader_rows[np.argsort(view.start[view.loader_rows], kind="stable")]
    if not len(spans):
        return rows
    last = spans[np.searchsorted(view.start[spans], view.start[rows], side="right") - 1]
    begun = view.start[rows] >= view.start[last]
    loading = begun & (view.end[rows] <= view.end[last]) & (view.track[rows] == view.track[last])
    return np.asarray(rows[~loading])


@memoized
def chains(profile: Profile, rank: int) -> pd.DataFrame:
    """The operators of all chains of one rank's host: columns row, chain, ns (not held up), kept_ns (once fused)."""
    view = profile.rank(rank)
    rows = training_operators(view)
    least_ns = profile.thresholds["streaming_operator_us"] * 1e3
    tracks = np.unique(view.track[rows])
    found = [_of_thread(view, _leaves(view, rows[view.track[rows] == track], least_ns)) for track in tracks]
    table = pd.concat([pd.DataFrame({"row": rows[:0], "chain": rows[:0]}), *found], ignore_index=True)
    table = table.assign(chain=table.groupby([view.track[table["row"]], "chain"]).ngroup())
    table = table.assign(ns=_undelayed_ns(profile, view, table["row"].to_numpy(np.int64))).sort_values("row")
    return table.assign(kept_ns=table["ns"] * _left(view, table)).reset_index(drop=True)[list(COLUMNS)]


def _of_thread(view: RankProfile, rows: Rows) -> pd.DataFrame:
    streaming = _streaming(view, rows)
    inside = streaming | view.named("reduction_operator")[rows]
    updating = _updating(view, rows)
    number = np.zeros(len(rows), dtype=np.int64)
    number[1:] = np.cumsum((inside[1:] != inside[:-1]) | (updating[1:] != updating[:-1]))
    length = np.bincount(number, weights=streaming)[number] if len(rows) else number
    chosen = inside & (length >= RUN_LENGTH)
    return pd.DataFrame({"row": rows[chosen], "chain": number[chosen]})


def _leaves(view: RankProfile, rows: Rows, least_ns: float) -> Rows:
    """Outermost element-wise operators, and operators without others inside; none shorter than ``least_ns``."""
    whole = view.outermost(rows[_streaming(view, rows)])
    upward = parents(view.start[rows], view.end[rows])
    long = view.end[rows] - view.start[rows] >= least_ns
    holds = np.zeros(len(rows), dtype=bool)
    holds[upward[long & (upward >= 0)]] = True
    ended = np.maximum.accumulate(view.end[whole]) if len(whole) else whole
    place = np.searchsorted(view.start[whole], view.start[rows], side="right") - 1
    inside = (place >= 0) & (ended[np.maximum(place, 0)] >= view.end[rows]) if len(whole) else np.zeros(len(rows), bool)
    others = rows[~holds & ~inside & long]
    return np.union1d(whole[view.end[whole] - view.start[whole] >= least_ns], others).astype(np.int64)


def _streaming(view: RankProfile, rows: Rows) -> NDArray[np.bool_]:
    """Element-wise operators of one thread; not those that call operators of sparse tensors: they touch few rows."""
    sparse = np.flatnonzero(view.named("sparse_operator") & np.isin(view.track, view.track[rows]))
    begun = np.sort(view.start[sparse])
    first, last = (np.searchsorted(begun, ends[rows], side="left") for ends in (view.start, view.end))
    return np.asarray(view.named("elementwise_operator")[rows] & (last <= first))


def _updating(view: RankProfile, rows: Rows) -> NDArray[np.bool_]:
    """Whether each row lies in a call of an optimizer."""
    spans = view.outermost(np.flatnonzero(view.named("optimizer")))
    spans = spans[np.argsort(view.start[spans], kind="stable")]
    place = np.searchsorted(view.start[spans], view.start[rows], side="right") - 1
    ends = view.end[spans][np.maximum(place, 0)] if len(spans) else view.start[rows]
    return np.asarray((place >= 0) & (view.start[rows] < ends))


def _undelayed_ns(profile: Profile, view: RankProfile, rows: Rows) -> NDArray[np.float64]:
    """Duration of each row without what a call of it was held up, less what new pages for its result explain."""
    calls = held_up(profile, view.rank.rank).set_index("row")
    delays = calls["own_ns"] - calls["usual_ns"]
    delays = delays[delays.index.isin(rows)]
    recorded = view.events.details.operators.set_index("row").loc[delays.index, ["dims", "types"]].astype(str)
    sizes = [largest_bytes(*call) for call in recorded.itertuples(index=False, name=None)]
    pages_ns = np.array(sizes, dtype=float) / PAGE_BYTES * profile.thresholds["page_fault_us"] * 1e3
    delay_ns = delays[delays.to_numpy() > pages_ns].reindex(rows).fillna(0.0).to_numpy(dtype=np.float64)
    return np.asarray(view.end[rows] - view.start[rows] - delay_ns, dtype=np.float64)


def _left(view: RankProfile, table: pd.DataFrame) -> pd.Series[float]:
    """For each row the share of its chain's time that is left once the chain is fused."""
    rows, ns = table["row"].to_numpy(np.int64), table["ns"]
    plain = view.named("elementwise_operator")[rows] & ~view.named("arithmetic_operator")[rows]
    calls = table.assign(
        plain_ns=ns.where(plain),
        arithmetic_ns=ns.where(view.named("arithmetic_operator")[rows], 0.0),
        reducing=view.named("reduction_operator")[rows],
        updating=_updating(view, rows),
    )
    of_chain = calls.groupby("chain")
    passes = np.where(of_chain["reducing"].transform("any"), REDUCING_PASSES, PASSES)
    kept_ns = of_chain["arithmetic_ns"].transform("sum") + passes * of_chain["plain_ns"].transform("median").fillna(0.0)
    left = (kept_ns / of_chain["ns"].transform("sum").clip(lower=1.0)).clip(upper=1.0)
    found: pd.Series[float] = left.where(~calls["updating"], UPDATE_LEFT)
    return found

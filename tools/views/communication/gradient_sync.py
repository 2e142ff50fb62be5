"""All-reduces of gradients, by the backward pass and the optimizer step that they belong to."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import EventKind
from tools.run.links import enclosing, launch_starts
from tools.views.communication.collectives import collectives, elements_of
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

BITMAP_BYTES = 4  # of each parameter in the bitmap
LEAST_BYTES = 65_536  # smaller exchanges are of metrics or flags
ELEMENT_BYTES = (2, 4, 8)  # of a gradient as it is exchanged
METRICS_SHARE = 0.01  # of the bytes of a pass: a loss or a flag that is exchanged with the gradients
COLUMNS = ["row", "bytes", "number", "update", "updates"]


def exchanged_by(profile: Profile) -> Literal["ddp", "script"] | None:
    """What exchanges the gradients: ``script`` where no event of DistributedDataParallel is among recorded operators.

    None where no operators are recorded: then its events would be missing in any case.
    """
    if not profile.traced:
        return None
    if any(view.named("data_parallel").any() for view in profile.ranks):
        return "ddp"
    return "script" if any((view.kind == EventKind.OPERATOR).any() for view in profile.ranks) else None


@memoized
def gradient_passes(profile: Profile, rank: int) -> pd.DataFrame:
    """The all-reduces of one rank inside its steps, by pass: from one forward of the wrapped model to the next.

    Columns: row, bytes, number (of the pass), update (the optimizer steps that follow, as one), updates (how many these
    are). All-reduces of a forward, and those after the last update or inside one (closures), are left out. Where the
    model is not wrapped in DistributedDataParallel: exchanges that the program asks for itself.
    """
    view = profile.rank(rank)
    spans = _forwards(profile, rank)
    steps = view.outermost(np.flatnonzero(view.named("optimizer_update")))
    table = collectives(profile)
    table = table[(table["rank"] == rank) & (table["kind"] == "all_reduce") & (table["step"] >= 0)]
    if table.empty:
        return pd.DataFrame(columns=COLUMNS)
    if not len(spans):
        return _exchanged_by_hand(view, table)
    asked = launch_starts(view.events, table["row"].to_numpy())
    forwards, ended = view.start[spans], view.end[spans]
    begun = view.start[steps] if len(steps) else view.steps["end_ns"].to_numpy()  # ascending, as steps and spans are
    done = view.end[steps] if len(steps) else begun
    number = np.searchsorted(forwards, asked, side="right") - 1
    place = np.maximum(number, 0)
    # Updates that no forward separates belong to one: several models, or one with several optimizers.
    first = np.searchsorted(begun, forwards)  # of each pass: the next update
    cluster = np.searchsorted(forwards, begun, side="right")  # of each update: passes begun before it
    sizes = np.bincount(cluster, minlength=len(forwards) + 1)
    inside = first > np.searchsorted(done, forwards, side="right")  # a closure inside an update
    known = (number >= 0) & (asked >= ended[place]) & (first[place] < len(begun)) & ~inside[place]
    known &= np.searchsorted(begun, asked) == first[place]  # asked before the update, not after it
    update = cluster[np.minimum(first[place], len(begun) - 1)]
    made = table.assign(number=number, update=update, updates=sizes[update])
    kept: pd.DataFrame = made.loc[known, COLUMNS].reset_index(drop=True)
    return kept


def _exchanged_by_hand(view: RankProfile, table: pd.DataFrame) -> pd.DataFrame:
    """The all-reduces by pass, from one forward to the next, where a pass exchanges as many elements as gradients have.

    That holds for no exchange of activations but by chance. A pass counts with those that follow before the same
    update as long as no gradients are cleared in between.
    """
    operators = view.in_steps(np.flatnonzero(view.named("forward_operator")))
    nodes = np.flatnonzero(view.named("backward_node"))
    forwards = np.sort(view.start[operators[enclosing(view.events, operators, nodes) < 0]])
    begun = view.start[view.outermost(np.flatnonzero(view.named("optimizer_update")))]
    cleared = np.sort(view.start[np.flatnonzero(view.named("optimizer") & ~view.named("optimizer_update"))])
    given = view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))
    dims = view.events.details.operators.set_index("row")["dims"].reindex(given)
    if not len(begun) or dims.isna().any():
        return pd.DataFrame(columns=COLUMNS)
    elements = dims.astype(str).map(elements_of).to_numpy(np.float64)
    gradients = np.bincount(np.searchsorted(forwards, view.start[given]), np.maximum(elements, 0), len(forwards) + 1)
    asked = launch_starts(view.events, table["row"].to_numpy())
    made = table.assign(number=np.searchsorted(forwards, asked), update=np.searchsorted(begun, asked), updates=1)
    made["cleared"] = np.searchsorted(cleared, asked)
    received = gradients[made["number"].to_numpy()]
    exchanged = made.groupby("number")["bytes"].transform("sum").to_numpy()
    whole = np.zeros(len(made), dtype=bool)
    for size in ELEMENT_BYTES:
        whole |= (received > 0) & np.isclose(exchanged, size * received, rtol=METRICS_SHARE)
    known = whole & (made["bytes"] >= 0) & (made["update"] < len(begun)) & (made["number"] > 0)
    made = made[known]
    last = made.groupby("update")["cleared"].transform("max")
    kept: pd.DataFrame = made.loc[made["cleared"] == last, COLUMNS].reset_index(drop=True)
    return kept


@memoized
def repeated(profile: Profile, rank: int) -> pd.DataFrame:
    """Of ``gradient_passes`` those all-reduces that a later pass before the same optimizer step makes superfluous.

    A pass counts when it exchanges the same sizes as the last one before the step: sums of gradients need one exchange
    for each update that follows.
    """
    passes = gradient_passes(profile, rank)
    if passes.empty:
        return passes
    grouped = passes.sort_values(["number", "bytes"]).groupby(["update", "number"])
    exchanged = grouped["bytes"].agg(sizes=tuple, bytes="sum").reset_index()
    exchanged["sizes"] = pd.factorize(exchanged["sizes"])[0]
    exchanged["updates"] = exchanged["update"].map(passes.groupby("update")["updates"].first())
    last = exchanged.groupby("update")["sizes"].transform("last")
    same = exchanged[(exchanged["sizes"] == last) & (exchanged["bytes"] >= LEAST_BYTES)]
    later = same.groupby("update").cumcount(ascending=False)  # passes of these sizes before the same update
    kept: pd.DataFrame = passes[passes["number"].isin(same.loc[later >= same["updates"], "number"])]
    return kept


@memoized
def repeated_broadcasts(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of the broadcasts of buffers in forwards right after a repeated pass: without its exchange there are none.

    DistributedDataParallel broadcasts buffers in a forward only where the pass before it exchanged gradients.
    """
    again = repeated(profile, rank)
    table = collectives(profile)
    table = table[(table["rank"] == rank) & (table["kind"] == "broadcast")]
    spans = _forwards(profile, rank)
    if again.empty or table.empty or not len(spans):
        return np.empty(0, dtype=np.int64)
    view = profile.rank(rank)
    asked = launch_starts(view.events, table["row"].to_numpy())
    number = np.searchsorted(view.start[spans], asked, side="right") - 1
    inside = (number >= 0) & (asked < view.end[spans][np.maximum(number, 0)])
    after = np.isin(number - 1, again["number"].to_numpy(np.int64))
    return np.asarray(table["row"].to_numpy(np.int64)[inside & after])


@memoized
def repeated_copies(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of the copies between gradients and buckets in repeated passes: without their exchange there are none."""
    view, spans = profile.rank(rank), _forwards(profile, rank)
    rows = view.in_steps(np.flatnonzero(view.named("bucket_copy")))
    number = np.searchsorted(view.start[spans], view.start[rows], side="right") - 1
    return np.asarray(rows[np.isin(number, repeated(profile, rank)["number"].to_numpy(np.int64))], dtype=np.int64)


def _forwards(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of the wrapped model's forwards inside the steps, by start."""
    view = profile.rank(rank)
    spans = view.in_steps(np.flatnonzero(view.named("data_parallel_forward")))
    return np.asarray(spans[np.argsort(view.start[spans], kind="stable")])


def passes_per_update(profile: Profile, rank: int) -> float:
    """How many passes with an all-reduce come before one optimizer step, on average."""
    passes = gradient_passes(profile, rank)
    return float(passes.groupby("update")["number"].nunique().mean()) if len(passes) else 0.0


@memoized
def needless_bitmaps(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of the all-reduces that exchange which parameters were used (``find_unused_parameters``) where all were.

    The bitmap has one 32-bit number for each parameter, and each gradient that reaches a parameter is one event: where
    a pass has as many of them as the bitmap has numbers, every parameter of the wrapped model got a gradient.
    """
    view, passes = profile.rank(rank), gradient_passes(profile, rank)
    if passes.empty or not len(unused_searches(profile, rank)):
        return np.empty(0, dtype=np.int64)
    spans = view.in_steps(np.flatnonzero(view.named("data_parallel_forward")))
    begun = np.sort(view.start[spans])
    given = view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))
    place = np.maximum(np.searchsorted(begun, view.start[given], side="right") - 1, 0)
    parameters = np.bincount(place, minlength=len(begun))[passes["number"].to_numpy(np.int64)]
    needless: NDArray[np.bool_] = passes["bytes"].to_numpy() == BITMAP_BYTES * parameters
    return np.asarray(passes["row"].to_numpy()[needless], dtype=np.int64)


def unused_searches(profile: Profile, rank: int) -> NDArray[np.int64]:
    """Rows of the searches for unused parameters inside steps."""
    view = profile.rank(rank)
    return view.in_steps(np.flatnonzero(view.named("unused_parameter_search")))

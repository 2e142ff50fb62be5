"""Exchanges of gradients by backward pass and optimizer step."""

from __future__ import annotations

import numpy as np

from tools.intervals import length
from tools.metrics.measurement import Measurement, metric, of_events
from tools.views.communication import gradient_sync
from tools.views.profile import Profile


@metric("passes", "backward passes with an all-reduce per optimizer step", "How often are gradients exchanged?")
def passes_per_update(profile: Profile, rank: int) -> Measurement:
    """Backward passes that hold an all-reduce of gradients, per optimizer step."""
    rows = gradient_sync.gradient_passes(profile, rank)["row"].to_numpy(np.int64)
    return of_events(
        profile.rank(rank),
        gradient_sync.passes_per_update(profile, rank),
        rows,
        "all-reduces of gradients",
    )


@metric("B", "gradients exchanged in a pass", "How much does one exchange of gradients carry?")
def pass_bytes(profile: Profile, rank: int) -> Measurement:
    """Median over passes of the bytes of their all-reduces."""
    passes = gradient_sync.gradient_passes(profile, rank)
    value = float(passes.groupby("number")["bytes"].sum().median())
    return of_events(profile.rank(rank), value, passes["row"].to_numpy(np.int64), "all-reduces by pass")


@metric("ms", "time per step in repeated gradient exchanges", "How long do exchanges that need not be take?")
def repeated_exchange_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in which an all-reduce is under way that a later one before the same update makes superfluous."""
    view, rows = profile.rank(rank), gradient_sync.repeated(profile, rank)["row"].to_numpy(np.int64)
    value = length(view.covered(rows)) / 1e6 / len(view.steps)
    return of_events(view, value, rows, "all-reduces before the last pass of an optimizer step")


@metric("gradients", "gradients that reach parameters per step", "How many parameters get a gradient per step?")
def accumulated_gradients(profile: Profile, rank: int) -> Measurement:
    """Parameters that get a gradient, per step; a parameter counts in each backward pass."""
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))
    return of_events(view, len(rows) / len(view.steps), rows, "torch::autograd::AccumulateGrad")


@metric("searches", "searches for unused parameters per step", "How often does DDP search unused parameters?")
def unused_searches(profile: Profile, rank: int) -> Measurement:
    """Searches for parameters without a gradient per step (``find_unused_parameters``)."""
    view, rows = profile.rank(rank), gradient_sync.unused_searches(profile, rank)
    return of_events(view, len(rows) / len(view.steps), rows, "reducer::search_unused_parameters")


@metric("ms", "time per step in needless searches for unused parameters", "How long do these searches take?")
def unused_search_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in which a search is open or its bitmap's all-reduce under way, where all parameters are used."""
    view, bitmaps = profile.rank(rank), gradient_sync.needless_bitmaps(profile, rank)
    rows = np.union1d(bitmaps, gradient_sync.unused_searches(profile, rank)) if len(bitmaps) else bitmaps
    value = length(view.covered(rows)) / 1e6 / len(view.steps)
    return of_events(view, value, rows, "reducer::search_unused_parameters and all-reduces of 4 bytes per parameter")

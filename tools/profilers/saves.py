"""Where a trace shows that the training's state is saved while the training waits.

A saving that the training waits for first brings tensors to the host, in blocking copies of far more bytes than a loss
or a metric has, and then keeps the host from launching anything while it packs and writes them. It comes in few steps;
what is copied in most steps is offloaded or read, not saved; in ``FEW_STEPS`` that cannot be told. Where Python frames
are recorded they name it, or show that it is something else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, intersect, merge, union
from tools.profilers.blocking import blocking_calls
from tools.profilers.idle import idle_time
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.run.events import EventKind

FEW_STEPS = 2  # recorded: one that copies may then be like all the others
MOST_STEPS = 0.5  # of the steps: what happens in more of them is not the saving of a state at intervals


@dataclass(frozen=True, eq=False)
class Saves:
    """The savings of one rank.

    ``steps``: numbers of the steps that hold one; ``copied_bytes``: what these bring to the host, in all; ``copies``:
    the copies' rows; ``moments``: when the device is idle for the host's pause from the first copy on; ``copying``:
    when nothing but the copies runs; ``frames``: the part of the moments inside Python frames that save; ``framed``:
    inside any Python frames.
    """

    steps: tuple[int, ...]
    copied_bytes: int
    copies: NDArray[np.int64]
    moments: IntervalSet
    copying: IntervalSet
    frames: IntervalSet
    framed: IntervalSet
    track: int


NO_SAVES = Saves((), 0, np.empty(0, dtype=np.int64), EMPTY, EMPTY, EMPTY, EMPTY, -1)


def saves(profile: Profile, rank: int) -> Saves:
    """The savings that the trace of a rank with a device shows."""
    return profile.memo(f"saves:{rank}", lambda: _saves(profile, profile.rank(rank)))


def _saves(profile: Profile, view: RankProfile) -> Saves:
    copies = _copied_back(profile, view)
    per_step = copies.groupby("step")["bytes"].sum()
    large = per_step[per_step >= profile.thresholds["state_copy_bytes"]]
    if large.empty or FEW_STEPS < len(view.steps) < len(large) / MOST_STEPS:
        return NO_SAVES
    copies = copies[copies["step"].isin(large.index)]
    begun = copies.groupby("step")["start_ns"].min()
    ends = view.steps.set_index("number")["end_ns"].loc[begun.index]
    after = np.column_stack((begun.to_numpy(), ends.to_numpy()))
    moments = intersect(idle_time(profile, view.rank.rank).sets["stall"], after)
    python = (view.kind == EventKind.PYTHON) & view.on_training_thread
    named, framed = np.flatnonzero(view.named("saving_frame") & python), np.flatnonzero(python)
    return Saves(
        steps=tuple(int(number) for number in begun.index),
        copied_bytes=int(large.sum()),
        copies=copies["row"].to_numpy(),
        moments=moments,
        copying=intersect(view.parts.exposed_memcpy, after),
        frames=intersect(moments, union(view.start[named], view.end[named])),
        framed=intersect(moments, union(view.start[framed], view.end[framed])),
        track=int(copies["track"].iloc[0]),
    )


def lost(found: Saves) -> IntervalSet:
    """The time in which the device computes nothing for the saving's sake."""
    return merge(found.moments, found.copying)


def _copied_back(profile: Profile, view: RankProfile) -> pd.DataFrame:
    """The blocking copies to the host inside steps: row and track of the call, step, start_ns, bytes."""
    calls = blocking_calls(profile, view.rank.rank)
    rows = calls.loc[calls["read_back"], "row"].to_numpy()
    links = view.launches[view.launches["launch_row"].isin(rows)]
    sizes = view.events.details.copies.set_index("row")["bytes"]
    sizes = sizes[~sizes.index.duplicated()].reindex(links["device_row"].to_numpy())
    return pd.DataFrame(
        {
            "row": links["launch_row"].to_numpy(),
            "track": links["host_track"].to_numpy(),
            "step": view.step_of(links["launch_row"].to_numpy()),
            "start_ns": links["call_start_ns"].to_numpy(),
            "bytes": sizes.fillna(0).clip(lower=0).to_numpy(dtype=np.int64),
        }
    )

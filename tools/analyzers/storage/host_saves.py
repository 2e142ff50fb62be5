"""Do steps of a trace without a device stop while the model's state is saved?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.analyzers.storage.saves import NAMED_CAP, RARE, periodic_stall
from tools.analyzers.support.answers import affected, clean, confidence, say, worst_of
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.knowledge.name_patterns import matching
from tools.metrics.host.pauses import Cover, cover
from tools.metrics.host.state_saves import state_saves
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.change import Scale
from tools.whatif.threads import main_track

ONCE_CAP, SEVERAL_CAP = 0.6, 0.75  # seen in one step, its frequency is not known
OPEN = "What the host does with the state is not recorded; sending it to another process would look the same."


@check(
    *("storage.host_save", "Saves in a trace of a host", "Do traced steps stop after the model's state was taken?"),
    causes=("checkpoint_stall",),
    mechanisms=("synchronous_save",),
)
def host_saves(profile: Profile) -> Check | Finding | None:
    """Steps in which all parameters are detached in a row and the host then pauses, in runs without a device.

    Where the steps' own rhythm shows the saves (``storage.periodic_stall``), that finding has their cost.
    """
    rhythm = periodic_stall.once(profile)
    if profile.run.has_device or (rhythm is not None and rhythm.status == "found"):
        return None
    covers = {rank: _cover(profile, rank) for rank in profile.run.rank_numbers if state_saves(profile, rank).steps}
    saving = [rank for rank, found in covers.items() if _saves(found) or not found.framed]
    if not saving:
        return clean(say("No step takes the model's state and then pauses for anything but its own functions."))
    limit = profile.thresholds["noted_pct"]
    costs = {rank: measure(profile, "state_save_ms", rank=rank) for rank in saving}
    shares = {rank: 100.0 * cost.value / profile.mean_step_ms for rank, cost in costs.items()}
    worst, chosen = worst_of(shares), affected(shares, limit)
    steps, each, cost = measure_all(profile, "state_save_steps", "state_save_each_ms", "state_save_ms", rank=worst)
    if not chosen:
        return clean(say("After the model's state is taken the host pauses for {0} per step.", cost))
    named, once = _saves(covers[worst]), len(state_saves(profile, worst).steps) == 1
    text = (
        "In {0} of those recorded the program takes the values of all parameters, as `state_dict()` does, and then"
        " pauses for {1}: {2} per step."
    )
    return Finding(
        cause="checkpoint_stall",
        mechanism="synchronous_save",
        claim=say(text, steps, each, cost),
        confidence=confidence(
            (shares[worst], limit), at_most=ONCE_CAP if once else NAMED_CAP if named else SEVERAL_CAP
        ),
        ranks=chosen,
        steps=state_saves(profile, worst).steps,
        change=tuple(
            Scale(rank, main_track(profile.rank(rank)), state_saves(profile, rank).moments, 0.0, 0.5) for rank in chosen
        ),
        against=(*(() if named else (say(OPEN),)), *((say(RARE),) if once else ())),
    )


def _cover(profile: Profile, rank: int) -> Cover:
    return cover(profile.rank(rank), state_saves(profile, rank).moments)


def _saves(found: Cover) -> bool:
    """Whether Python frames around the pauses write state."""
    names = pd.Series([name for name in (found.name, found.inner) if name], dtype="category")
    return found.framed and bool(np.any(matching(names, "saving_frame")))

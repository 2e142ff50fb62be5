"""Does a trace show that the training stops while its state is saved?"""

from __future__ import annotations

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, measure_all, say, worst_of
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.intervals import length
from tools.metrics.recorded.saves import FEW_STEPS, saves
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.change import Scale

NAMED_PCT = 50.0  # of the pauses inside frames that save: then the cause is read, not inferred
NAMED_CAP, FEW_CAP = 0.92, 0.6  # by frames; where too few steps show how often it happens
SEVERAL_CAP, ONCE_CAP = 0.45, 0.35  # hypotheses: by copies and pauses alone, in several steps and in one
OPEN = "What the host does in these pauses is not recorded; computing or writing out results would look the same."
RARE = "So few steps are recorded that the saving may come far more seldom than in them."
NOT_TOLD = (
    "a large copy to the host in so few steps may be what every step does, and no Python frame shows what it is for"
)
NEEDS = "a trace of a whole save interval with Python frames (with_stack=True)"


@check(
    *("storage.traced_save", "Saves in the trace", "Do traced steps stop while state is saved?"),
    causes=("checkpoint_stall",),
    mechanisms=("synchronous_save",),
    needs=(Need.DEVICE,),
)
def traced_saves(profile: Profile) -> Check | Finding:
    """Steps that bring a state to the host and then pause, on ranks with a device."""
    devices = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    if not devices:
        return cannot_answer(
            "no work on a device is recorded, so no copy of a state to the host", "a trace with device activity"
        )
    copying = [rank for rank in devices if saves(profile, rank).steps]
    saving = [rank for rank in copying if not _otherwise(profile, rank)]
    if copying and not saving:
        text = "Some steps copy {0} to the host and then pause, but Python frames that save fill {1} of the pauses."
        return clean(say(text, *measure_all(profile, "saved_bytes", "save_frames_pct", rank=copying[0])))
    if not saving:
        text = "No step stands out by copying a state to the host; a step has {0} that wait for the device."
        return clean(say(text, measure(profile, "blocking_calls_per_step", rank=devices[0])))
    shares = {
        rank: 100.0 * measure(profile, "save_stall_ms", rank=rank).value / profile.mean_step_ms for rank in saving
    }
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    copied, cost = measure_all(profile, "saved_bytes", "save_stall_ms", rank=worst)
    if not chosen:
        text = "Some steps copy {0} to the host, for which the device waits {1} per step on average."
        return clean(say(text, copied, cost))
    if _few(profile, worst) and not _named(profile, worst):
        return cannot_answer(NOT_TOLD, NEEDS)
    return _finding(profile, chosen, worst, shares[worst])


def _otherwise(profile: Profile, rank: int) -> bool:
    """Whether the frames show what the host does in the pauses, and none of them saves."""
    found = saves(profile, rank)
    return not len(found.frames) and 100.0 * length(found.framed) > NAMED_PCT * length(found.moments)


def _named(profile: Profile, rank: int) -> bool:
    return measure(profile, "save_frames_pct", rank=rank).value >= NAMED_PCT


def _few(profile: Profile, rank: int) -> bool:
    return len(profile.rank(rank).steps) <= FEW_STEPS


def _finding(profile: Profile, ranks: tuple[int, ...], worst: int, share_pct: float) -> Finding:
    metrics = ("save_stall_ms", "save_pause_ms", "save_steps", "saved_bytes", "save_frames_pct")
    cost, pause, steps, copied, frames = measure_all(profile, *metrics, rank=worst)
    named, few = _named(profile, worst), _few(profile, worst)
    cap = (FEW_CAP if few else NAMED_CAP) if named else SEVERAL_CAP if steps.value > 1 else ONCE_CAP
    pausing = 100.0 * pause.value / profile.mean_step_ms
    return Finding(
        cause="checkpoint_stall",
        mechanism="synchronous_save",
        claim=say(
            "In {0} of those recorded the host copies {1} to its memory and then launches nothing for a while, as when"
            " a checkpoint is saved: the device waits {2} per step, over all steps.",
            *(steps, copied, cost),
        ),
        confidence=confidence(
            (share_pct, profile.thresholds["noted_pct"]), (pausing, profile.thresholds["noted_pct"]), at_most=cap
        ),
        ranks=ranks,
        steps=saves(profile, worst).steps,
        # The state is still copied, but packed and written in parallel with the training.
        change=tuple(Scale(rank, saves(profile, rank).track, saves(profile, rank).moments) for rank in ranks),
        details=(
            say("Of that the pauses after the copies take {0}.", pause),
            *((say("Frames that save fill {0} of the pauses.", frames),) if named else ()),
        ),
        against=(*(() if named else (say(OPEN),)), *((say(RARE),) if few else ())),
        disproved_by="the long steps stay with saving turned off for a few intervals",
        signals=("periodic long steps at the save interval",),
    )

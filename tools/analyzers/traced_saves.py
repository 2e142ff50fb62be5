"""Does a trace show that the training stops while its state is saved?"""

from __future__ import annotations

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.margin import confidence
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.saves import saves
from tools.whatif.change import Change, Scale

NAME = "storage.traced_save"
NAMED_PCT = 50.0  # of the pauses inside frames that save: then the cause is read, not inferred
NAMED_CAP, SEVERAL_CAP, ONCE_CAP = 0.92, 0.75, 0.6  # by frames; by copies and pauses in several steps; in one
OPEN = "What the host does in these pauses is not recorded; writing out results or images would look the same."


def traced_saves(profile: Profile) -> Check:
    """Steps that bring a state to the host and then pause, on ranks with a device."""
    devices = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    if not devices:
        return cannot_answer(
            NAME, "no work on a device is recorded, so no copy of a state to the host", "a trace with device activity"
        )
    saving = [rank for rank in devices if saves(profile, rank).steps]
    if not saving:
        text = "No step stands out by copying a state to the host; a step has {0} that wait for the device."
        return clean(NAME, Sentence(text, (measure(profile, "blocking_calls_per_step", rank=devices[0]),)))
    shares = {rank: 100.0 * _cost(profile, rank).value / profile.mean_step_ms for rank in saving}
    worst = worst_of(shares)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    copied, cost = measure(profile, "saved_bytes", rank=worst), _cost(profile, worst)
    if not chosen:
        text = "Some steps copy {0} to the host, for which the device waits {1} per step on average."
        return clean(NAME, Sentence(text, (copied, cost)))
    return found(NAME, _finding(profile, chosen, worst, shares[worst]))


def _finding(profile: Profile, ranks: tuple[int, ...], worst: int, share_pct: float) -> Finding:
    cost, pause, steps, copied, frames = (
        measure(profile, name, rank=worst)
        for name in ("save_stall_ms", "save_pause_ms", "save_steps", "saved_bytes", "save_frames_pct")
    )
    named = frames.value >= NAMED_PCT
    cap = NAMED_CAP if named else SEVERAL_CAP if steps.value > 1 else ONCE_CAP
    pausing = 100.0 * pause.value / profile.mean_step_ms
    return Finding(
        cause="checkpoint_stall",
        mechanism="synchronous_save",
        claim=Sentence(
            "In {0} of those recorded the host copies {1} to its memory and then launches nothing for a while, as when"
            " a checkpoint is saved: the device waits {2} per step, over all steps.",
            (steps, copied, cost),
        ),
        confidence=confidence(
            (share_pct, profile.thresholds["noted_pct"]), (pausing, profile.thresholds["noted_pct"]), at_most=cap
        ),
        ranks=ranks,
        steps=saves(profile, worst).steps,
        change=_later(profile, ranks),
        details=(
            Sentence("Of that the pauses after the copies take {0}.", (pause,)),
            *((Sentence("Frames that save fill {0} of the pauses.", (frames,)),) if named else ()),
        ),
        against=() if named else (Sentence(OPEN),),
        disproved_by="the long steps stay with saving turned off for a few intervals",
        signals=("periodic long steps at the save interval",),
    )


def _cost(profile: Profile, rank: int) -> Fact:
    return measure(profile, "save_stall_ms", rank=rank)


def _later(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """The state is still copied, but packed and written beside the training."""
    return tuple(Scale(rank, saves(profile, rank).track, saves(profile, rank).moments) for rank in ranks)

"""Step times that fall into groups: which steps, how long, and what differs between them."""

from __future__ import annotations

from tools.analyzers.support.answers import say
from tools.analyzers.support.figures import measure_all
from tools.findings import Sentence
from tools.metrics.host.pauses import places
from tools.metrics.registry import measure
from tools.metrics.step_modes import difference
from tools.views.profile import Profile
from tools.views.steps.coarse import step_series
from tools.views.steps.modes import step_modes, steps_text

PART_WORDS = {
    "compute": "computation",
    "exposed_communication": "exposed communication",
    "exposed_memcpy": "exposed copies",
    "data_wait": "waiting for data",
    "host": "host time",
    "idle": "idle time with queued kernels",
}


def groups(profile: Profile) -> tuple[Sentence, ...]:
    """The groups of the traced steps, one sentence each with what differs; () where the steps form one group."""
    found, numbers = step_modes(profile), step_series(profile).numbers.tolist()
    if not found:
        return ()
    shortest = measure_all(profile, "step_mode_steps", "step_mode_ms", mode=1)
    said = [say("The steps fall into groups: {0} take {1}.", *shortest)]
    for mode, group in enumerate(found[1:], start=2):
        facts = measure_all(profile, "step_mode_steps", "step_mode_ms", "step_mode_cost_ms", mode=mode)
        which = steps_text(group.steps, numbers)
        said.append(say(f"{{0}} ({which}) take {{1}}, which adds {{2}} to the mean step.", *facts))
        said.append(_differs(profile, mode))
    return tuple(said)


def _differs(profile: Profile, mode: int) -> Sentence:
    at = difference(profile, mode)
    part = measure(profile, "step_mode_part_ms", mode=mode, part=at.part, rank=at.rank)
    text = f"In these steps {PART_WORDS[at.part]} on rank {at.rank} takes {{0}} longer"
    if at.name:
        of_name = measure(profile, "step_mode_name_ms", mode=mode, rank=at.rank, name=at.name, where=at.where)
        return say(f"{text}, {{1}} of it in {{n0}}.", part, of_name, names=(at.name,))
    if at.pause:
        before, after, _ = places(profile, at.rank).iloc[at.pause - 1]
        pause = measure(profile, "step_mode_pause_ms", mode=mode, rank=at.rank, place=at.pause)
        return say(f"{text}, {{1}} of it in a pause between {{n0}} and {{n1}}.", part, pause, names=(before, after))
    return say(f"{text}.", part)

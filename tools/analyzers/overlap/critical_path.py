"""The critical path by family, and what the step would lose without each family's work."""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, say
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Sentence
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.critical_path import REMOVABLE

FAMILY_NAMES = {
    "io": "data input",
    "cpu": "the host program",
    "computation": "computation",
    "communication": "communication",
    "memory": "copies and memory",
}
LINKED_SHARE = 0.5  # with fewer launches known, the path would jump between host and device by guess


@check("parallel.critical_path", "Critical path", "What is on the critical path of a step?", stage="inter_operator")
def critical_path(profile: Profile) -> Check:
    """The critical path of the representative steps. It leads the other checks and finds no cause itself."""
    if not any(rank.rank.steps for rank in profile.ranks):
        return cannot_answer("the run has no steps", "steps marked with the profiler's step()")
    devices = [rank for rank in profile.ranks if rank.rank.has_device]
    work = sum(len(rank.kernels) + len(rank.copies) for rank in devices)
    if sum(len(rank.launches) for rank in devices) < LINKED_SHARE * work:
        return cannot_answer(
            "the calls that launched most of the device work are not recorded",
            "a trace with host and device activities, joined by correlation ids",
        )
    step, unexplained = measure(profile, "critical_path_step_ms"), measure(profile, "critical_path_unexplained_ms")
    if unexplained.value * 100.0 > step.value * profile.thresholds["unexplained_path_pct"]:
        return cannot_answer(
            "on most of the critical path the device is idle and nothing recorded shows why",
            "synchronisation records of the device profiler, and device work that is recorded completely",
        )
    idle = measure(profile, "critical_path_ms", family="idle")
    late = ", or the time before a late rank begins its step" if len(profile.ranks) > 1 else ""
    text = f"{{0}} of the path is launch latency and gaps between device operations{late}"
    unknown = [unexplained] if unexplained.value > 0 else []
    rest = say(text + ("; for {1} no reason is known." if unknown else "."), idle, *unknown)
    return clean(*_families(profile, step), rest)


def _families(profile: Profile, step: Fact) -> list[Sentence]:
    """What the path is made of, and what taking each family's work away would save; largest part first."""
    least = step.value * profile.thresholds["noted_pct"] / 100.0
    on_path = {family: measure(profile, "critical_path_ms", family=family) for family in REMOVABLE}
    saving = {family: measure(profile, "family_saving_ms", family=family) for family in REMOVABLE}
    path = _noticeable(on_path, least) or list(on_path)
    saved = _noticeable(saving, least)
    text = f"The critical path of a step of {{0}} consists of {_series(path, 1, 'of')}."
    made_of = say(text, step, *(on_path[family] for family in path))
    if not saved:
        return [made_of, say("Removing the work of any one of them would hardly shorten the step.")]
    alone = ", each removed alone" if len(saved) > 1 else ""
    without = f"The step would be shorter by {_series(saved, 0, 'without')}{alone}."
    return [made_of, say(without, *(saving[family] for family in saved))]


def _noticeable(facts: dict[str, Fact], least: float) -> list[str]:
    return sorted((family for family in facts if facts[family].value >= least), key=lambda name: -facts[name].value)


def _series(families: list[str], first: int, word: str) -> str:
    """``{1} of computation, {2} of data input and {3} of communication``, places counted from ``first``."""
    pieces = [f"{{{place}}} {word} {FAMILY_NAMES[family]}" for place, family in enumerate(families, start=first)]
    return pieces[0] if len(pieces) == 1 else f"{', '.join(pieces[:-1])} and {pieces[-1]}"

"""What does the step wait for? The critical path by family, and what each family could give back."""

from __future__ import annotations

from tools.findings import Check, Fact, Sentence, cannot_answer, clean
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.families import REMOVABLE

NAME = "parallel.critical_path"
FAMILY_NAMES = {
    "io": "data input",
    "cpu": "the host program",
    "computation": "computation",
    "communication": "communication",
    "memory": "copies and memory",
}
LINKED_SHARE = 0.5  # with fewer launches known, the path would jump between host and device by guess


def analyze(profile: Profile) -> tuple[Check, ...]:
    """The critical path of the representative steps. It leads the other questions and finds no cause itself."""
    return (_critical_path(profile),)


def _critical_path(profile: Profile) -> Check:
    if not any(rank.rank.steps for rank in profile.ranks):
        return cannot_answer(NAME, "the run has no steps", "steps marked with the profiler's step()")
    if not _launches_known(profile):
        return cannot_answer(
            NAME,
            "the calls that launched most of the device work are not recorded",
            "a trace with host and device activities, joined by correlation ids",
        )
    step = measure(profile, "critical_path_step_ms")
    unexplained = measure(profile, "critical_path_unexplained_ms")
    if unexplained.value * 100.0 > step.value * profile.thresholds["unexplained_path_pct"]:
        return cannot_answer(
            NAME,
            "on most of the critical path the device is idle and nothing recorded says what for",
            "synchronisation records of the device profiler, and device work that is recorded completely",
        )
    return clean(NAME, *_families(profile, step), *_idle(profile, unexplained))


def _launches_known(profile: Profile) -> bool:
    ranks = [rank for rank in profile.ranks if rank.rank.has_device]
    work = sum(len(rank.kernels) + len(rank.copies) for rank in ranks)
    return sum(len(rank.launches) for rank in ranks) >= LINKED_SHARE * work


def _families(profile: Profile, step: Fact) -> list[Sentence]:
    """What the path is made of, and what taking each family's work away would save; largest part first."""
    least = step.value * profile.thresholds["noted_pct"] / 100.0
    on_path = {family: measure(profile, "critical_path_ms", family=family) for family in REMOVABLE}
    saving = {family: measure(profile, "family_saving_ms", family=family) for family in REMOVABLE}
    path = _listed(on_path, least) or list(on_path)
    worth = _listed(saving, least)
    made_of = Sentence(
        f"The critical path of a step of {{0}} consists of {_series(path, 1, 'of')}.",
        (step, *(on_path[family] for family in path)),
    )
    if not worth:
        return [made_of, Sentence("Taking away the work of any one of them would hardly shorten the step.")]
    alone = ", each taken away alone" if len(worth) > 1 else ""
    without = f"The step would be shorter by {_series(worth, 0, 'without')}{alone}."
    return [made_of, Sentence(without, tuple(saving[family] for family in worth))]


def _listed(facts: dict[str, Fact], least: float) -> list[str]:
    """The families whose figure is noticeable, largest first."""
    return sorted((family for family in facts if facts[family].value >= least), key=lambda name: -facts[name].value)


def _series(families: list[str], first: int, word: str) -> str:
    """``{1} of computation, {2} of data input and {3} of communication``, places counted from ``first``."""
    pieces = [f"{{{place}}} {word} {FAMILY_NAMES[family]}" for place, family in enumerate(families, start=first)]
    return pieces[0] if len(pieces) == 1 else f"{', '.join(pieces[:-1])} and {pieces[-1]}"


def _idle(profile: Profile, unexplained: Fact) -> list[Sentence]:
    idle = measure(profile, "critical_path_ms", family="idle")
    late = ", or the time before a rank that is behind begins its step" if len(profile.ranks) > 1 else ""
    template = f"{{0}} of the path is launch latency and gaps between device operations{late}"
    if unexplained.value > 0:
        return [Sentence(template + "; for {1} no reason is known.", (idle, unexplained))]
    return [Sentence(template + ".", (idle,))]

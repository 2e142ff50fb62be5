"""What does the step wait for? The critical path by family, and what each family could give back."""

from __future__ import annotations

from tools.findings import Check, Fact, Sentence, cannot_answer, clean
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.whatif.families import REMOVABLE

NAME = "parallel.critical_path"
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
    """One sentence per family with a noticeable part of the path or saving, largest part first."""
    facts = [
        (
            family,
            measure(profile, "critical_path_ms", family=family),
            measure(profile, "family_saving_ms", family=family),
        )
        for family in REMOVABLE
    ]
    least = step.value * profile.thresholds["noted_pct"] / 100.0
    listed = [each for each in facts if max(each[1].value, each[2].value) >= least] or facts
    listed.sort(key=lambda each: -each[1].value)
    return [
        Sentence(
            f"Of the {{0}} of a step, {{1}} of the critical path is {family}; without that work "
            "the step would be {2} shorter.",
            (step, on_path, saving),
        )
        for family, on_path, saving in listed
    ]


def _idle(profile: Profile, unexplained: Fact) -> list[Sentence]:
    idle = measure(profile, "critical_path_ms", family="idle")
    late = ", or the time before a rank that is behind begins its step" if len(profile.ranks) > 1 else ""
    template = f"{{0}} of the path is launch latency and gaps between device operations{late}"
    if unexplained.value > 0:
        return [Sentence(template + "; for {1} no reason is known.", (idle, unexplained))]
    return [Sentence(template + ".", (idle,))]

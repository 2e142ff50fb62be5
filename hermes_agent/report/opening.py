"""The first sentences of the answer, in their order: the headline, where the time goes, and what is open."""

from __future__ import annotations

from dataclasses import replace

from hermes_agent.report.answer_basis import cut_traces, one_of_files, outside_steps, partly_read, screened
from hermes_agent.report.shown_by_records import (
    shown_by_output,
    shown_by_samples,
    shown_by_tables,
    shown_without_steps,
    stated_mfu,
    unpriced_leads,
)
from hermes_agent.report.step_course import drift, evenness, overview, ranks_in_turns, with_outlier
from hermes_agent.report.top_bottleneck import first_sentences, other_losses
from tools.analyzers.steps.lines_apart import lines_apart
from tools.analyzers.steps.output_warnings import lost_from, not_finite
from tools.analyzers.steps.step_time import unprofiled
from tools.findings import Sentence
from tools.judgement.catalog import measure
from tools.judgement.ranked_cause import steps_marked
from tools.judgement.ranking import Ranking
from tools.knowledge.untrained import without_training
from tools.run.device_use import ran_on_cpu
from tools.views.profile import Profile
from tools.views.training_seen import inference_name, trains

NO_TRACE = "No trace was read: this answer rests on records of whole steps"
UNSEEN_CAUSES = "slow operators, small launches and transfers are not visible in them"
UNMARKED = (
    "No steps are marked in this recording: all of it counts as one step, start-up included, and figures per step are "
    "figures of the whole recording; nothing shows that training steps look like it."
)
NO_TRAINING = "No training step found: the traces hold neither a backward pass nor an optimizer"


def opening(profile: Profile, ranking: Ranking) -> list[Sentence]:
    """Return the first sentences, the headline first; every figure is a fact.

    A loss that is no finite number from some step on comes before how fast the steps are.
    """
    said = _of_speed(profile, ranking)
    lost = not_finite(profile) if lost_from(profile) is not None else []
    known = {each.template for each in lost}
    return [*lost, *(each for each in said if each.template not in known)]


def _of_speed(profile: Profile, ranking: Ranking) -> list[Sentence]:
    if not profile.measured:
        return [
            *shown_by_output(profile),
            *stated_mfu(profile),
            *shown_by_samples(profile),
            *shown_without_steps(profile),
            *shown_by_tables(profile),
            *cut_traces(profile),
            *_open_verdict(ranking),
            *partly_read(profile),
        ]
    marked, verdict = steps_marked(profile.run), ranking.steps_verdict or ranking.verdict
    if not profile.traced:
        inside = [
            *evenness(profile),
            *drift(profile, ranking),
            *shown_by_tables(profile),
            Sentence(f"{NO_TRACE}; {UNSEEN_CAUSES}."),
        ]
    else:
        inside = [
            *(ranks_in_turns(profile) if verdict == "problem" else ()),
            *overview(profile, marked),
            *_on_cpu(profile),
            *with_outlier(profile),
            *([] if marked else [Sentence(UNMARKED)]),
            *outside_steps(profile),
        ]
    of_output = shown_by_output(profile)
    headline = first_sentences(profile, replace(ranking, verdict=verdict), marked)
    headline += other_losses(ranking)
    said = [
        *([*of_output, *headline] if ranking.steps_verdict and of_output else [*headline, *of_output]),
        *one_of_files(profile),
        *lines_apart(profile),
        *shown_by_samples(profile),
        *unpriced_leads(profile, ranking, (*of_output, *shown_by_samples(profile))),
        *_open_verdict(ranking),
        *screened(profile),
        *cut_traces(profile),
        *partly_read(profile),
        *unprofiled(profile),
        *stated_mfu(profile),
        *inside,
    ]
    if trains(profile):
        return said
    said = [replace(each, template=without_training(each.template)) for each in said]
    return [said[0], _untrained(profile), *said[1:]]


def _on_cpu(profile: Profile) -> list[Sentence]:
    """That a trace which names a device is of a program that ran on the CPU, and how its operators fill the time."""
    backend = profile.run.layout.backend
    ranks = [rank for rank in profile.run.ranks if rank.devices and ran_on_cpu(rank, backend)]
    if len(ranks) < len(profile.run.ranks) or not ranks:
        return []
    named = ranks[0].devices[0].name
    text = (
        f"The trace names {'{n0}' if named else 'a device'}, but nothing is launched on it and all recorded allocations"
        " are of the host's memory: the operators ran on the CPU, for {0}."
    )
    return [
        Sentence(text, (measure(profile, "part_ms", part="compute", rank=ranks[0].rank),), (named,) if named else ())
    ]


def _untrained(profile: Profile) -> Sentence:
    """That the traces hold no training step, and whether names show that it is inference."""
    name = inference_name(profile)
    if name:
        return Sentence(f"{NO_TRAINING}. By names such as {{n0}} it is inference.", (), (name,))
    return Sentence(f"{NO_TRAINING}. It is inference, an evaluation, or a part of a step.")


def _open_verdict(ranking: Ranking) -> list[Sentence]:
    if ranking.verdict != "inconclusive":
        return []
    return [Sentence(f"Inconclusive because {ranking.why}; what would settle it: {ranking.needs}.")]

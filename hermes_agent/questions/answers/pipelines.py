"""Answers about a pipeline: its schedule, micro-batches, and how evenly its stages are divided."""

from __future__ import annotations

import re

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.metrics.communication.pipeline import pipeline
from tools.metrics.recorded.job_log import micro_batches, stages
from tools.views.profile import Profile

STAGES_LISTED = 16
# Not of the micro batch size, which counts samples.
MICRO_BATCHES = re.compile(r"\b([1-9]\d{0,5}) micro ?batch(?!\w* size)|\bmicro ?batch\w* (?:to|of|at) ([1-9]\d{0,5})\b")
MORE = re.compile(r"\bmore micro ?batch\w*\b.*\b(help|faster|better|improve|bring|gain|good)\b")


def stage_layers(discussion: Discussion, _: Question) -> str:
    """What each pipeline stage computes, and how much of the heaviest one would have to move for equal stages."""
    timers = None if discussion.profile().traced else discussion.check("communication.rank_timers")
    if timers is not None and any("ipeline stage" in text for text in timers.text):
        return paragraph(timers.text)
    stages = pipeline(discussion.profile())
    if stages is None:
        return wording("no_stages_traced")
    order = sorted(stages.table.index, key=lambda rank: -float(stages.table["compute_ms"].loc[rank]))
    heaviest = order[0]
    lead = (
        f"The stage of rank {heaviest} computes longest, {{stage_compute_ms:rank={heaviest}}} per step, where the mean "
        "stage takes {stage_compute_ms}: {stage_surplus_pct} of its work would have to move to the others."
    )
    rows = bullets(
        discussion.say(f"rank {rank}: {{stage_compute_ms}} of computation per step", rank=int(rank))
        for rank in order[:STAGES_LISTED]
    )
    return blocks([paragraph([discussion.say(lead), wording("layers_open")]), rows])


def pipeline_schedule(discussion: Discussion, question: Question) -> str:
    """Micro-batches, stages and the idle share of the schedule, also for another number of micro-batches."""
    profile = discussion.profile()
    named = MICRO_BATCHES.search(question.words)
    wanted = float(named[1] or named[2]) if named else None
    if profile.traced:
        return _traced_pipeline(discussion, profile, wanted, MORE.search(question.words) is not None)
    log = profile.run.job_log
    if log is None:
        return wording("no_pipeline")
    if micro_batches(log) is None:
        return wording("no_micro_batches")
    if stages(log) is None:
        return discussion.say("A step has {stated_micro_batches} by the job's arguments. " + wording("no_stages"))
    shape = (
        "{stated_micro_batches} pass through {stated_stages} per step: the schedule leaves {stated_bubble_pct} of it "
        "idle."
    )
    timers = discussion.measured("timed_compute_pct")
    seen = "" if timers is None else discussion.say("By its timers a rank computes {0} of the step.", timers)
    return blocks([paragraph([discussion.say(shape), seen]), _other_schedule(discussion, wanted)])


def _other_schedule(discussion: Discussion, wanted: float | None) -> str:
    """The schedule of the job's pipeline with another number of micro-batches."""
    if wanted is None:
        return ""
    left = discussion.measure("stated_bubble_pct", micro_batches=wanted)
    less = discussion.measure("schedule_saving_pct", micro_batches=wanted)
    text = f"With {wanted:.0f} micro-batches per step it would leave {{0}} idle"
    if less.value <= 0:
        return discussion.say(f"{text}, so the same samples would take no less time.", left)
    return paragraph([discussion.say(f"{text}; the same samples would take {{1}} less time.", left, less),
                      wording("schedule_assumes")])  # fmt: skip


def _waiting_stage(discussion: Discussion, profile: Profile) -> str:
    """The rank that waits most for its neighbours, for whatever reason."""
    waits = {rank: discussion.measured("stage_wait_ms", rank=rank) for rank in profile.run.rank_numbers}
    known = {rank: fact for rank, fact in waits.items() if fact is not None}
    rank = max(known, key=lambda each: known[each].value)
    return discussion.say(f"Rank {rank} waits most in all: {{0}} per step.", known[rank])


def _more_help(discussion: Discussion, profile: Profile) -> str:
    """Yes or no to more micro-batches, by the step with twice as many of them."""
    stages = pipeline(profile)
    assert stages is not None
    changes = f"micro_batches={2 * round(stages.micro_batches)}"
    before = discussion.measured("step_time_ms", statistic="mean")
    after = discussion.measured("changed_step_ms", changes=changes)
    if before is None or after is None:
        return ""
    gain_pct = 100.0 * (before.value - after.value) / before.value
    lead = "Yes" if gain_pct >= profile.thresholds["cause_share_pct"] else "No, hardly"
    text = f"{lead}: with {2 * round(stages.micro_batches)} micro-batches a step would take {{0}} instead of {{1}}."
    uneven = discussion.measure("stage_imbalance_pct")
    heavy = stages.imbalance_ms > stages.bubble_ms
    why = "Most waiting is for the stage that computes longest, {0} longer than the mean, whatever their number."
    return paragraph([discussion.say(text, after, before), discussion.say(why, uneven) if heavy else ""])


def _traced_pipeline(discussion: Discussion, profile: Profile, wanted: float | None, more: bool) -> str:
    if pipeline(profile) is not None:
        text = (
            "{pipeline_micro_batches} micro-batches pass through {pipeline_stages} stages per step. Beyond what they "
            "wait because one computes longer, stages wait for their neighbours {pipeline_bubble_pct} of the step; the "
            "schedule leaves equal stages {pipeline_expected_bubble_pct} of theirs."
        )
        said = [discussion.say(text), _waiting_stage(discussion, profile)]
        if wanted is not None:
            left = discussion.measure("pipeline_expected_bubble_pct", micro_batches=wanted)
            said.append(discussion.say(f"With {wanted:.0f} micro-batches per step it would leave them {{0}}.", left))
        return paragraph([*([_more_help(discussion, profile)] if more else []), *said])
    passes = {rank: discussion.measured("passes_per_update", rank=rank) for rank in profile.run.rank_numbers}
    known = {rank: fact for rank, fact in passes.items() if fact is not None and fact.value > 1}
    if not known:
        return wording("no_pipeline")
    rank, fact = next(iter(known.items()))
    return paragraph([discussion.say(f"On rank {rank}: {{0}}.", fact), wording("passes_are_micro_batches")])

"""Answers about the pace of the training: steps and samples per second."""

from __future__ import annotations

import re

from hermes_agent.questions.answers.drifts import stated_throughput
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.metrics.step_time import slowest_on_average

SAMPLES = re.compile(r"\b(samples?|images?|pictures?|tokens?|sequences?|examples?|items?|qps)\b")
OTHER_THINGS = {"token", "tokens", "qps"}  # of which a sample may hold many
STATED = {
    "logged_samples_per_s": "By the global batch size and the time that the job's step lines state: {0}.",
    "stated_samples_per_s": "As the job's output states it for the whole training: {0}.",
}
PER_HOUR = re.compile(r"\b(per|an?|each|every|pro|in) (1 )?(hour|h)\b|\bhourly\b")


def rate(discussion: Discussion, question: Question) -> str:
    """Steps per second, of unprofiled steps first; samples per second need the batch size, which no trace holds."""
    samples, hourly = SAMPLES.search(question.words), bool(PER_HOUR.search(question.words))
    if samples and samples[1] not in OTHER_THINGS:
        for metric, text in STATED.items():
            if (known := discussion.measured(metric)) is not None:
                return blocks([discussion.say(text, known), steps_per_s(discussion, None, hourly)])
    known = discussion.measured("logged_samples_per_s") if samples and samples[1] in ("token", "tokens") else None
    if known is not None:
        return blocks([discussion.say(wording("tokens_of_samples"), known), steps_per_s(discussion, None, hourly)])
    if samples and samples[1] in OTHER_THINGS and (known := discussion.measured("logged_tokens_per_s")) is not None:
        return blocks([discussion.say(wording("tokens_of_lines"), known), steps_per_s(discussion, None, hourly)])
    if rated := stated_throughput(discussion):
        return rated
    asked = wording("no_samples").format(samples[1].rstrip("s") + "s") if samples else ""
    return blocks([asked, *(steps_per_s(discussion, rank, hourly) for rank in question.ranks or (None,))])


def steps_per_s(discussion: Discussion, rank: int | None, hourly: bool = False) -> str:
    """Steps per second, or per hour, and the mean step behind it."""
    rate = "steps_per_h" if hourly else "steps_per_s"
    profile = discussion.profile()
    whose = f" of rank {rank}" if rank is not None else " on the slowest rank" if len(discussion.ranks) > 1 else ""
    series = profile.series if profile.series is not None and rank in (None, *profile.series.ranks) else None
    unprofiled = traced = ""
    if series is not None or not profile.traced:
        text = f"Unprofiled steps{whose}: {{series_{rate}}}, at a mean of {{series_step_ms:statistic=mean}}."
        unprofiled = discussion.say(text, rank=rank)
    if profile.traced:
        profiled = "Profiled steps" if unprofiled else "Recorded steps"
        text = f"{profiled}{whose}: {{{rate}}}, at a mean of {{step_time_ms:statistic=mean}}."
        traced = discussion.say(text, rank=slowest_on_average(profile) if rank is None else rank)
    return paragraph([unprofiled, traced])

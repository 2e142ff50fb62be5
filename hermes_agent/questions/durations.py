"""How long does a step take?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.steps import which_step
from tools.metrics.recorded.series import run_series
from tools.views.profile import Profile

FEW_STEPS = 3


def how_long(discussion: Discussion, question: Question) -> str:
    """Median, mean and longest step time, of the rank that was named or of the slowest rank.

    Of the steps that no profiler touched where records tell them, as in the diagnosis; the traced ones second.
    """
    if question.steps:
        return which_step(discussion, question)
    if refusal := no_such_rank(discussion, question):
        return refusal
    return blocks(_of(discussion, rank) for rank in (question.ranks or (None,)))


def _by_records(discussion: Discussion, rank: int | None) -> str:
    """As monitor records or step logs tell it, of steps that no profiler touched."""
    names = ("median", "mean", "max")
    median, mean, longest = (discussion.measure("series_step_ms", statistic=name, rank=rank) for name in names)
    several = len(run_series(discussion.material.profile()).ranks) > 1
    whose = f" of rank {rank}" if rank is not None else " on its slowest rank" if several else ""
    lead = f"By its records an unprofiled step{whose} takes"
    text = f"{lead} {{0}} as the median and {{1}} as the mean; the longest takes {{2}}."
    spread = discussion.measure("series_variation_pct", rank=rank)
    return paragraph(
        [discussion.say(text, median, mean, longest), discussion.say("The step time varies by {0}.", spread)]
    )


def _of(discussion: Discussion, rank: int | None) -> str:
    profile = discussion.material.profile()
    if not profile.traced:
        return _by_records(discussion, rank)
    if profile.series is not None and (rank is None or rank in profile.series.ranks):
        return paragraph([_by_records(discussion, rank), _traced(discussion, rank)])
    return _by_trace(discussion, profile, rank)


def _traced(discussion: Discussion, rank: int | None) -> str:
    """The steps that a profiler recorded, beside those that it did not touch."""
    where = {} if rank is None else {"rank": rank}
    facts = [discussion.measure("step_time_ms", statistic=name, **where) for name in ("median", "mean", "max")]
    return discussion.say("The traced steps take {0} as the median and {1} as the mean; the longest takes {2}.", *facts)


def _by_trace(discussion: Discussion, profile: Profile, rank: int | None) -> str:
    where = {} if rank is None else {"rank": rank}
    facts = {name: discussion.measure("step_time_ms", statistic=name, **where) for name in ("median", "mean", "max")}
    whose = f" of rank {rank}" if rank is not None else " on its slowest rank" if len(profile.ranks) > 1 else ""
    count = len(profile.step_ms if rank is None else profile.rank(rank).steps)
    if count < FEW_STEPS:
        lead = discussion.say(f"A step{whose} takes {{0}}, as the mean of what was recorded.", facts["mean"])
        return paragraph([lead, "So few steps do not say how steady it is; record ten or more."])
    text = f"A step{whose} takes {{0}} as the median and {{1}} as the mean; the longest takes {{2}}."
    spread = discussion.measure("step_variation_pct", **where)
    return paragraph(
        [
            discussion.say(text, facts["median"], facts["mean"], facts["max"]),
            discussion.say("The step time varies by {0}.", spread),
        ]
    )

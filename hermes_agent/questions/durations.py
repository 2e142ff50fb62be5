"""How long does a step take?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.steps import which_step

FEW_STEPS = 3


def how_long(discussion: Discussion, question: Question) -> str:
    """Median, mean and longest step time, of the rank that was named or of the slowest rank."""
    if question.steps:
        return which_step(discussion, question)
    if refusal := no_such_rank(discussion, question):
        return refusal
    return blocks(_of(discussion, rank) for rank in (question.ranks or (None,)))


def _by_records(discussion: Discussion, rank: int | None) -> str:
    """Where there is no trace: as monitor records or step logs tell it."""
    names = ("median", "mean", "max")
    median, mean, longest = (discussion.measure("series_step_ms", statistic=name, rank=rank) for name in names)
    whose = " on its slowest rank" if rank is None else f" of rank {rank}"
    text = f"By its records a step{whose} takes {{0}} as the median and {{1}} as the mean; the longest takes {{2}}."
    spread = discussion.measure("series_variation_pct", rank=rank)
    return paragraph(
        [discussion.say(text, median, mean, longest), discussion.say("The step time varies by {0}.", spread)]
    )


def _of(discussion: Discussion, rank: int | None) -> str:
    profile = discussion.material.profile()
    if not profile.traced:
        return _by_records(discussion, rank)
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

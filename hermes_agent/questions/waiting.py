"""Why do ranks wait for each other?"""

from __future__ import annotations

from hermes_agent.model.display import rank_list
from hermes_agent.questions.blamed import blamed_elsewhere
from hermes_agent.questions.collectives import none_recorded
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.ranks import causes_on, longer_in, which_rank
from tools.views.arrivals import arrivals, blame


def why_wait(discussion: Discussion, question: Question) -> str:
    """How long ranks wait in collectives, for whom, and what that rank does meanwhile."""
    if question.ranks:
        return which_rank(discussion, question)
    ranks = discussion.diagnosis.run.ranks
    if none := none_recorded(discussion):
        return paragraph([none, "So no rank waits for another inside them."])
    if len(ranks) == 1:
        fact = discussion.measure("part_ms", part="exposed_communication")
        lead = discussion.say(
            f"Only {rank_list(ranks)} was traced: it spends {{0}} per step in exposed communication, but how much of "
            "that is waiting for other ranks cannot be told.",
            fact,
        )
        return paragraph([lead, "What it needs: the traces of the other ranks for the same steps."])
    profile = discussion.material.profile()
    if arrivals(profile).empty:
        fact = discussion.measure("unmatched_collectives")
        text = "No collective could be matched across the ranks: {0} have no counterpart, so nobody can be named."
        return discussion.say(text, fact)
    wait = discussion.measure("exposed_wait_ms")
    if wait.value <= 0:
        return discussion.say("Ranks do not wait for each other in the steps that were recorded: {0} per step.", wait)
    last = int(str(blame(profile)["share"].idxmax()))
    share = discussion.measure("wait_share_pct", rank=last)
    lead = discussion.say(
        f"In collectives a rank waits {{0}} per step, as the mean over ranks, for a rank that comes later; {{1}} of "
        f"the waiting is for rank {last}.",
        wait,
        share,
    )
    own = paragraph(
        [
            f"Rank {last}:",
            longer_in(discussion, last),
            causes_on(discussion, last),
            blamed_elsewhere(discussion, last),
        ]
    )
    return blocks([lead, own, _uneven(share.value, len(ranks))])


def _uneven(share_pct: float, ranks: int) -> str:
    """Without one rank that everybody waits for, the waiting has no single owner."""
    if share_pct >= 200.0 / ranks and share_pct >= 50.0:
        return ""
    return "No single rank is waited for most of the time, so look for what varies between ranks rather than at one."

"""How busy is the device?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.question import Question

RANKS_TOLD = 8
NO_DEVICE = (
    "No work on a device is recorded, so there is no utilization to tell. "
    "What it needs: a trace with device activity, on a run that uses a device."
)
MEANING = (
    "Busy means that some kernel runs, however little of the device it fills; "
    "it is what nvidia-smi and the TensorBoard plugin call utilization."
)


def how_busy(discussion: Discussion, question: Question) -> str:
    """Share of the step in which kernels run, and in which nothing runs, for each rank with a device."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    ranks = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    ranks = [rank for rank in ranks if not question.ranks or rank in question.ranks]
    if not ranks:
        return NO_DEVICE
    busy = {rank: discussion.measure("device_busy_pct", rank=rank) for rank in ranks}
    ranks.sort(key=lambda rank: busy[rank].value)
    told = [_of_rank(discussion, rank, several=len(profile.ranks) > 1) for rank in ranks[:RANKS_TOLD]]
    if len(ranks) == 1:
        return paragraph([*told, MEANING])
    rest = "The other ranks are busier; name one to see it." if len(ranks) > RANKS_TOLD else ""
    return blocks(
        [
            "The share of the step in which the device runs kernels, the least busy first:",
            bullets(told),
            paragraph([rest, MEANING]),
        ]
    )


def _of_rank(discussion: Discussion, rank: int, *, several: bool) -> str:
    where = f"of rank {rank} " if several else ""
    facts = (discussion.measure("device_busy_pct", rank=rank), discussion.measure("device_idle_pct", rank=rank))
    return discussion.say(f"The device {where}runs kernels for {{0}} of the step, and is idle for {{1}}.", *facts)

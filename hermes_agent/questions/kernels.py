"""Which device kernels take most time?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, table
from hermes_agent.questions.question import Question
from tools.views.host_calls import names_by_time, step_kernels
from tools.views.work import kernel_work

LISTED = 5
NO_DEVICE = (
    "No device kernel runs inside the recorded steps, so there is none to rank; “What are the top host calls?” lists "
    "what the host does. What it needs: a trace with device activity, on a run that uses a device."
)


def top_kernels(discussion: Discussion, question: Question) -> str:
    """The kernels with most time per step: of the rank that was named, else as the mean over ranks."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    if kernel_work(profile).empty:
        return NO_DEVICE
    return blocks(_listed(discussion, rank) for rank in (question.ranks or (None,)))


def _listed(discussion: Discussion, rank: int | None) -> str:
    profile = discussion.material.profile()
    if rank is None:
        names = [str(name) for name in kernel_work(profile).index]
        where, metrics = {}, ("kernel_name_ms", "kernel_name_count")
    else:
        names = names_by_time(profile.rank(rank), step_kernels(profile, rank))
        where, metrics = {"rank": rank}, ("rank_kernel_ms", "rank_kernel_count")
    rows = []
    for name in names[:LISTED]:
        facts = [discussion.measure(metric, name=name, **where) for metric in metrics]
        rows.append(
            [discussion.say("{0}", facts[0]), discussion.say("{0}", facts[1]), discussion.say("{n0}", names=(name,))]
        )
    if not rows:
        return f"No device kernel runs inside the steps of rank {rank}."
    scope = f" of rank {rank}" if rank is not None else " and rank" if len(profile.ranks) > 1 else ""
    lead = f"The kernels that run longest per step{scope}; kernels that overlap each count in full."
    return blocks([lead, table(("per step", "runs per step", "kernel"), rows)])

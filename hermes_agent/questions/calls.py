"""Which calls does the host spend its time in?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, table
from hermes_agent.questions.question import Question
from tools.views.coarse import own_ms
from tools.views.host_calls import host_calls, names_by_time

LISTED = 5


def top_host_calls(discussion: Discussion, question: Question) -> str:
    """The host calls with most time of their own per step, on the rank that was named, else on the slowest."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    ranks = question.ranks or (int(str(own_ms(profile).idxmax())),)
    return blocks(_listed(discussion, rank) for rank in ranks)


def _listed(discussion: Discussion, rank: int) -> str:
    profile = discussion.material.profile()
    names = names_by_time(profile.rank(rank), host_calls(profile, rank))
    if not names:
        return f"No host call of rank {rank} is recorded inside its steps. What it needs: ProfilerActivity.CPU."
    rows = []
    for name in names[:LISTED]:
        facts = [discussion.measure(metric, rank=rank, name=name) for metric in ("host_own_ms", "host_own_count")]
        rows.append(
            [discussion.say("{0}", facts[0]), discussion.say("{0}", facts[1]), discussion.say("{n0}", names=(name,))]
        )
    lead = (
        f"What the training threads of rank {rank} spend most time in, calls inside a call not counted with it. "
        "A call that waits for the device counts its waiting."
    )
    return blocks([lead, table(("per step", "calls per step", "host call"), rows)])

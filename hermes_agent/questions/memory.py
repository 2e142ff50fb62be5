"""How much device memory does the run use?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.question import Question
from tools.errors import UsageError
from tools.views.profile import Profile

RANKS_TOLD = 8
NEEDS = (
    "The trace records no device memory totals, so the peak cannot be told. "
    "What it needs: a recording with `profile_memory=True`."
)


def memory_peak(discussion: Discussion, question: Question) -> str:
    """Largest allocated and reserved device memory of each rank, the fullest first."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    peaks = {rank: _peak(discussion, rank) for rank in question.ranks or profile.run.rank_numbers}
    known = sorted((rank for rank, peak in peaks.items() if peak is not None), key=lambda rank: -(peaks[rank] or 0.0))
    if not known:
        return NEEDS
    told = [_of_rank(discussion, profile, rank) for rank in known[:RANKS_TOLD]]
    return told[0] if len(told) == 1 else blocks(["Device memory by rank, the fullest first:", bullets(told)])


def _peak(discussion: Discussion, rank: int) -> float | None:
    try:
        return discussion.measure("memory_peak_mib", rank=rank).value
    except UsageError:
        return None


def _of_rank(discussion: Discussion, profile: Profile, rank: int) -> str:
    facts = [discussion.measure("memory_peak_mib", rank=rank, what=what) for what in ("allocated", "reserved")]
    facts.append(discussion.measure("memory_unused_pct", rank=rank))
    where = f" on rank {rank}" if len(profile.ranks) > 1 else ""
    text = (
        f"At most {{0}} of device memory are allocated{where}, and {{1}} are held by the allocator; "
        "at the peak {2} of what it holds is not in use."
    )
    return paragraph([discussion.say(text, *facts), _full(discussion, rank)])


def _full(discussion: Discussion, rank: int) -> str:
    try:
        return discussion.say("That is {0} of the device's memory.", discussion.measure("memory_used_pct", rank=rank))
    except UsageError:
        return ""

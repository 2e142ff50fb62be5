"""How many data-loader workers should be used?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks
from hermes_agent.questions.question import Question
from hermes_agent.questions.subjects import subject_of
from hermes_agent.questions.suspicion import about
from tools.errors import UsageError
from tools.findings import Fact

MEASURE_IT = (
    "Add one or two for handing batches over, keep the workers of all ranks on a machine below its cores, and record "
    "again: the wait for data should be gone, and more workers than that bring nothing."
)
UNKNOWN = (
    "How many are needed cannot be told from this recording: the time to make a batch shows only where the training "
    "process loads the data itself. What it needs: a recording of a few steps with `num_workers=0`, and the number of "
    "cores. Failing that, double the workers until the wait for data no longer falls."
)


def how_many_workers(discussion: Discussion, question: Question) -> str:
    """The fewest workers that keep up where a batch's making was recorded, else what would tell."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    profile = discussion.material.profile()
    ranks = question.ranks or profile.run.rank_numbers
    least = {rank: fact for rank in ranks if (fact := _least(discussion, rank)) is not None}
    if least:
        rank = max(least, key=lambda each: least[each].value)
        return blocks([_told(discussion, rank, several=len(least) > 1), MEASURE_IT])
    subject = subject_of("data loader")
    return blocks([UNKNOWN, about(discussion, subject) if subject else ""])


def _least(discussion: Discussion, rank: int) -> Fact | None:
    try:
        return discussion.measure("loader_workers_least", rank=rank)
    except UsageError:
        return None


def _told(discussion: Discussion, rank: int, *, several: bool) -> str:
    where = f" on rank {rank}, which needs no fewer than the others" if several else ""
    facts = [
        discussion.measure("loader_workers_least", rank=rank),
        discussion.measure("loader_span_ms", rank=rank),
        discussion.measure("part_ms", part="data_wait", rank=rank),
    ]
    text = (
        f"At least {{0}}{where}: the training process makes each batch itself, for {{1}} per step, and the step waits "
        "{2} for it; that many processes make batches as fast as the rest of the step uses them."
    )
    return discussion.say(text, *facts)

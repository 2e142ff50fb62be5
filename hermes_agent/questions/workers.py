"""How many data-loader workers should be used?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.subjects import subject_of
from hermes_agent.questions.suspicion import about
from tools.errors import UsageError

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
    told = [text for rank in ranks if (text := _least(discussion, rank, several=len(profile.ranks) > 1))]
    if told:
        return blocks([told[0] if len(told) == 1 else bullets(told), MEASURE_IT])
    subject = subject_of("data loader")
    return blocks([UNKNOWN, about(discussion, subject) if subject else ""])


def _least(discussion: Discussion, rank: int, *, several: bool) -> str:
    try:
        least = discussion.measure("loader_workers_least", rank=rank)
    except UsageError:
        return ""
    where = f" on rank {rank}" if several else ""
    made = discussion.measure("loader_span_ms", rank=rank)
    wait = discussion.measure("part_ms", part="data_wait", rank=rank)
    text = (
        f"At least {{0}}{where}: the training process makes each batch itself, for {{1}} per step, and the step waits "
        "{2} for it; that many processes make batches as fast as the rest of the step uses them."
    )
    return paragraph([discussion.say(text, least, made, wait)])

"""Which rank is slow, and what does it do longer than the others?"""

from __future__ import annotations

import re

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.slowest import WHOLE_RUN, slowest_per_group
from hermes_agent.report.wording import PART_TITLES, cause_title, rank_list
from tools.profilers.arrivals import arrivals
from tools.profilers.parts import PARTS

EVEN_PCT = 3.0  # ranks whose own time lies closer together than this are called equally fast
GROUPS_TOLD = 4
YES_OR_NO = re.compile(
    r"^(is|are|was|were|does|do|could|can)\b.*\b(stragglers?|slow\w*|late|lag\w*|outliers?|behind|waited)\b"
)


def which_rank(discussion: Discussion, question: Question) -> str:
    """The slowest rank of the run and of each group, or how the rank that was named compares."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    numbers = discussion.diagnosis.run.ranks
    if len(numbers) == 1:
        return (
            f"Only {rank_list(numbers)} was traced, so ranks cannot be compared. "
            "What it needs: the traces of the other ranks for the same steps."
        )
    if question.ranks:
        verdict = _verdict if YES_OR_NO.search(question.words) else _no_verdict
        return blocks(paragraph([verdict(discussion, rank), _one_rank(discussion, rank)]) for rank in question.ranks)
    return _slowest(discussion)


def _slowest(discussion: Discussion) -> str:
    groups = slowest_per_group(discussion.material.profile())
    whole = next(group for group in groups if group.group == WHOLE_RUN)
    spread = discussion.measure("rank_spread_pct", of="own")
    own = discussion.measure("rank_time_ms", of="own", rank=whole.slowest)
    if spread.value < EVEN_PCT:
        text = "No rank stands out: without exposed communication the ranks lie {0} apart."
        return paragraph([discussion.say(text, spread), causes_on(discussion, whole.slowest)])
    lead = discussion.say(
        f"Rank {whole.slowest} is the slowest: without exposed communication it takes {{0}} per step, and the "
        "ranks lie {1} apart.",
        own,
        spread,
    )
    parts = [paragraph([lead, longer_in(discussion, whole.slowest), causes_on(discussion, whole.slowest)])]
    for group in groups[1 : GROUPS_TOLD + 1]:
        fact = discussion.measure("rank_time_ms", of="own", rank=group.slowest)
        text = (
            f"In the group {{n0}} ({rank_list(group.ranks)}) the slowest is rank {group.slowest} with {{0}} per step."
        )
        parts.append(discussion.say(text, fact, names=(group.group,)))
    return blocks(parts)


def _verdict(discussion: Discussion, rank: int) -> str:
    """Yes or no: whether the rank itself is late, by its time without exposed communication against the others'."""
    excess = discussion.measure("rank_excess_pct", rank=rank)
    blamed = any(each.cause == "straggler" and rank in each.ranks for each in discussion.diagnosis.causes)
    text = "Without exposed communication it takes {0} beyond the median of the other ranks."
    if excess.value < 0:
        text = "Without exposed communication its difference from the median of the other ranks is {0}."
    if blamed or excess.value >= EVEN_PCT:
        lead = "Yes, it is the one the others wait for:" if blamed else "Yes:"
        return paragraph(
            [f"{lead} rank {rank} stands out.", discussion.say(text, excess), _waited_for(discussion, rank)]
        )
    return paragraph([f"No, rank {rank} does not lag behind the others.", discussion.say(text, excess)])


def _no_verdict(_: Discussion, __: int) -> str:
    return ""


def _waited_for(discussion: Discussion, rank: int) -> str:
    """How much of the waiting in collectives is for this rank; empty where collectives could not be matched."""
    if arrivals(discussion.material.profile()).empty:
        return ""
    share = discussion.measure("wait_share_pct", rank=rank)
    return discussion.say("Of all waiting in collectives {0} is for it.", share) if share.value > 0 else ""


def _one_rank(discussion: Discussion, rank: int) -> str:
    own = discussion.measure("rank_time_ms", of="own", rank=rank)
    wall = discussion.measure("rank_time_ms", of="wall", rank=rank)
    lead = f"Rank {rank} takes {{0}} per step, {{1}} of it without exposed communication."
    return paragraph(
        [
            discussion.say(lead, wall, own),
            _largest_beside_computation(discussion, rank),
            _symptom_of(discussion, rank),
            longer_in(discussion, rank),
            causes_on(discussion, rank),
        ]
    )


def _largest_beside_computation(discussion: Discussion, rank: int) -> str:
    """What the rank spends most time in apart from computing."""
    facts = {part: discussion.measure("part_ms", part=part, rank=rank) for part in PARTS if part != "compute"}
    part = max(facts, key=lambda name: facts[name].value)
    return discussion.say(f"Beside computation its largest part is {PART_TITLES[part]}: {{0}} per step.", facts[part])


def _symptom_of(discussion: Discussion, rank: int) -> str:
    """Which cause on another rank this rank's waiting comes from."""
    others = [each for each in discussion.diagnosis.causes if each.symptoms and rank not in each.ranks]
    return paragraph(
        f"Its waiting is a symptom of {cause_title(each.cause, each.mechanism)} on {rank_list(each.ranks)}. "
        + " ".join(each.symptoms)
        for each in others
    )


def longer_in(discussion: Discussion, rank: int) -> str:
    """In words: the part of the step in which the rank exceeds the others most; waiting in collectives is not its own doing."""
    parts = [part for part in PARTS if part != "exposed_communication"]
    excess = {part: discussion.measure("part_excess_ms", part=part, rank=rank) for part in parts}
    part = max(parts, key=lambda name: excess[name].value)
    if excess[part].value <= 0:
        return "In no part of the step does it take longer than the median of the others."
    text = f"What it does longest beyond the median of the others is {PART_TITLES[part]}: {{0}} more per step."
    return discussion.say(text, excess[part])


def causes_on(discussion: Discussion, rank: int) -> str:
    """The causes that were found on this rank and not on all."""
    own = [
        cause
        for cause in discussion.diagnosis.causes
        if rank in cause.ranks and set(cause.ranks) != set(discussion.diagnosis.run.ranks)
    ]
    if not own:
        return "No cause was found on it alone."
    return paragraph(f"Found on it: {cause_title(each.cause, each.mechanism)}. {each.claim}" for each in own)

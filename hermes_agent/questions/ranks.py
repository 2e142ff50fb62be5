"""Ranks: which is slow, which the others wait for, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import PART_TITLES, cause_title, rank_list
from hermes_agent.questions.device import none_recorded
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, capital, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.recording import no_such_rank
from tools.views.arrivals import arrivals, blame
from tools.views.coarse import own_ms
from tools.views.parts import PARTS
from tools.views.profile import Profile


def top_cause_rank(discussion: Discussion) -> CauseRecord | None:
    """The first cause where it is on some ranks and not on all that were looked at; None where it singles out none."""
    causes, run = discussion.diagnosis.causes, discussion.diagnosis.run
    known = run.ranks or (run.recorded.ranks if run.recorded else [])
    if not causes or set(causes[0].ranks) == set(known):
        return None
    return causes[0]


def which_is_on(discussion: Discussion, cause: CauseRecord) -> str:
    """Which cause that is and where, without a claim."""
    return f"{_called(discussion, cause)}, is on {rank_list(cause.ranks)}"


def first_blamed(discussion: Discussion, cause: CauseRecord) -> str:
    """The ranks to look at, and why: the claim of the cause and what it makes other ranks do."""
    lead = f"By the diagnosis it is {rank_list(cause.ranks)}: {_called(discussion, cause)}, was found there."
    return paragraph([lead, cause.claim, *cause.symptoms])


def _called(discussion: Discussion, cause: CauseRecord) -> str:
    which = "first" if discussion.diagnosis.verdict == "problem" else "likeliest"
    return f"its {which} cause, {cause_title(cause.cause, cause.mechanism)}"


def blamed_elsewhere(discussion: Discussion, rank: int) -> str:
    """That the first cause is on other ranks than this one; empty where it is on it, on all or not there."""
    cause = top_cause_rank(discussion)
    if cause is None or rank in cause.ranks:
        return ""
    return f"That is of the traced steps; the diagnosis looks elsewhere: {which_is_on(discussion, cause)}."


WHOLE_RUN = "all ranks"


@dataclass(frozen=True)
class GroupSlowest:
    """The rank of a group that takes longest itself, mean per step without exposed communication."""

    group: str
    ranks: tuple[int, ...]  # those of the group that were recorded
    slowest: int
    own_ms: float
    fastest_ms: float


def slowest_per_group(profile: Profile) -> tuple[GroupSlowest, ...]:
    """One entry per group with two or more recorded ranks; groups with the same ranks are one.

    Without any known group the run itself is the group. Empty for a run with one rank.
    """
    recorded = profile.run.rank_numbers
    members = {WHOLE_RUN: recorded}
    for group in profile.run.layout.groups:
        present = tuple(rank for rank in sorted(group.ranks) if rank in recorded)
        if len(present) > 1 and present not in members.values():
            members[group.description or group.name] = present
    return tuple(_of_group(profile, name, ranks) for name, ranks in members.items() if len(ranks) > 1)


def _of_group(profile: Profile, name: str, ranks: tuple[int, ...]) -> GroupSlowest:
    own = own_ms(profile).loc[list(ranks)].to_numpy()
    return GroupSlowest(name, ranks, ranks[int(own.argmax())], float(own.max()), float(own.min()))


EVEN_PCT = 3.0  # ranks whose own time lies closer together than this are called equally fast
GROUPS_TOLD = 4
OF_RECORDS = ("step_time.slowest_rank", "communication.slowest_rank")
MOST_PCT = 50.0  # of the waiting in collectives; a rank with less is not the one that the others wait for
LATE = re.compile(r"\b(stragglers?|late|lag\w*|waited)\b")
YES_OR_NO = re.compile(
    r"^(is|are|was|were|does|do|could|can)\b.*\b(stragglers?|slow\w*|late|lag\w*|outliers?|behind|waited)\b"
)


def which_rank(discussion: Discussion, question: Question) -> str:
    """The rank of the first cause, the slowest rank of the run and of each group, or how the named one compares."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    numbers = discussion.diagnosis.run.ranks
    cause = top_cause_rank(discussion)
    lead = "" if cause is None else first_blamed(discussion, cause)
    if not numbers:
        return blocks([lead, _by_records(discussion)])
    if len(numbers) == 1:
        alone = (
            f"Only {rank_list(numbers)} was traced, so ranks cannot be compared. "
            "What it needs: the traces of the other ranks for the same steps."
        )
        return paragraph([lead, alone])
    if question.ranks:
        asked = question.words if YES_OR_NO.search(question.words) else ""
        verdicts = {rank: _verdict(discussion, rank, asked) if asked else "" for rank in question.ranks}
        return blocks(paragraph([verdicts[rank], _one_rank(discussion, rank)]) for rank in question.ranks)
    return _slowest(discussion)


def _by_records(discussion: Discussion) -> str:
    """What the coarse checks say of the ranks where there is no trace."""
    recorded, layout = discussion.diagnosis.run.recorded, discussion.diagnosis.run.layout
    if layout.get("world_size") == 1:
        return "The run has one rank only, so there are no others to compare it with."
    if recorded is not None and len(recorded.ranks) == 1:
        return (
            f"Only {rank_list(recorded.ranks)} was recorded, so ranks cannot be compared. "
            "What it needs: the records of the other ranks."
        )
    told = [check for check in discussion.diagnosis.checks if check.analyzer in OF_RECORDS]
    said = [" ".join(check.text) for check in told if check.status != "cannot_answer"]
    open_ones = [
        f"{capital(check.reason.rstrip('.'))}. What it needs: {check.needs}." for check in told if not check.text
    ]
    return blocks(["No trace was read; records of whole steps say this of the ranks.", *(said or open_ones)])


def _slowest(discussion: Discussion) -> str:
    groups = slowest_per_group(discussion.material.profile())
    whole = next(group for group in groups if group.group == WHOLE_RUN)
    spread = discussion.measure("rank_spread_pct", of="own")
    own = discussion.measure("rank_time_ms", of="own", rank=whole.slowest)
    cause, even = top_cause_rank(discussion), spread.value < EVEN_PCT
    if cause is not None and (even or whole.slowest not in cause.ranks):
        return blocks([first_blamed(discussion, cause), _traced_apart(discussion, whole.slowest, even)])
    if even:
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


def _traced_apart(discussion: Discussion, slowest: int, even: bool) -> str:
    """What the traced steps say of the ranks, where the first cause is on another rank than the slowest of those."""
    spread = discussion.measure("rank_spread_pct", of="own")
    if even:
        text = "In the traced steps no rank stands out: without exposed communication they lie {0} apart."
        return discussion.say(text, spread)
    own = discussion.measure("rank_time_ms", of="own", rank=slowest)
    text = (
        f"In the traced steps rank {slowest} is the slowest: without exposed communication it takes {{0}} per step, "
        "and the ranks lie {1} apart."
    )
    return paragraph(
        [discussion.say(text, own, spread), longer_in(discussion, slowest), causes_on(discussion, slowest)]
    )


def _verdict(discussion: Discussion, rank: int, words: str) -> str:
    """Yes or no. Late is whom the others wait for; slow is who takes longer without exposed communication."""
    matched = not arrivals(discussion.material.profile()).empty
    if LATE.search(words) and matched:
        return _late(discussion, rank)
    excess = discussion.measure("rank_excess_pct", rank=rank)
    text = "Without exposed communication it differs from the median of the other ranks by {0}."
    slow, cause = excess.value >= EVEN_PCT, top_cause_rank(discussion)
    if not slow and cause is not None and rank in cause.ranks:
        text = "In the traced steps it differs from the median of the other ranks by {0} without exposed communication."
        return paragraph([f"Yes by the diagnosis: {which_is_on(discussion, cause)}.", discussion.say(text, excess)])
    lead = f"Yes, rank {rank} is slow." if slow else f"No, rank {rank} is no slower than the others."
    return paragraph([lead, discussion.say(text, excess), blamed_elsewhere(discussion, rank)])


def _late(discussion: Discussion, rank: int) -> str:
    """Whether the waiting in collectives is for this rank."""
    shares = blame(discussion.material.profile())["share"]
    last = int(str(shares.idxmax()))
    own = discussion.measure("wait_share_pct", rank=rank)
    named = any(each.cause == "straggler" and rank in each.ranks for each in discussion.diagnosis.causes)
    if named or (rank == last and own.value >= MOST_PCT):
        return discussion.say(f"Yes, rank {rank} is late: {{0}} of the waiting in collectives is for it.", own)
    cause = top_cause_rank(discussion)
    if cause is not None and rank in cause.ranks:
        text = "In the traced steps {0} of the waiting in collectives is for it."
        return paragraph([f"Yes by the diagnosis: {which_is_on(discussion, cause)}.", discussion.say(text, own)])
    text = f"No, rank {rank} is not the one that the others wait for: {{0}} of the waiting in collectives is for it"
    if rank == last:
        return discussion.say(f"{text}, more than for any other but not most of it.", own)
    return discussion.say(f"{text}, {{1}} is for rank {last}.", own, discussion.measure("wait_share_pct", rank=last))


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
    """The part of the step in which the rank exceeds the others most; waiting in collectives is not its own doing."""
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

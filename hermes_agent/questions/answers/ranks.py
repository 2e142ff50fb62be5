"""Answers about ranks: which is slow, which the others wait for, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import PART_TITLES, cause_title, on_ranks, plain, rank_list
from hermes_agent.questions.answers.device import COLLECTIVE_NAMES, no_collectives
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, listed, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.analyzers.communication.arrival import slowest_by_waiting
from tools.analyzers.steps.reported_errors import NOT_ARRIVED
from tools.views.communication.arrivals import arrivals, blame
from tools.views.one_process import of_one_process
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.steps.coarse import own_ms

WHOLE_RUN = "all ranks"
GROUPS_LISTED = 4
# What a job's output and records of collectives report of single ranks.
REPORTED = ("communication.reported_ranks", "communication.timeouts", "communication.hccl_errors")
BY_OUTPUT = ("computation.straggler_report", "communication.rank_timers")
OF_RECORDS = ("step_time.slowest_rank", "communication.slowest_rank")
OF_COLLECTIVES = ("communication.flight_recorder", "communication.ras", "communication.inspector_arrival")
LATE = re.compile(r"\b(stragglers?|late|lag\w*|waited)\b")
YES_OR_NO = re.compile(
    r"^(is|are|was|were|does|do|could|can)\b.*\b(stragglers?|slow\w*|late|lag\w*|outliers?|behind|waited)\b"
)
FASTEST = re.compile(r"\b(fastest|quickest)\b")
_WHO = r"\b(who|(which|what) (ranks?|gpus?|workers?|nodes?|process(es)?))"
WAITS = re.compile(rf"{_WHO}( is| are)? (waits?|waiting)\b|{_WHO} waited\b(?! for)|{_WHO} (spends?|spent|loses?)\b")
LEAST = re.compile(r"\b(least|shortest)\b")
RANKS_LISTED = 8
ALONE = "Only {} was {}, so ranks cannot be compared. What it needs: the {} of the other ranks{}."
UNNAMED = (
    "One trace was read, and it does not state its rank, so ranks cannot be compared. What it needs: the traces of the "
    "other ranks for the same steps."
)
ONE_PROCESS = "Only one process is recorded, so ranks cannot be compared."
EXCESS = "without exposed communication it differs from the median of the other ranks by {0}."


@dataclass(frozen=True)
class GroupSlowest:
    """The rank of a group that takes longest without exposed communication."""

    group: str
    ranks: tuple[int, ...]  # those of the group that were recorded
    slowest: int


def slowest_per_group(profile: Profile) -> tuple[GroupSlowest, ...]:
    """One entry per group with two or more recorded ranks, the whole run first; groups with the same ranks are one."""
    recorded = profile.run.rank_numbers
    members = {WHOLE_RUN: recorded}
    for group in profile.run.layout.groups:
        present = tuple(rank for rank in sorted(group.ranks) if rank in recorded)
        if len(present) > 1 and present not in members.values():
            members[group.description or group.name] = present
    found = []
    for name, ranks in members.items():
        if len(ranks) > 1:
            own = own_ms(profile).loc[list(ranks)]
            found.append(GroupSlowest(name, ranks, int(str(own.idxmax()))))
    return tuple(found)


def which_rank(discussion: Discussion, question: Question) -> str:
    """The rank of the first cause, the slowest rank of the run and of each group, or how the named one compares."""
    traced = discussion.diagnosis.run.ranks
    lead = _top_cause_ranks(discussion)
    if not traced:
        return blocks([lead, _by_records(discussion)])
    if len(traced) == 1 and of_one_process(discussion.profile()):
        return paragraph([lead, ONE_PROCESS])
    if len(traced) == 1 and discussion.profile().ranks[0].rank.rank_origin != "recorded":
        return paragraph([lead, UNNAMED])
    if len(traced) == 1:
        return paragraph([lead, ALONE.format(rank_list(traced), "traced", "traces", " for the same steps")])
    if not question.ranks:
        return _fastest(discussion) if FASTEST.search(question.words) else _slowest(discussion)
    yes_or_no = YES_OR_NO.search(question.words)
    return blocks(
        paragraph([_verdict(discussion, rank, question.words) if yes_or_no else "", _one_rank(discussion, rank)])
        for rank in question.ranks
    )


def why_wait(discussion: Discussion, question: Question) -> str:
    """The time ranks wait in collectives, the rank they wait for, and what it does meanwhile."""
    ranks, profile = discussion.diagnosis.run.ranks, discussion.profile()
    who = WAITS.search(question.words)
    if question.ranks and not who:
        return which_rank(discussion, question)
    if none := no_collectives(discussion):
        return f"{none} So no rank waits for another inside them."
    if len(ranks) == 1:
        return discussion.say(wording("one_rank_waits").format(ranks=rank_list(ranks)))
    if arrivals(profile).empty:
        return discussion.say(wording("unmatched"))
    if who:
        return _who_waits(discussion, question)
    wait = discussion.measure("exposed_wait_ms")
    if wait.value <= 0:
        return discussion.say("Ranks do not wait for each other in the steps that were recorded: {0} per step.", wait)
    last = int(str(blame(profile)["share"].idxmax()))
    share = discussion.measure("wait_share_pct", rank=last)
    lead = wording("waits").format(rank=last)
    doing = [longer_in(discussion, last), _causes_on(discussion, last), _other_cause(discussion, last)]
    uneven = share.value < max(200.0 / len(ranks), discussion.profile().thresholds["most_waiting_pct"])
    several = wording("no_single_rank") if uneven else ""
    return blocks([discussion.say(lead, wait, share), paragraph([f"Rank {last}:", *doing]), several])


def awaited(discussion: Discussion, question: Question) -> str | None:
    """The rank that arrives last, in collectives of the kind that is named or in all; None where none is matched."""
    profile = discussion.profile()
    if not profile.traced or len(profile.ranks) < 2 or (table := arrivals(profile)).empty:
        return None
    kind = next((kind for kind, name in COLLECTIVE_NAMES.items() if re.search(rf"\b{name}s?\b", question.words)), None)
    own = table[(table["kind"] == kind) & (table["caused_ns"] > 0)] if kind is not None else table.iloc[:0]
    whole = why_wait(discussion, replace(question, words=""))
    if own.empty:
        return whole
    caused = own.groupby("last_rank")["caused_ns"].sum()
    last = int(str(caused.idxmax()))
    often = "always" if caused.size == 1 else "not always, but the most waiting is for it"
    return blocks(
        [f"In the {plain(str(kind))}s of the recorded steps the others wait for rank {last} ({often}).", whole]
    )


def _who_waits(discussion: Discussion, question: Question) -> str:
    """What each rank waits in collectives for ranks that arrive later, or for the rank that was named."""
    last = question.ranks[0] if question.ranks else None
    ranks = [rank for rank in discussion.profile().run.rank_numbers if rank != last]
    waits = {rank: discussion.measure("exposed_wait_ms", rank=rank, last_rank=last) for rank in ranks}
    whom = "for a rank that arrives later" if last is None else f"for rank {last}"
    if not any(each.value > 0 for each in waits.values()):
        return f"No rank waits in the collectives of the recorded steps {whom}."
    least = LEAST.search(question.words) is not None
    order = sorted(ranks, key=lambda rank: waits[rank].value, reverse=not least)
    rows = bullets(discussion.say(f"rank {rank}: {{0}} per step", waits[rank]) for rank in order[:RANKS_LISTED])
    most = f"Rank {order[0]} waits {'least' if least else 'most'}" if len(order) > 1 else f"Rank {order[0]} waits"
    more = f"The {RANKS_LISTED} of {len(order)} ranks with {'least' if least else 'most'} waiting." * (
        len(order) > RANKS_LISTED
    )
    lead = discussion.say(f"{most}: {{0}} per step in collectives {whom}.", waits[order[0]])
    return blocks([lead, rows if len(order) > 1 else "", more])


def _fastest(discussion: Discussion) -> str:
    """The rank with the shortest step without exposed communication."""
    rank = int(str(own_ms(discussion.profile()).idxmin()))
    even = discussion.measure("rank_spread_pct", of="own").value < discussion.profile().thresholds["even_ranks_pct"]
    return discussion.say((wording("fastest_even") if even else wording("fastest")).format(rank=rank), rank=rank)


def top_cause_rank(discussion: Discussion) -> CauseRecord | None:
    """The first cause where it is on some ranks and not on all; None where it singles out none."""
    causes = discussion.diagnosis.causes
    return None if not causes or set(causes[0].ranks) == set(discussion.ranks) else causes[0]


def longer_in(discussion: Discussion, rank: int) -> str:
    """The part of the step in which the rank exceeds the others most; waiting in collectives is not its own doing."""
    parts = [part for part in PARTS if part != "exposed_communication"]
    excess = {part: discussion.measure("part_excess_ms", part=part, rank=rank) for part in parts}
    part = max(parts, key=lambda name: excess[name].value)
    if excess[part].value <= 0:
        return "In no part of the step does it take longer than the median of the others."
    text = f"Its largest excess over the median of the others is {PART_TITLES[part]}: {{0}} more per step."
    return discussion.say(text, excess[part])


def _title(discussion: Discussion, cause: CauseRecord) -> str:
    which = "first" if discussion.diagnosis.verdict == "problem" else "most likely"
    return f"its {which} cause, {cause_title(cause.cause, cause.mechanism)},"


def _located(discussion: Discussion, cause: CauseRecord) -> str:
    return f"{_title(discussion, cause)} is{on_ranks(cause.ranks, (), cause.stands_for)}"


def _top_cause_ranks(discussion: Discussion) -> str:
    """The ranks to look at, and why: the claim of the cause and what it makes other ranks do."""
    cause = top_cause_rank(discussion)
    if cause is None:
        return ""
    where = on_ranks(cause.ranks, (), cause.stands_for).removeprefix(" on ")
    lead = f"By the diagnosis it is {where}: {_title(discussion, cause)} was found there."
    return paragraph([lead, cause.claim, *cause.symptoms])


def _other_cause(discussion: Discussion, rank: int) -> str:
    """A sentence where the first cause is on other ranks than this one."""
    cause = top_cause_rank(discussion)
    if cause is None or rank in cause.ranks:
        return ""
    return f"That is of the traced steps; the diagnosis looks elsewhere: {_located(discussion, cause)}."


def _causes_on(discussion: Discussion, rank: int) -> str:
    """The causes that were found on this rank and not on all, and those on all of which its figures are stated."""
    everywhere = set(discussion.diagnosis.run.ranks)
    own = [each for each in discussion.diagnosis.causes if rank in each.ranks and set(each.ranks) != everywhere]
    common = [each for each in discussion.diagnosis.causes if set(each.ranks) == everywhere]
    stated = [
        f"Found on all ranks, its figures are of this one: {cause_title(each.cause, each.mechanism)}. {each.claim}"
        for each in common
        if _of_one_rank(discussion, each) == rank
    ]
    alone = [f"Found on it: {cause_title(each.cause, each.mechanism)}. {each.claim}" for each in own
             if tuple(each.ranks) == (rank,)]  # fmt: skip
    shared = (
        f"Found on it as on {rank_list([other for other in each.ranks if other != rank])}: "
        f"{cause_title(each.cause, each.mechanism)}."
        for each in own
        if tuple(each.ranks) != (rank,)
    )
    if own or stated:
        return paragraph([*alone, *shared, *stated])
    elsewhere = [
        f"{cause_title(each.cause, each.mechanism)} (with the figures of rank {other})"
        for each in common
        if (other := _of_one_rank(discussion, each)) is not None
    ]
    return paragraph(
        ["No cause was found on it alone.", f"Found on all ranks: {listed(elsewhere)}." if elsewhere else ""]
    )


def _of_one_rank(discussion: Discussion, cause: CauseRecord) -> int | None:
    """The one rank that all figures of the cause's claim are of; None where they are of several or of all."""
    known = discussion.evidence
    measured = {tuple(known[name].ranks) for name in cited_ids(cause.claim) if name in known}
    (only,) = measured if len(measured) == 1 else ((),)
    return only[0] if len(only) == 1 and len(discussion.ranks) > 1 else None


def _by_records(discussion: Discussion) -> str:
    """The coarse checks on ranks where there is no trace."""
    run = discussion.diagnosis.run
    if run.layout.get("world_size") == 1:
        return "The run has one rank only, so there are no others to compare it with."
    known = discussion.diagnosis.checks
    of_collectives = [
        each for each in known if each.analyzer in (*REPORTED, *OF_COLLECTIVES) and each.status == "found"
    ]
    if of_collectives:
        order = (*REPORTED, *OF_COLLECTIVES)
        who_waited = all(each.analyzer in REPORTED[1:] for each in of_collectives)
        who_waited &= not any(NOT_ARRIVED in text for each in of_collectives for text in each.text)
        said = (paragraph(each.text) for each in sorted(of_collectives, key=lambda each: order.index(each.analyzer)))
        return blocks([*said, wording("hang_next") if who_waited else ""])
    of_output = [text for name in BY_OUTPUT for each in known if each.analyzer == name for text in each.text]
    if of_output:
        first = top_cause_rank(discussion)  # whose claim the answer begins with
        return paragraph(text for text in of_output if first is None or text != first.claim)
    log = discussion.profile().run.job_log
    if log is not None and not (log.ranks and log.ranks_stated) and discussion.profile().run.records is None:
        return wording("ranks_of_output")
    if run.recorded is not None and len(run.recorded.ranks) == 1:
        return ALONE.format(rank_list(run.recorded.ranks), "recorded", "records", "")
    checks = [check for check in known if check.analyzer in OF_RECORDS]
    answered = [" ".join(check.text) for check in checks if check.status != "cannot_answer"]
    reasons = [f"{capital(each.reason.rstrip('.'))}. What it needs: {each.needs}." for each in checks if not each.text]
    if not discussion.profile().measured:
        return wording("no_ranks_read")
    lead = "No trace was read; records of whole steps show this of the ranks."
    return blocks([lead, *dict.fromkeys(answered or reasons)])


def _slowest(discussion: Discussion) -> str:
    whole, *groups = slowest_per_group(discussion.profile())
    cause, late = top_cause_rank(discussion), slowest_by_waiting(discussion.material.profile())
    if late is not None and late != whole.slowest:
        return blocks([_top_cause_ranks(discussion), _late_and_slowest(discussion, late, whole.slowest)])
    rank = whole.slowest
    even = (
        late is None
        and discussion.measure("rank_spread_pct", of="own").value < discussion.profile().thresholds["even_ranks_pct"]
    )
    elsewhere = cause is not None and (even or rank not in cause.ranks)
    text = wording("none_stands_out") if even else f"rank {rank} is the slowest: {wording('own_time')}"
    lead = discussion.say(f"In the traced steps {text}" if elsewhere else text, rank=rank)
    waited = None if late is None else discussion.measure("exposed_wait_ms", last_rank=late)
    others = "The others" if discussion.profile().run.screening is None else "The ranks read in full"
    detail = [
        "" if waited is None else discussion.say(f"{others} wait {{0}} per step for it.", waited),
        "" if even else longer_in(discussion, rank),
        _first_of_all(discussion) if even and cause is None else "",
        "" if even and elsewhere else _causes_on(discussion, rank),
    ]
    parts = [_top_cause_ranks(discussion) if elsewhere else "", paragraph([lead, *detail])]
    for group in () if even or elsewhere else groups[:GROUPS_LISTED]:
        where = f"In the group {{n0}} ({rank_list(group.ranks)}) the slowest is rank {group.slowest}"
        text = f"{where} with {{rank_time_ms:of=own}} per step."
        parts.append(discussion.say(text, names=(group.group,), rank=group.slowest))
    return blocks(parts)


def _first_of_all(discussion: Discussion) -> str:
    """The cause ranked first where it is of all ranks and no figure of a single one: it holds up all of them."""
    first = next(iter(discussion.diagnosis.causes), None)
    if first is None or set(first.ranks) < set(discussion.diagnosis.run.ranks):
        return ""
    if _of_one_rank(discussion, first) is not None:
        return ""
    return f"What costs most holds up all ranks: {cause_title(first.cause, first.mechanism)}. {first.claim}"


def _late_and_slowest(discussion: Discussion, late: int, slowest: int) -> str:
    """The rank that arrives last at the collectives, and another one that takes longest by itself."""
    own = f"{{rank_time_ms:of=own,rank={slowest}}} per step, rank {late} {{rank_time_ms:of=own,rank={late}}}"
    others = "the others" if discussion.profile().run.screening is None else "the ranks read in full"
    return blocks(
        [
            discussion.say(
                f"In the traced steps rank {slowest} is the slowest: without exposed communication it takes {own}."
            ),
            paragraph(
                [
                    discussion.say(
                        f"Rank {late} arrives last at the collectives: {others} wait {{0}} per step for it.",
                        discussion.measure("exposed_wait_ms", last_rank=late),
                    ),
                    longer_in(discussion, late),
                    _causes_on(discussion, late),
                ]
            ),
        ]
    )


def _verdict(discussion: Discussion, rank: int, words: str) -> str:
    """Yes or no. Late is whom the others wait for; slow is who takes longer without exposed communication."""
    profile, cause = discussion.profile(), top_cause_rank(discussion)
    blamed = cause is not None and rank in cause.ranks
    by_diagnosis = f"Yes by the diagnosis: {_located(discussion, cause)}." if cause is not None and blamed else ""
    if LATE.search(words) and not arrivals(profile).empty:
        return _late(discussion, rank, by_diagnosis)
    excess = discussion.measure("rank_excess_pct", rank=rank)
    slow = excess.value >= discussion.profile().thresholds["even_ranks_pct"]
    if by_diagnosis and not slow:
        return paragraph([by_diagnosis, discussion.say(f"In the traced steps {EXCESS}", excess)])
    lead = f"Yes, rank {rank} is slow." if slow else f"No, rank {rank} is no slower than the others."
    return paragraph([lead, discussion.say(EXCESS, excess), _other_cause(discussion, rank)])


def _late(discussion: Discussion, rank: int, by_diagnosis: str) -> str:
    """Yes or no, by the share of the waiting in collectives that is for this rank."""
    last = int(str(blame(discussion.profile())["share"].idxmax()))
    own = discussion.measure("wait_share_pct", rank=rank)
    named = any(each.cause == "straggler" and rank in each.ranks for each in discussion.diagnosis.causes)
    share = "{0} of the waiting in collectives is for it"
    if named or (rank == last and own.value >= discussion.profile().thresholds["most_waiting_pct"]):
        return discussion.say(f"Yes, rank {rank} is late: {share}.", own)
    if by_diagnosis:
        return paragraph([by_diagnosis, discussion.say(f"In the traced steps {share}.", own)])
    text = f"No, rank {rank} is not the one that the others wait for: {share}"
    if rank == last:
        return discussion.say(f"{text}, more than for any other but not most of it.", own)
    return discussion.say(f"{text}, {{wait_share_pct:rank={last}}} is for rank {last}.", own)


def _one_rank(discussion: Discussion, rank: int) -> str:
    times = "{rank_time_ms:of=wall} per step, {rank_time_ms:of=own} of it without exposed communication"
    facts = {part: discussion.measure("part_ms", part=part, rank=rank) for part in PARTS if part != "compute"}
    part, largest = max(facts.items(), key=lambda item: item[1].value)
    others = [each for each in discussion.diagnosis.causes if each.symptoms and rank not in each.ranks]
    return paragraph(
        [
            discussion.say(f"Rank {rank} takes {times}.", rank=rank),
            discussion.say(f"Apart from computation its largest part is {PART_TITLES[part]}: {{0}} per step.", largest),
            *(
                f"Its waiting is a symptom of {cause_title(each.cause, each.mechanism)} on {rank_list(each.ranks)}. "
                + " ".join(each.symptoms)
                for each in others
            ),
            longer_in(discussion, rank),
            _causes_on(discussion, rank),
        ]
    )

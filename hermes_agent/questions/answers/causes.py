"""Answers about causes: could it be one, and what is it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import FAMILY_TITLES, cause_heading, cause_title
from hermes_agent.questions.answers.cause_records import (
    OF_LOADER,
    TimersSay,
    by_profiler,
    by_stacks,
    by_timers,
    reported_ranks,
    seen_of_loader,
    stated_compilations,
    workers_of,
)
from hermes_agent.questions.answers.cause_status import CauseStatus, cause_status
from hermes_agent.questions.answers.causes_not_found import about_not_found, signs_of, unwatched
from hermes_agent.questions.answers.certainty import WELL_SUPPORTED, where
from hermes_agent.questions.answers.device import no_collectives
from hermes_agent.questions.answers.periods import supposed_period
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, ordinal, paragraph
from hermes_agent.questions.reading.question import Question, Subject, lexicon, wording
from tools.analyzers.steps.lines_apart import lines_apart, waits_elsewhere
from tools.analyzers.steps.output_warnings import few_waits, single_line
from tools.findings import on_its_rank
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.savings import cause_key
from tools.knowledge.taxonomy import causes, family_of, known_mechanism
from tools.views.communication.arrivals import arrivals, blame

NOT_SO_FAR_APART = "Not at that distance: "
DEFINED = 3  # causes of one subject that are defined in full
WHY_NOT = re.compile(r"\bwhy (is |are |was )?(it |this |that )?(not|isnt|wasnt|arent|dont|didnt)\b|\bwhynot\b")
# "Does it use tensor cores?" asks for the thing, "is it unused tensor cores?" for the lack of it.
IN_USE = re.compile(r"^(is|are|do|does|did|has|have)\b.*\b(uses?|used|using|have|has|enabled?|on|overlap\w*|pinned)\b")
NO_SYNC = re.compile(r"\b(ddp )?no sync\b")  # what all-reduces in every micro-batch are the lack of
YES_OR_NO = re.compile(r"^(is|isnt|are|arent|was|were|could|can|may|maybe|might|does|do|did|has|have|should|would)\b")
NOUN = re.compile(r"^(?!(how|what|which|who|when|where)\b)(the |a |an )?\w+( \w+)?$")
LACK = re.compile(r"\b(not?|un\w+|poor|bad|missing|lack\w*|without|too (few|little)|slow\w*|isnt|arent|doesnt|dont)\b")
LACKING = {"no_tensor_core", "poor_overlap", "no_prefetch", "pageable_copy"}  # causes that are the lack of their words
CURES = re.compile(r"\b(cuda graphs?|num workers|fusion|dynamo|torch compile)\b")  # a fix, not a sign of the cause
# A question that suspects something, or nothing but the word for it.
SUSPECTED = re.compile(
    r"\b(is|isnt|are|arent|was|be|been|could|can|may|maybe|might|does|do|did|why|slow\w*|bottlenecks?|problems?|issues?|bound"
    r"|causes?|blame|reasons?|limit\w*|bad|poor|low|high|heavy|too|hurts?)\b|^\w+( \w+)?$"
)
LIBRARY = re.compile(r"\b(nccl|hccl|gloo|rccl)\b")
OF_RANKS = {"straggler", "data_skew"}  # causes of communication that lie with a rank, not with a transfer
ALTERNATIVES = re.compile(r"\bor\b")


def suspect(discussion: Discussion, question: Question) -> str | None:
    """The evidence for and against the cause, mechanism or family that the question names; None where it names none.

    A broad word such as kernel is meant as a cause only where the question suspects something.
    """
    subject = question.subject
    if subject is None or (subject.broad and not SUSPECTED.search(question.words)):
        return None
    return about(discussion, subject, question.words)


def about(discussion: Discussion, subject: Subject, words: str = "") -> str:
    """The outcome of all checks for a subject, the causes that were found first; ``words`` are the question's."""
    found = [cause_status(discussion, cause, subject.mechanism) for cause in subject.causes]
    if (timed := _by_own_timer(discussion, subject, found, words)) is not None:
        return timed
    stated = subject.causes == ("operator_compilation",) and not any(each.listed for each in found)
    if stated and (compiled := stated_compilations(discussion, words)):
        return compiled
    if not any(each.listed for each in found) and (tabled := by_profiler(discussion, subject)):
        return tabled
    if not any(each.listed for each in found) and (reported := reported_ranks(discussion, subject)):
        return reported
    waits = _waiting(discussion, subject) if not any(each.listed for each in found) else ""
    timers = by_timers(discussion, subject) if len(found) > 1 else TimersSay()
    if timers.settles:
        return timers.text
    seen = seen_of_loader(discussion, subject) if not any(each.listed or each.minor for each in found) else ""
    lead = _lead(subject, found, not discussion.profile().measured, bool(timers.text), seen) if len(found) > 1 else ""
    if not any(each.listed or each.minor for each in found) and (none := _no_communication(discussion, subject)):
        return none
    if LIBRARY.search(words) and YES_OR_NO.search(words) and (waited := _not_the_library(discussion, subject, found)):
        return waited
    return blocks(
        [
            by_stacks(discussion, subject),
            timers.text,
            paragraph([waits, lead]),
            *(_found(discussion, each, place, record, words) for each in found for place, record in each.listed),
            *(_small(discussion, ranked) for each in found for ranked in each.minor),
            *about_not_found(discussion, subject, found),
            unwatched(subject, found),
            workers_of(discussion, subject) if not any(each.listed for each in found) else "",
        ]
    )


def _by_own_timer(discussion: Discussion, subject: Subject, found: Sequence[CauseStatus], words: str) -> str | None:
    """The wait for data as the job's own step lines state it, to a question about data input; else None."""
    profile = discussion.profile()
    if profile.traced or not set(subject.causes) >= OF_LOADER:
        return None
    if profile.series is None:
        log = profile.run.job_log
        few = [] if log is None or log.steps.empty or not few_waits(profile, log) else single_line(profile, log)
        return paragraph(discussion.say(each.template, *each.facts) for each in few) or None
    check = next((each for each in discussion.diagnosis.checks if each.analyzer == "io.data_loader"), None)
    if check is None or discussion.measured("logged_data_wait_pct", rank=profile.series.slowest_rank) is None:
        return None
    if check.status == "clean":
        others = [discussion.say(each.template, *each.facts, names=each.names) for each in lines_apart(profile)]
        return paragraph(["For the lines that are used:" if waits_elsewhere(profile) else "No:", *check.text, *others])
    listed = [_found(discussion, each, place, record, words) for each in found for place, record in each.listed]
    return blocks(listed) if listed else None


def _not_the_library(discussion: Discussion, subject: Subject, found: Sequence[CauseStatus]) -> str:
    """No to a library of collectives in which ranks mostly wait for another, where no cause of transfer was found."""
    of_transfer = [each for each in found if each.listed and each.cause not in OF_RANKS]
    waits = "" if of_transfer else _waiting(discussion, subject)
    first = next(iter(discussion.diagnosis.causes), None)
    if not waits:
        return ""
    why = (
        f"The first cause found is {cause_title(first.cause, first.mechanism)}{where(discussion, first)}."
        if first
        else ""
    )
    return paragraph([f"No. {waits}", why])


def _waiting(discussion: Discussion, subject: Subject) -> str:
    """That exposed communication is mostly waiting for a rank, where it is: the transfer itself is short then."""
    profile = discussion.profile()
    transfer = {"network_configuration", "slow_link", "bandwidth_contention"} & set(subject.causes)
    if not transfer or not profile.traced or len(profile.ranks) < 2 or arrivals(profile).empty:
        return ""
    waited = discussion.measure("exposed_wait_ms")
    exposed = discussion.measure("part_ms", part="exposed_communication")
    if waited.value < profile.thresholds["mostly_waiting_share"] * exposed.value or waited.value <= 0:
        return ""
    last = int(str(blame(profile)["share"].idxmax()))
    share = discussion.measure("wait_share_pct", rank=last)
    return discussion.say(wording("mostly_waiting").format(title=subject.title, rank=last), exposed, waited, share)


def define(discussion: Discussion, question: Question) -> str | None:
    """Signs and remedies of the cause that the question names, then its status in this run."""
    known = lexicon().terms
    if term := next(
        (
            each
            for each in known
            if re.search(rf"\b(?:a |an |the )?(?:{each.words})( mean| stand for)?$", question.words)
        ),
        None,
    ):
        return term.text
    subject = question.subject
    if subject is None or subject.broad:
        return None
    more = ", ".join(cause_title(cause, None) for cause in subject.causes[DEFINED:])
    return blocks(
        [
            *(_definition(cause) for cause in subject.causes[:DEFINED]),
            f"Related: {more}." if more else "",
            f"In this run: {about(discussion, subject)}",
        ]
    )


def _no_communication(discussion: Discussion, subject: Subject) -> str:
    """The answer on communication where the traced steps hold none; empty for other subjects and other runs."""
    families = {family_of(cause) for cause in subject.causes}
    communicates = families <= {"communication", "parallel"} and "communication" in families
    none = no_collectives(discussion) if communicates and discussion.profile().traced else ""
    return none and wording("no_communication").format(title=subject.title, none=none)


def _lead(subject: Subject, found: Sequence[CauseStatus], alone: bool, timed: bool, seen: str) -> str:
    """What the checks for a subject say of it; ``alone``: no steps are known, only what samples or the output show.

    ``timed``: the job's own timers, which are stated before, give it a share of the step; ``seen``: what was read
    points to it and shows no share.
    """
    title, kinds = capital(subject.title), {each.kind for each in found}
    if "listed" in kinds:
        return f"{title} has a part in it."
    if any(ranked.finding.unpriced for each in found for ranked in each.minor):
        return f"{title} may have a part in it; what it costs a step is not known."
    if "minor" in kinds:
        return f"{title} has a part in it, but a small one."
    if "unpriced" in kinds:
        return f"{title} may have a part in it; what it costs a step is not known without step times."
    if kinds == {"unwatched"}:
        return f"Nothing can be said about {subject.title}: Hermes has no analyzer for it yet."
    if kinds & {"open", "absent", "unwatched"}:
        return paragraph([seen, _open_lead(found, alone, timed, bool(seen)).format(subject.title)])
    return f"Nothing points to {subject.title}: all checks for it are clean."


def _open_lead(found: Sequence[CauseStatus], alone: bool, timed: bool, seen: bool) -> str:
    """Which wording leads where a check could not answer: that nothing points to a subject is said only of steps, and
    where something was read that could."""
    answered = any(check.status != "cannot_answer" for each in found if each.kind != "absent" for check in each.checks)
    if seen or (alone and answered):
        return wording("seen_of")
    if timed:
        return wording("timed_open")
    return wording("nothing_points") if answered else wording("not_recorded")


def _found(discussion: Discussion, status: CauseStatus, place: int, record: CauseRecord, words: str) -> str:
    title = f"{cause_title(record.cause, record.mechanism)}{where(discussion, record)}"
    period = supposed_period(record, words)
    agrees = _verdict(status, record, words) if period is None or period.holds is not False else NOT_SO_FAR_APART
    parts = [f"{agrees}the {ordinal(place)} of the causes found is {title}."]
    if status.mechanism is not None and status.mechanism != record.mechanism:
        parts.append(f"That it happens by {cause_title(status.cause, status.mechanism)} does not show in the sources.")
    parts += [record.claim, "" if period is None else period.text]
    if record.confidence < WELL_SUPPORTED:
        parts.append("The confidence is low, so take it as a hypothesis.")
    if place and WHY_NOT.search(words):
        parts.append(_why_not_first(discussion, record))
    return paragraph([*parts, *(_contrary(each) for each in record.against)])


def _contrary(text: str) -> str:
    """What speaks against a cause; what is only open says so by itself."""
    return text if text.startswith("Whether ") else f"Against it: {text}"


def _verdict(status: CauseStatus, record: CauseRecord, words: str) -> str:
    """``Yes`` where the question is for the cause found, ``No`` where it is for what the cause is a lack of."""
    if status.mechanism is not None and status.mechanism != record.mechanism:
        return (
            f"Not found: {cause_title(status.cause, status.mechanism)}; "
            if known_mechanism(record.mechanism)
            else "Possibly: "
        )
    lacks = bool(LACKING & {record.cause, record.mechanism}) or status.mechanism == "too_few_workers"
    lacking = lacks and not LACK.search(words)
    if lacking or (record.cause == "redundant_synchronization" and NO_SYNC.search(words)):
        return "No: " if IN_USE.search(words) else "Found: "
    agrees = (YES_OR_NO.search(words) or NOUN.search(words)) and not CURES.search(words)
    return "Yes: " if agrees else "Found: "


def _why_not_first(discussion: Discussion, record: CauseRecord) -> str:
    """The reason why a cause is not the first: lower confidence ranks behind, then what costs less."""
    first = discussion.diagnosis.causes[0]
    own, top = discussion.impact(record), discussion.impact(first)
    if own is None or top is None:
        return ""
    name = cause_title(first.cause, first.mechanism)
    if record.confidence < WELL_SUPPORTED <= first.confidence:
        lead = "It is not the first because its confidence is lower"
        return f"{lead}: it costs {cited(own)} per step, {name} {cited(top)}."
    if own.value <= top.value:
        return f"It is not the first because it costs {cited(own)} per step, less than the {cited(top)} of {name}."
    return f"It costs {cited(own)} per step, {name}, which is ranked first, {cited(top)}."


def _small(discussion: Discussion, ranked: RankedCause) -> str:
    """Found but not listed: a symptom of a cause that is, or worth too little by itself."""
    cause, mechanism, ranks = cause_key(ranked)
    above = [each for each in discussion.diagnosis.causes if each.cause in ranked.finding.symptom_of]
    said, _ = on_its_rank(ranked.finding.claim, ranked.finding.ranks or discussion.ranks)
    claim = discussion.say(said.template, *said.facts, names=said.names)
    if above:
        titles = listed([cause_title(each.cause, each.mechanism) for each in above])
        return paragraph([f"Found as a symptom of {titles}: {cause_title(cause, None)}.", claim])
    name = cause_title(cause, mechanism or None)
    if ranked.finding.unpriced:
        return paragraph([f"Found, at a cost that is not known: {name}.", claim, f"{capital(ranked.method)}."])
    impact = discussion.measure("cause_impact_ms", cause=cause, mechanism=mechanism, ranks=ranks)
    lead = f"Found but small: {name}; fixing it saves nothing measurable."
    if float(written(impact.value, impact.unit).split()[0]):
        lead = discussion.say(f"Found but small: {name}; fixing it would save only {{0}} per step.", impact)
    return paragraph([lead, claim])


def _definition(name: str) -> str:
    cause = causes()[name]
    rows = [
        f"Signs: {signs_of(name)}.",
        f"What helps: {'; '.join(general(each) for each in cause.optimizations)}.",
        f"Mechanisms: {', '.join(cause_title(name, each) for each in cause.mechanisms)}." if cause.mechanisms else "",
    ]
    lead = f"{cause_heading(name, None)} (family: {FAMILY_TITLES.get(cause.family, cause.family)})."
    return blocks([lead, bullets(rows)])

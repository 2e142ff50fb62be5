"""Answers about causes: could it be one, what is it, how sure is the diagnosis, and what could not be checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from hermes_agent.model.display import FAMILY_TITLES, cause_heading, cause_title
from hermes_agent.questions.answers.cause_records import (
    OF_LOADER,
    TimersSay,
    by_profiler,
    by_stacks,
    by_timers,
    reported_ranks,
    stated_compilations,
    workers_of,
)
from hermes_agent.questions.answers.certainty import WELL_SUPPORTED, check_text, where
from hermes_agent.questions.answers.device import no_collectives
from hermes_agent.questions.answers.periods import supposed_period
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, ordinal, paragraph
from hermes_agent.questions.reading.question import Question, Subject, lexicon, wording
from tools.analyzers.registry import check_of, checks_for, has_own_check
from tools.analyzers.steps.lines_apart import lines_apart, waits_elsewhere
from tools.analyzers.steps.output_warnings import few_waits, single_line
from tools.findings import on_its_rank
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking
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

Kind = Literal[
    "listed",  # among the ranked causes
    "minor",  # found, but saves too little to be ranked
    "unpriced",  # found on a run without steps, of which it would cost a part
    "other",  # the checks that look for it found something else instead
    "clean",  # all its checks looked, and it is not there
    "open",  # at least one of its checks could not answer
    "absent",  # it has checks, but none of them was made on this run
    "unwatched",  # no check looks for it
]
NOT_FOUND: tuple[Kind, ...] = ("unpriced", "open", "other", "absent", "clean")


@dataclass(frozen=True, eq=False)
class CauseStatus:
    """The outcome of the checks for a cause; ``listed`` holds places from 0, ``checks`` the nearest where absent."""

    cause: str
    mechanism: str | None
    kind: Kind
    checks: tuple[CheckRecord, ...] = ()
    listed: tuple[tuple[int, CauseRecord], ...] = ()
    minor: tuple[RankedCause, ...] = ()


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
    found = [_status(discussion, cause, subject.mechanism) for cause in subject.causes]
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
    lead = _lead(subject, found, not discussion.profile().measured, bool(timers.text)) if len(found) > 1 else ""
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
            *_not_found(discussion, subject, found),
            _unwatched(subject, found),
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


def _lead(subject: Subject, found: Sequence[CauseStatus], alone: bool, timed: bool) -> str:
    """What the checks for a subject say of it; ``alone``: no steps are known, only what samples or the output show.

    ``timed``: the job's own timers, which are stated before, give it a share of the step.
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
        if alone and any(check.status == "found" for each in found for check in each.checks):
            return wording("seen_of").format(subject.title)
        if timed:
            return wording("timed_open").format(subject.title)
        return f"Nothing found points to {subject.title}, but not every question about it could be answered."
    return f"Nothing points to {subject.title}: all checks for it are clean."


def _found(discussion: Discussion, status: CauseStatus, place: int, record: CauseRecord, words: str) -> str:
    title = f"{cause_title(record.cause, record.mechanism)}{where(discussion, record)}"
    period = supposed_period(record, words)
    agrees = (
        _verdict(status, record, words) if period is None or period.holds is not False else "Not at that distance: "
    )
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


def _name(subject: Subject, status: CauseStatus) -> str:
    return subject.title if subject.mechanism else cause_title(status.cause, None)


def _unwatched(subject: Subject, found: Sequence[CauseStatus]) -> str:
    names = [_name(subject, each) for each in found if each.kind == "unwatched"]
    if not names:
        return ""
    signs = f"Signs to look for: {_signs(found[0].cause)}." if len(found) == 1 else ""
    return paragraph([f"There is no analyzer for {listed(names)} yet, so this is open, not ruled out.", signs])


def _not_found(discussion: Discussion, subject: Subject, found: Sequence[CauseStatus]) -> list[str]:
    """The evidence against the causes that were not found; causes with the same answer share one paragraph.

    A reason, or what is needed, that several of them have in common is said once.
    """
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in NOT_FOUND:
        for each in found:
            if each.kind == kind:
                key = wording(f"not_found_{kind}"), tuple(dict.fromkeys(_checked(discussion, each)))
                names.setdefault(key, []).append(_name(subject, each))
    said: set[str] = set()
    paragraphs = []
    for (lead, sentences), group in names.items():
        fresh = [each for each in sentences if each not in said]
        nearest = wording("nearest_checks") if fresh and lead == wording("not_found_absent") else ""
        paragraphs.append(paragraph([lead.format(listed(group, "or")), nearest, *fresh]))
        said.update(sentences)
    return paragraphs


def _checked(discussion: Discussion, status: CauseStatus) -> list[str]:
    """What the checks of a cause that was not found say, those that answered first, and what counts against others."""
    answered = [check_text(check) for check in status.checks if check.status != "cannot_answer"]
    unanswered = [check for check in status.checks if check.status == "cannot_answer"]
    reasons = [f"{capital(general(check.reason))}." for check in unanswered]
    needs = [f"What it needs: {general(check.needs)}." for check in unanswered]
    texts = [*answered, *reasons, *needs]
    if status.kind == "other":
        names = {check.analyzer for check in status.checks}
        instead = [record for record in discussion.diagnosis.causes if record.check in names]
        texts += [f"Against it: {text}" for record in instead for text in record.against]
    return texts


def _signs(cause: str) -> str:
    return "; ".join(general(sign) for sign in causes()[cause].signals)


def _definition(name: str) -> str:
    cause = causes()[name]
    rows = [
        f"Signs: {_signs(name)}.",
        f"What helps: {'; '.join(general(each) for each in cause.optimizations)}.",
        f"Mechanisms: {', '.join(cause_title(name, each) for each in cause.mechanisms)}." if cause.mechanisms else "",
    ]
    lead = f"{cause_heading(name, None)} (family: {FAMILY_TITLES.get(cause.family, cause.family)})."
    return blocks([lead, bullets(rows)])


def _status(discussion: Discussion, cause: str, mechanism: str | None) -> CauseStatus:
    names, records = checks_for(cause, mechanism), discussion.diagnosis.checks
    checks = tuple(check for check in records if check.analyzer in names)
    if listed := _listed(discussion, cause, mechanism):
        return CauseStatus(cause, mechanism, "listed", checks, listed)
    if not names:
        return CauseStatus(cause, mechanism, "unwatched")
    if not checks:
        topics = {name.partition(".")[0] for name in names}
        near = tuple(check for check in records if check.analyzer.partition(".")[0] in topics)
        return CauseStatus(cause, mechanism, "absent", near)
    found = any(check.status == "found" for check in checks)
    if found and (minor := _minor(discussion, cause, mechanism)):
        return CauseStatus(cause, mechanism, "minor", checks, minor=minor)
    if found and not discussion.profile().measured and (own := _unpriced(discussion, cause, checks)):
        return CauseStatus(cause, mechanism, "unpriced", own)
    if any(check.status == "cannot_answer" for check in checks):
        return CauseStatus(cause, mechanism, "open", checks)
    return CauseStatus(cause, mechanism, "other" if found else "clean", checks)


def _unpriced(discussion: Discussion, cause: str, checks: Sequence[CheckRecord]) -> tuple[CheckRecord, ...]:
    """Those of the checks that found the cause, on a run whose steps are not known."""
    answers = {each.analyzer: check_of(discussion.profile(), each.analyzer) for each in checks}
    found = {name for name, each in answers.items() if each and any(one.cause == cause for one in each.findings)}
    return tuple(each for each in checks if each.analyzer in found)


def _listed(discussion: Discussion, cause: str, mechanism: str | None) -> tuple[tuple[int, CauseRecord], ...]:
    same = [(place, record) for place, record in enumerate(discussion.diagnosis.causes) if record.cause == cause]
    exact = [(place, record) for place, record in same if mechanism in (None, record.mechanism)]
    if exact or not has_own_check(mechanism):
        return tuple(exact or same)
    # By the job's own output alone a cause whose mechanism is open may have any of them.
    recorded = not discussion.profile().traced
    return tuple(each for each in same if recorded and known_mechanism(each[1].mechanism) is None)


def _minor(discussion: Discussion, cause: str, mechanism: str | None) -> tuple[RankedCause, ...]:
    same = [each for each in ranking(discussion.profile()).below if each.finding.cause == cause]
    return tuple(
        each for each in same if mechanism is None or known_mechanism(each.finding.mechanism) in (None, mechanism)
    )

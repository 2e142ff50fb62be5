"""Could it be X? Why is it not X? Answered from what the checks say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from hermes_agent.model.display import cause_title, on_ranks, plain
from hermes_agent.questions.collectives import none_recorded
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, capital, general, listed, ordinal, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.standing import Kind, Standing, found_instead, standing
from hermes_agent.questions.subjects import Subject
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.savings import cause_key
from tools.knowledge.taxonomy import causes, family_of
from tools.knowledge.thresholds import DEFAULTS

COMMUNICATING = {"communication", "parallel"}
WHY_NOT = re.compile(r"\bwhy (is |are |was )?(it |this |that )?(not|isnt|wasnt|arent|dont|didnt)\b|\bwhynot\b")


def suspect(discussion: Discussion, question: Question) -> str | None:
    """What speaks for and against the cause, mechanism or family that the question names."""
    if question.subject is None:
        return None
    return about(discussion, question.subject, bool(WHY_NOT.search(question.words)))


def about(discussion: Discussion, subject: Subject, why_not: bool = False) -> str:
    """Everything the checks say about a subject, the causes that were found first."""
    stands = [standing(discussion, cause, subject.mechanism) for cause in subject.causes]
    if not any(each.listed or each.minor for each in stands) and (none := _no_collectives(discussion, subject)):
        return none
    lead = _lead(subject, stands) if len(stands) > 1 else ""
    told = [
        *(_found(discussion, each, place, record, why_not) for each in stands for place, record in each.listed),
        *(_small(discussion, ranked) for each in stands for ranked in each.minor),
        *_not_found(discussion, subject, stands),
    ]
    return blocks([lead, *told, _unwatched(discussion, subject, stands)])


def _no_collectives(discussion: Discussion, subject: Subject) -> str:
    """What can be said of communication where the steps hold none; empty for other subjects and other runs."""
    families = {family_of(cause) for cause in subject.causes}
    if not families <= COMMUNICATING or "communication" not in families:
        return ""
    if not discussion.material.profile().traced:  # records do not tell whether there are any
        return ""
    none = none_recorded(discussion)
    if not none:
        return ""
    return paragraph(
        [
            f"Not {subject.title}, as far as training communicates.",
            none,
            "So no time of theirs is lost to it.",
            "Data read over a network is another matter: that shows as waiting for data.",
        ]
    )


def _lead(subject: Subject, stands: Sequence[Standing]) -> str:
    kinds = {each.kind for each in stands}
    title = capital(subject.title)
    if "listed" in kinds:
        return f"{title} has a part in it."
    if "minor" in kinds:
        return f"{title} has a part in it, but a small one."
    if kinds == {"unwatched"}:
        return f"Nothing can be said about {subject.title}: Hermes has no analyzer for it yet."
    if kinds & {"open", "absent", "unwatched"}:
        return f"Nothing found points to {subject.title}, but not every question about it could be answered."
    return f"Nothing points to {subject.title}: what could be wrong with it was looked at."


def _found(discussion: Discussion, stand: Standing, place: int, record: CauseRecord, why_not: bool) -> str:
    all_ranks = discussion.diagnosis.run.ranks
    title = f"{cause_title(record.cause, record.mechanism)}{on_ranks(record.ranks, all_ranks)}"
    parts = [f"Yes: {title} is the {ordinal(place)} of the causes found.", record.claim]
    if stand.mechanism is not None and stand.mechanism != record.mechanism:
        parts.insert(1, f"That it happens by {plain(stand.mechanism)} does not show in the sources.")
    if record.confidence < DEFAULTS["confidence"].value:
        parts.append("The evidence is thin, so take it as a hypothesis.")
    if why_not and place:
        parts.append(_behind(discussion, record))
    parts += [f"Against it: {contrary}" for contrary in record.against]
    return paragraph(parts)


def _behind(discussion: Discussion, record: CauseRecord) -> str:
    """Why a cause that was found is not the first: thinner evidence goes behind, then what costs less."""
    first = discussion.diagnosis.causes[0]
    own, top = discussion.impact(record), discussion.impact(first)
    if own is None or top is None:
        return ""
    name = cause_title(first.cause, first.mechanism)
    enough = DEFAULTS["confidence"].value
    if record.confidence < enough <= first.confidence:
        return (
            f"It is not the first because its evidence is thinner: it costs {cited(own)} per step, {name} {cited(top)}."
        )
    if own.value <= top.value:
        return f"It is not the first because it costs {cited(own)} per step, less than the {cited(top)} of {name}."
    return f"It costs {cited(own)} per step, {name}, which is ranked first, {cited(top)}."


def _small(discussion: Discussion, ranked: RankedCause) -> str:
    """Found but not listed: a symptom of a cause that is, or worth too little by itself."""
    cause, mechanism, ranks = cause_key(ranked)
    explaining = [each for each in discussion.diagnosis.causes if each.cause in ranked.finding.symptom_of]
    claim = ranked.finding.claim
    told = discussion.say(claim.template, *claim.facts, names=claim.names)
    if explaining:
        titles = listed([cause_title(each.cause, each.mechanism) for each in explaining])
        return paragraph([f"{capital(plain(cause))} is there, but as a symptom: {titles} explains it.", told])
    fact = discussion.measure("cause_impact_ms", cause=cause, mechanism=mechanism, ranks=ranks)
    lead = discussion.say(
        f"{capital(cause_title(cause, mechanism or None))} is there, but removing it would save only {{0}} per step.",
        fact,
    )
    return paragraph([lead, told])


def _unwatched(discussion: Discussion, subject: Subject, stands: Sequence[Standing]) -> str:
    names = [_name(subject, each) for each in stands if each.kind == "unwatched"]
    if not names:
        return ""
    parts = [f"There is no analyzer for {listed(names)} yet, so this is open, not ruled out."]
    if len(stands) == 1:
        parts.append(f"Signs to look for: {signs_of(discussion, stands[0].cause)}.")
    return paragraph(parts)


def _name(subject: Subject, stand: Standing) -> str:
    return subject.title if subject.mechanism else plain(stand.cause)


LEADS: dict[Kind, str] = {
    "open": "Whether it is {} cannot be said from these sources.",
    "other": "Not {} on this evidence: the check that looks for it found something else.",
    "absent": "No check for {} was made on this run; the nearest checks say the following.",
    "clean": "No sign of {}: it was looked for.",
}


def _not_found(discussion: Discussion, subject: Subject, stands: Sequence[Standing]) -> list[str]:
    """What speaks against the causes that were not found; causes with the same answer share one paragraph."""
    names: dict[tuple[Kind, str], list[str]] = {}
    for kind in LEADS:
        for each in stands:
            if each.kind == kind:
                names.setdefault((kind, _checked(discussion, each)), []).append(_name(subject, each))
    return [paragraph([LEADS[kind].format(listed(group, "or")), text]) for (kind, text), group in names.items()]


def _checked(discussion: Discussion, stand: Standing) -> str:
    """The checks of a cause that was not found, each thing once."""
    texts = [check_text(discussion, check) for check in stand.checks]
    if stand.kind == "other":
        against = [text for record in found_instead(discussion, stand.checks) for text in record.against]
        texts += [f"Against it: {text}" for text in against]
    return paragraph(dict.fromkeys(texts))


def check_text(discussion: Discussion, check: CheckRecord) -> str:
    """What one check came to: its sentences, or why it cannot answer and what it needs."""
    if check.status != "cannot_answer":
        return paragraph(check.text)
    reason = capital(general(check.reason))
    needs = general(check.needs)
    return f"{reason}. What it needs: {needs}."


def signs_of(discussion: Discussion, cause: str) -> str:
    """The signs by which the taxonomy knows a cause."""
    return "; ".join(general(sign) for sign in causes()[cause].signals)

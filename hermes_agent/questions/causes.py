"""What the checks say about a cause: could it be, what is it, how sure, and what could not be checked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from hermes_agent.model.display import FAMILY_TITLES, cause_title, on_ranks, plain
from hermes_agent.questions.cause_status import CauseStatus as Standing
from hermes_agent.questions.cause_status import Kind, found_instead
from hermes_agent.questions.cause_status import cause_status as standing
from hermes_agent.questions.coverage import CHECKS_OF_CAUSE
from hermes_agent.questions.device import none_recorded
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, ordinal, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.subjects import Subject
from tools.errors import UsageError
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking
from tools.judgement.savings import cause_key
from tools.knowledge.taxonomy import causes, family_of
from tools.knowledge.thresholds import Thresholds

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
    if record.confidence < Thresholds()["confidence"]:
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
    enough = Thresholds()["confidence"]
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


CAUSES_TOLD = 3


def define(discussion: Discussion, question: Question) -> str | None:
    """Signs and remedies of the cause that the question names, then what this run's checks say about it."""
    subject = question.subject
    if subject is None:
        return None
    described = [_cause(discussion, cause) for cause in subject.causes[:CAUSES_TOLD]]
    rest = subject.causes[CAUSES_TOLD:]
    more = f"Related: {', '.join(plain(cause) for cause in rest)}." if rest else ""
    return blocks([*described, more, f"In this run: {about(discussion, subject)}"])


def _cause(discussion: Discussion, name: str) -> str:
    cause = causes()[name]
    lead = f"{capital(plain(name))} belongs to {FAMILY_TITLES.get(cause.family, cause.family)}."
    rows = [
        f"Signs: {signs_of(discussion, name)}.",
        f"What helps: {'; '.join(general(each) for each in cause.optimizations)}.",
    ]
    if cause.mechanisms:
        rows.append(f"It happens by: {', '.join(plain(each) for each in cause.mechanisms)}.")
    return blocks([lead, bullets(rows)])


def unanswered_checks(discussion: Discussion, _: Question) -> str:
    """The checks that could not answer, and the causes that no analyzer looks for."""
    unanswered = [check for check in discussion.diagnosis.checks if check.status == "cannot_answer"]
    names: dict[str, list[str]] = {}
    for check in unanswered:
        names.setdefault(check_text(discussion, check), []).append(f"`{check.analyzer}`")
    rows = [f"{listed(together)}: {text}" for text, together in names.items()]
    lead = (
        "These questions could not be answered from the sources:\n" + bullets(rows)
        if rows
        else "Every question that Hermes asks of such a run could be answered."
    )
    unwatched = [plain(name) for name in causes() if name not in CHECKS_OF_CAUSE]
    return blocks([lead, f"There is no analyzer yet for: {', '.join(unwatched)}." if unwatched else ""])


CERTAINTY_CAUSES_TOLD = 5
VERDICTS = {
    "problem": "The verdict is a problem: a cause is well supported and costs a noticeable part of the step.",
    "healthy": "The verdict is healthy: what could be checked was checked, and nothing worth changing was found.",
    "inconclusive": "The verdict is inconclusive: what was found is not supported well enough to be called the cause.",
}
MEANING = (
    "Every figure is measured on the recording and can be measured again, `show E1` does; "
    "what is uncertain is the cause."
)


def how_sure(discussion: Discussion, _: Question) -> str:
    """The verdict's grounds, for each cause how well it is supported and what would disprove it, and what is open."""
    diagnosis = discussion.diagnosis
    told = [_certainty_cause(discussion, each) for each in diagnosis.causes[:CERTAINTY_CAUSES_TOLD]]
    return blocks([paragraph([VERDICTS[diagnosis.verdict], MEANING]), bullets(told), _open(discussion)])


def _certainty_cause(discussion: Discussion, cause: CauseRecord) -> str:
    name = (
        f"{capital(cause_title(cause.cause, cause.mechanism))}{on_ranks(cause.ranks, discussion.diagnosis.run.ranks)}"
    )
    supported = cause.confidence >= Thresholds()["confidence"]
    lead = f"{name} is {'well supported' if supported else 'a hypothesis'}: confidence `{cause.confidence:.2f} of 1`"
    parts = [f"{lead}, by how far the figures pass the limits.", _interval(discussion, cause)]
    parts += [f"Against it: {contrary}" for contrary in cause.against]
    if cause.disproved_by:
        parts.append(f"What would disprove it: {general(cause.disproved_by)}.")
    return paragraph(parts)


def _interval(discussion: Discussion, cause: CauseRecord) -> str:
    """Between what the speedup without the cause is expected to lie."""
    ranked = _ranked(discussion, cause)
    if ranked is None:
        return ""
    name, mechanism, ranks = cause_key(ranked)
    try:
        low, high = (
            discussion.measure("predicted_speedup", cause=name, mechanism=mechanism, ranks=ranks, bound=bound)
            for bound in ("low", "high")
        )
    except UsageError:
        return "What its removal brings is not predicted."
    return discussion.say("Without it a step is expected to be between {0} and {1} as fast.", low, high)


def _ranked(discussion: Discussion, cause: CauseRecord) -> RankedCause | None:
    for each in ranking(discussion.material.profile()).causes:
        finding = each.finding
        if (finding.cause, finding.mechanism, each.check) == (cause.cause, cause.mechanism, cause.check) and (
            list(finding.ranks) in (cause.ranks, [])
        ):
            return each
    return None


def _open(discussion: Discussion) -> str:
    open_checks = [f"`{each.analyzer}`" for each in discussion.diagnosis.checks if each.status == "cannot_answer"]
    if not open_checks:
        return "Every question that Hermes asks of such a run could be answered."
    return (
        f"What could not be answered from these sources: {listed(open_checks)}; “What could you not check?” says why."
    )

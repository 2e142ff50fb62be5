"""The questions understood without a language model, and the answer of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.model.display import rank_list, span_list
from hermes_agent.model.run_record import ScreeningRecord
from hermes_agent.questions.answers import drifts, evidence_lookup, figures, setup, steps, untraced
from hermes_agent.questions.answers.last_calls import recorded_ranks
from hermes_agent.questions.answers.recorded_figures import RECORDED, recorded_figure
from hermes_agent.questions.answers.sampled_figures import sampled_figure
from hermes_agent.questions.answers.timed_communication import ASKED, timed_communication
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.fallback import by_diagnosis, of_parts, with_diagnosis
from hermes_agent.questions.kinds import (
    ANSWERS,
    BROAD,
    FIGURE,
    NOT_MEASURABLE,
    NOT_UNDERSTOOD,
    OF_ALL_RANKS,
    OF_ALL_STEPS,
    OF_ANY_RANK,
    OF_NO_FIGURE,
    OF_PARTS,
    OF_THEIR_OWN,
    OF_TROUBLE,
    OPINIONS,
    PAGED,
)
from hermes_agent.questions.nccl_output import of_nccl
from hermes_agent.questions.prose import blocks, bullets, span, unbracketed
from hermes_agent.questions.reading import asked
from hermes_agent.questions.reading.lengths import LENGTH, lengths
from hermes_agent.questions.reading.question import (
    ENGLISH,
    MOST_PLACES,
    Question,
    in_english,
    left_out,
    lexicon,
    of_all_ranks,
    of_all_steps,
    read_question,
    wording,
)
from hermes_agent.questions.reading.spelling import corrected
from hermes_agent.questions.subject_match import nearest_only
from hermes_agent.report.sections import group_text
from tools.errors import UsageError
from tools.views.counters import counter_view

SUGGESTED = ("Why is it slow?", "What should I change first?", "Could it be the network?")
DESCRIPTION = 6  # words that describe a symptom, for which cases are looked up; fewer are a question about the run
QUESTION_WORD = re.compile(
    r"^(what|whats|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|should|would|will|has"
    r"|have|had|am|may|might|show|list|give|tell|compare)\b"
)
AT_END = re.compile(
    r"\b(first|last|final) (?:(?:recorded|traced|profiled) )?(?:steps?|iterations?)\b(?! (?:to|towards|should)\b)"
    r"|\b(first) (?:and|vs|versus|to|against|with) (?:the )?(last|final)\b"
)
AND_WHY = re.compile(r"\bwhy$")
IN_PARTS = re.compile(r"^(where|which parts?|what takes)\b")  # a step as a whole is no answer to that
AND_REASON = re.compile(r"\bwhy\b")  # a figure is no reason
CUT = f"Only the first {MOST_PLACES} ranks or steps of a question are read."

OF_LENGTH = ("How many", "Which")  # English forms of questions that a length may bound


@dataclass(frozen=True)
class Answer:
    """An answer to one question, as Markdown with citations ``[E3]``, ``[A1]``, ``[C2]``.

    ``evidence`` holds every record the text cites, old and new. ``intent`` is the kind of question it was taken for,
    ``not_understood`` where no kind fitted and ``not_measurable`` where the run cannot give the figure.
    """

    text: str
    evidence: tuple[EvidenceRecord, ...] = ()
    by: Literal["template", "model"] = "template"
    notes: tuple[str, ...] = ()
    intent: str = ""


def reply(discussion: Discussion, text: str, page: int = 0) -> Answer:
    """The answer from the diagnosis and what can be measured; raises InputError when the run can no longer be read."""
    foreign = in_english(text)
    limits = lengths(text)
    if foreign and limits and foreign[1].startswith(OF_LENGTH):
        foreign = (foreign[0], f"{foreign[1].rstrip('?')} {limits.text}?")
    english = foreign is None and text.isascii() and ENGLISH.search(text.lower())
    language, words = ("", "") if english or limits else asked.in_english_words(text)
    foreign = foreign or ((language, words) if words else None)
    spelt = text if foreign else corrected(text)
    question = read_question(foreign[1] if foreign else spelt, page)
    try:
        intent, answer = answer_text(discussion, question, read_question(words) if words else None)
    except UsageError as error:
        intent = NOT_MEASURABLE
        answer = _not_measurable(discussion, question, error)
    if page and (intent == NOT_MEASURABLE or intent not in PAGED):  # its first page was answered
        answer = wording("page_end")
    if foreign:
        wanted = asked.asked(read_question(words)) if intent == FIGURE else None
        lead = f"Understood from {foreign[0]} as `{wanted.spoken if wanted else foreign[1]}`; answers are in English."
        lead = f"{lead} {'' if intent == FIGURE else left_out(text, question)}"
        answer = f"{lead.strip()}\n\n{answer}"
    elif spelt != text:
        answer = f"Read as “{unbracketed(spelt)}”.\n\n{answer}"
    notes = (CUT,) if MOST_PLACES in (len(question.ranks), len(question.steps)) else ()
    return Answer(answer.strip(), cited_evidence(discussion, answer), notes=notes, intent=intent)


def at_ends(discussion: Discussion, question: Question) -> Question:
    """The question with the first and the last recorded step by number, where it names them so."""
    named = [word for match in AT_END.finditer(question.words) for word in match.groups() if word]
    known = discussion.diagnosis.run.steps
    if not named or not known or _of_job_start(discussion, question):
        return question
    ends = {"first": known[0], "last": known[-1], "final": known[-1]}
    words = AT_END.sub(
        lambda match: " vs ".join(f"step {ends[each]}" for each in match.groups() if each), question.words
    )
    return replace(
        question, words=words, steps=tuple(dict.fromkeys((*question.steps, *(ends[each] for each in named))))
    )


def _of_job_start(discussion: Discussion, question: Question) -> bool:
    """Whether the first step of the whole job is asked about, which the job's output prints; no trace begins there."""
    return lexicon().intents["start"].fits(question.words) and discussion.measured("first_step_ms") is not None


def cited_evidence(discussion: Discussion, text: str) -> tuple[EvidenceRecord, ...]:
    """The figures that a text cites, each once."""
    known = discussion.evidence
    return tuple(known[name] for name in dict.fromkeys(cited_ids(text)) if name in known)


NO_DEVICE = "No such device was sampled"
NO_ANSWER = "This run has no answer to exactly that"
CANNOT = "What was asked cannot be measured on this run"


def _not_measurable(discussion: Discussion, question: Question, error: UsageError) -> str:
    """Why there is no figure, and what the job's own timers say of a step, or its throughput without a time."""
    if ASKED.search(question.words) and (timed := timed_communication(discussion)):
        return timed
    why = f"{CANNOT}: {unbracketed(str(error))}."
    return blocks([why, steps.timed_parts(discussion), drifts.stated_throughput(discussion)])


def _by_timers(text: str) -> bool:
    """Whether what cannot be measured is answered by the job's own timers."""
    return not text.startswith(CANNOT) and bool(cited_ids(text))


def answer_text(discussion: Discussion, question: Question, spoken: Question | None = None) -> tuple[str, str]:
    """Name of the intent that answered (``NOT_UNDERSTOOD`` when none did) and the answer as Markdown.

    An answer that does not state the figure that was asked for is not given: the figure by its metric is, or that there
    is none. ``spoken`` is a question in another language word by word.
    """
    question = at_ends(discussion, question)
    recorded = of_nccl(discussion, question) or recorded_figure(discussion, question)
    recorded = recorded or sampled_figure(discussion, question)
    if recorded := recorded or setup.host_facts(discussion, question):
        return RECORDED, recorded
    name, text = _answered(discussion, question, spoken)
    if question.page:
        return name, text
    if text.startswith(NO_DEVICE):
        return name, text
    unanswered = (name == NOT_MEASURABLE and not _by_timers(text)) or (name == FIGURE and text.startswith(NO_ANSWER))
    part = untraced.of_part(discussion, question, text, unanswered) if unanswered or name in OF_PARTS else None
    if part is not None:
        return (RECORDED if unanswered and part.stated else name), part.text
    if name == NOT_UNDERSTOOD and (found := by_diagnosis(discussion, question, understood=False)):
        return "overview", found
    if name in OF_THEIR_OWN:
        return name, text
    lacking = name == NOT_MEASURABLE or (name == FIGURE and not cited_ids(text))
    if lacking and (found := of_parts(discussion, question)):
        return "overview", found
    if name == "ranks" and not (discussion.profile().traced or AND_REASON.search(question.words)):
        return name, text
    if name == NOT_MEASURABLE or name in OF_TROUBLE:
        lacks_all = name == NOT_MEASURABLE or text == wording("no_ranks_read")
        return name, with_diagnosis(discussion, question, text, measurable=not lacks_all)
    return name, nearest_only(question, name, text, name in OF_NO_FIGURE) or text


def _answered(discussion: Discussion, question: Question, spoken: Question | None) -> tuple[str, str]:
    """The answer by kind of question, or the figure that it does not state."""
    own = at_ends(discussion, spoken) if spoken is not None else question
    try:
        name, text = _by_kind(discussion, question)
    except UsageError as error:
        name, text = NOT_MEASURABLE, _not_measurable(discussion, question, error)
    of_name = _of_its_name(discussion, question, name, text)
    if of_name:
        return "named_work", of_name
    if question.names and name == NOT_MEASURABLE:  # the figure of another thing would pass for that of the name
        return name, text
    if name in OF_NO_FIGURE or question.page or LENGTH.search(question.text.lower()):
        return name, text
    if name == "breakdown" and AND_WHY.search(question.words):
        return name, blocks([" ".join(discussion.diagnosis.answer), text])
    if name == "breakdown" and IN_PARTS.search(question.words) and cited_ids(text) and not discussion.profile().traced:
        return name, text
    wanted = _wanted(discussion, own, name)
    general = wanted is None or (wanted.topic.given.get("kind") in asked.GENERAL and "part" not in wanted.topic.given)
    read = spoken is not None or own.names or not (name in BROAD or wanted) or not asked.asks_figure(own)
    if general and not read and (strange := figures.strange_words(own)):
        return FIGURE, figures.not_known(strange)
    return (name, text) if wanted is None else _figure_or(discussion, own, wanted, (name, text))


def _figure_or(
    discussion: Discussion, question: Question, wanted: asked.Asked, answer: tuple[str, str]
) -> tuple[str, str]:
    """The answer where it states the figure that is wanted, else the figure by its metric or that there is none."""
    name, text = answer
    stated = name not in {*OPINIONS, NOT_MEASURABLE} and figures.answers(wanted, text, discussion.ranks)
    if stated and not (name == "ranks" and wanted.ranks):  # what was found on a rank may state other figures of it
        return answer
    if refusal := _no_such_rank(discussion, question):
        return name, refusal
    try:
        return FIGURE, figures.figure(discussion, wanted)
    except UsageError as error:
        if stated or name == NOT_MEASURABLE:
            return answer
        profile = discussion.profile()
        if name == "steps" and wanted.over == "step" and not profile.traced and cited_ids(text):  # a table of lines
            return answer
        if profile.traced or profile.run.ascend is not None:
            return FIGURE, figures.declined(wanted, unbracketed(str(error)))
        none = f"{NO_ANSWER}, {wanted.spoken}"
        return FIGURE, blocks([f"{none}: no trace was read.", steps.timed_parts(discussion)])


def _of_its_name(discussion: Discussion, question: Question, name: str, text: str) -> str:
    """What is known of a kernel or operator that a question names, where an answer is about others; else ""."""
    if name in OF_NO_FIGURE or not question.names or any(each.lower() in text.lower() for each in question.names):
        return ""
    try:
        return ANSWERS["named_work"](discussion, question) or ""
    except UsageError:
        return ""


def _wanted(discussion: Discussion, question: Question, name: str) -> asked.Asked | None:
    """The figure that a question asks for, answered as ``name``; names of the run count where that is broad."""
    if not asked.may_ask_figure(question):  # nothing is read of the run for it
        unread = name == NOT_UNDERSTOOD and not AND_REASON.search(question.words)
        return asked.about_topic(question) if unread else None
    wanted = asked.asked(question)
    if name in BROAD or (wanted is not None and wanted.topic.given.get("kind")):
        wanted = asked.asked(question, figures.unknown_topic(discussion, question))
    unread = wanted is None and name == NOT_UNDERSTOOD and not AND_REASON.search(question.words)
    return asked.about_topic(question) if unread else wanted


def _by_kind(discussion: Discussion, question: Question) -> tuple[str, str]:
    """The first kind of question that fits, and its answer."""
    for name, intent in lexicon().intents.items():
        if intent.fits(question.words):
            refusal = "" if name in OF_ANY_RANK else _no_such_rank(discussion, question)
            text = refusal or ANSWERS[name](discussion, question)
            if text is not None:
                whole = of_all_steps(question) if name in OF_ALL_STEPS else ""
                whole = of_all_ranks(question) if name in OF_ALL_RANKS else whole
                return name, blocks([whole, text]) if cited_ids(text) else text
    suggested = bullets(f"“{example}”" for example in SUGGESTED)
    unknown = f"{wording('not_understood')}\n{suggested}\n\n{wording('more_questions')}"
    described = len(question.words.split()) >= DESCRIPTION and not QUESTION_WORD.search(question.words)
    cases = evidence_lookup.for_text(discussion, question.text) if described else ""
    return NOT_UNDERSTOOD, blocks([unknown, cases])


def _no_such_rank(discussion: Discussion, question: Question) -> str:
    known = discussion.ranks
    if set(question.ranks) <= set(known):
        return ""
    screening = discussion.diagnosis.run.screening
    alike: dict[str, list[int]] = {}  # what a group looks like, and which of its ranks were asked about
    if screening is not None:
        for rank in question.ranks:
            alike.setdefault(_group_of(screening, rank), []).append(rank)
    if alike and "" not in alike:
        return " ".join(_by_summary(asked, known, group) for group, asked in alike.items())
    log = discussion.profile().run.job_log
    if known and log is not None and not log.ranks_stated and not discussion.profile().traced:
        return wording("no_ranks_read")
    if known:
        return f"This run has no such rank; it has {rank_list(known)}."
    recorded = recorded_ranks(discussion)
    if not recorded and (view := counter_view(discussion.profile())) is not None and view.devices:
        return _no_such_device(question.ranks, view.devices)  # numbers of GPUs are those of devices
    if not recorded:
        return "No rank of this run is known."
    lacks = "" if set(question.ranks) <= set(recorded) else "This run has no such rank. "
    return f"{lacks}{wording('collectives_only').format(rank_list(recorded))}"


def _no_such_device(asked: Collection[int], devices: Collection[str]) -> str:
    """A sentence where devices are asked about that were not sampled; else empty."""
    sampled = sorted({int(name.split()[0]) for name in devices if name.split()[0].isdecimal()})
    if not sampled or set(asked) <= set(sampled):
        return ""
    return f"{NO_DEVICE}; the samples are of {span('device', sampled)}."


def _by_summary(asked: Sequence[int], known: Collection[int], group: str) -> str:
    """How ranks of one group were compared, and what the group looks like."""
    unread = [rank for rank in asked if rank not in known]
    named, verb = rank_list(unread or asked), "was" if len(unread or asked) == 1 else "were"
    read = f"{verb} compared by summary only" if unread else f"{verb} read in full"
    return f"{named[:1].upper()}{named[1:]} {read}; {'it looks' if verb == 'was' else 'they look'} like {group}"


def _group_of(screening: ScreeningRecord, rank: int) -> str:
    """The ranks of the group that a rank is in and what they look like; empty where it is in none."""
    for group in screening.groups:
        if any(first <= rank <= last for first, last in group.ranks):
            read = f"of these, {rank_list(group.read)} read in full" if group.read else "none of these was read in full"
            return f"{span_list(group.ranks)}{group_text(group)} (ms per step); {read}."
    return ""

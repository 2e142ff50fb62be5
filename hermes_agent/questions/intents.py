"""The questions understood without a language model, and the answer of each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.model.display import rank_list
from hermes_agent.questions import advice, cases, causes, device, evidence_lookup, ranks, recording, steps
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.lexicon import lexicon, wording
from hermes_agent.questions.prose import blocks, bullets, unbracketed
from hermes_agent.questions.question import MOST_PLACES, Question, read_question
from tools.errors import UsageError

LIMIT = 2000
# A question with one of these is English, also where another language has its first word ("Comment on the step time").
ENGLISH = re.compile(
    r"\b(the|is|are|why|how|which|does|should|could|would|my|this|of|it|for|with|to|and|we|you|do|i)\b"
)


@dataclass(frozen=True)
class Foreign:
    """A question in another language and the English one it was taken for."""

    language: str
    question: str


RANK = re.compile(r"(?:rank|rang|rango|gpu)\s*(\d{1,7})|(\d{1,7})\s*号?卡")
STEP = re.compile(r"(?:schritt|paso|etape|iteration|iteracion)\s*(\d{1,9})|第?\s*(\d{1,9})\s*步")
OF_A_PLACE = {  # questions that may be about one rank or step
    "Why is it slow?": "Why is {} slow?",
    "Where does the time go?": "Break down {}",
    "How long does a step take?": "How long is {}?",
}


def in_english(text: str) -> Foreign | None:
    """The English question that a question in another language is taken for; None when it is not known to be one."""
    words, languages = folded(text[:LIMIT]), lexicon().languages
    if words.isascii() and ENGLISH.search(words):
        return None
    for question in next(iter(languages.values())).questions:
        for name, language in languages.items():
            subjects = "|".join(language.subjects.values())
            if _search(name, language.questions[question].replace("{s}", subjects), words):
                named = (subject for subject, pattern in language.subjects.items() if _search(name, pattern, words))
                english = question.replace("{subject}", next(named, "the first cause"))
                return Foreign(name, _placed(english, words))
    return None


def folded(text: str) -> str:
    """Lower case without accents, punctuation as blanks, single blanks; other scripts are kept."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join(re.sub(r"[^\w]+|_", " ", bare).split())


def _search(language: str, pattern: str, words: str) -> bool:
    """Chinese has no blanks between words; elsewhere a name begins and ends with a word."""
    return bool(re.search(pattern if language == "Chinese" else rf"\b(?:{pattern})\b", words))


def _placed(question: str, words: str) -> str:
    """The question about the rank or the step that was named."""
    ranks = [f"rank {first or second}" for first, second in RANK.findall(words)]
    steps = [f"step {first or second}" for first, second in STEP.findall(words)]
    if not (where := ranks + steps) or question not in OF_A_PLACE:
        return question
    place = " ".join(where) if question == "Where does the time go?" else where[0]
    step_of = "a step of " if ranks and question == "How long does a step take?" else ""
    return OF_A_PLACE[question].format(step_of + place)


NOT_UNDERSTOOD = "not_understood"
NOT_MEASURABLE = "not_measurable"
SUGGESTED = ("Why is it slow?", "What should I change first?", "Could it be the network?")
CUT = f"Only the first {MOST_PLACES} ranks or steps of a question are read."

Answering = Callable[[Discussion, Question], str | None]  # None: not meant after all, try the next


@dataclass(frozen=True)
class Reply:
    """The answer's text, the figures it cites, and which kind of question it was taken for.

    ``intent`` is ``not_understood`` where no kind fitted and ``not_measurable`` where the run cannot give the figure.
    """

    text: str
    evidence: tuple[EvidenceRecord, ...]
    intent: str
    notes: tuple[str, ...] = ()


def reply(discussion: Discussion, text: str) -> Reply:
    """The answer to a question, from the diagnosis and from what can be measured on the run.

    Raises InputError when the run has to be read again and cannot be.
    """
    foreign = in_english(text)
    question = read_question(foreign.question if foreign else text)
    try:
        intent, answer = answer_text(discussion, question)
    except UsageError as error:
        intent, answer = NOT_MEASURABLE, f"That cannot be measured on this run: {unbracketed(str(error))}."
    if foreign:
        answer = f"Understood from {foreign.language} as `{foreign.question}`; answers are in English.\n\n{answer}"
    known = discussion.evidence
    cited = dict.fromkeys(name for name in cited_ids(answer) if name in known)
    notes = (CUT,) if MOST_PLACES in (len(question.ranks), len(question.steps)) else ()
    return Reply(answer.strip(), tuple(known[name] for name in cited), intent, notes)


def answer_text(discussion: Discussion, question: Question) -> tuple[str, str]:
    """Name of the intent that answered (``NOT_UNDERSTOOD`` when none did) and the answer as Markdown."""
    for name, words in lexicon().intents.items():
        if any(re.search(pattern, question.words) for pattern in words.patterns):
            refusal = "" if name in OF_ANY_RANK else _no_such_rank(discussion, question)
            text = refusal or ANSWERS[name](discussion, question)
            if text is not None:
                return name, text
    suggested = bullets(f"“{example}”" for example in SUGGESTED)
    return NOT_UNDERSTOOD, blocks(
        [f"{wording('not_understood')}\n{suggested}", cases.for_text(discussion, question.text)]
    )


def _no_such_rank(discussion: Discussion, question: Question) -> str:
    known = discussion.ranks
    if all(rank in known for rank in question.ranks):
        return ""
    return f"This run has no such rank; it has {rank_list(known)}." if known else "No rank of this run is known."


def _help(_: Discussion, __: Question) -> str:
    rows = bullets(f"{words.about}: “{words.example}”" for words in lexicon().intents.values() if words.example)
    return f"You can ask:\n{rows}\n\nAnswers cite their evidence; `show E1` opens it."


OF_ANY_RANK = {"help", "identifiers", "similar_cases", "recording", "named_work", "definition", "suspicion"}
ANSWERS: Mapping[str, Answering] = MappingProxyType(
    {
        "help": _help,
        "what_if": advice.what_if,
        "identifiers": evidence_lookup.explain_ids,
        "gaps": causes.unanswered_checks,
        "comparison": advice.against_baseline,
        "similar_cases": cases.similar_cases,
        "certainty": causes.how_sure,
        "workers": advice.how_many_workers,
        "named_work": device.named_work,
        "duration": steps.how_long,
        "kernels": device.top_kernels,
        "host_calls": device.top_host_calls,
        "collectives": device.collectives_by_kind,
        "waiting": ranks.why_wait,
        "launch_queue": device.launch_queue,
        "utilisation": device.how_busy,
        "memory": device.memory_peak,
        "recording": recording.what_is_recorded,
        "breakdown": steps.break_down,
        "change": advice.what_to_change,
        "ranks": ranks.which_rank,
        "steps": steps.which_step,
        "overview": advice.summarise,
        "definition": causes.define,
        "suspicion": causes.suspect,
    }
)

"""Two questions in one sentence: where they are parted, and one short paragraph for each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import Answer, cited_evidence, reply
from hermes_agent.questions.kinds import FIGURE, NOT_UNDERSTOOD
from hermes_agent.questions.prose import blocks, capital, unbracketed
from hermes_agent.questions.reading.conversation import IT, Conversation, turn_of
from hermes_agent.questions.reading.question import LIMIT
from hermes_agent.questions.short_form import in_short, without_reading

SAID_WORDS = 4  # fewer are a name that is asked about: "rank 3, why?"
MOST_PARTS = 3  # further ones stay with the last
MORE_ALONE = "Ask one of them alone for the rest of its answer."
SAME_ANSWER = "The answer is the one above."
SEVERAL = "several_questions"

_ENGLISH = r"(?:which|whats?|how|why|whom?|whose|when|where|is|are|was|were|does|do|did|can|could|should|would|any)\b"
_GERMAN = r"(?:welche[rsnm]?|was|wie|wieviele?|warum|wieso|weshalb|wer|wen|wann|wo|woran|liegt|ist|sind|gibt)\b"
_LINK = r"(?:\s*[,;?!]\s*|\s+)(?:and also|and|but|also|und auch|und|aber|sowie)\s+|\s*[;?!]\s+|(?<=[a-zA-Z\d%])\.\s+"
# "and" begins a further question only before the word that a question begins with; a comma alone before fewer of them.
PARTED = re.compile(rf"(?:{_LINK})(?={_ENGLISH}|{_GERMAN})|\s*,\s+(?=(?:which|what|how|why|who|when|where)\b)", re.I)
YES_NO_PARTED = re.compile(r"\s*,\s+(?=(?:is|are|does|do|did|has|have)\b)", re.I)
CHINESE_PARTED = re.compile(r"[，,；;？?。]\s*(?:并且|而且|以及|还有|那么|另外|和)?|(?<=\w)(?:并且|而且|以及|还有)")
CHINESE_QUESTION = re.compile(r"多[少久大高长快]|几[个次步]|哪|为[什何啥]|怎[么样]|什么|是否|吗|是不是|有没有")
# What comes first is a condition or a time there, and no question of its own.
CONDITION = re.compile(
    r"^(?:if|when|after|before|since|while|suppose|given|for|in|on|with|wenn|falls|nach|bei)\b", re.I
)
CLAUSE = re.compile(
    r"\b(?:tell|show|know|see|explain|understand|say|idea|sure|wonder\w*|find out|zeig\w*|sag\w*)$", re.I
)
WHY = re.compile(
    r"^(?:why|how come|warum|wieso|weshalb|为(?:什么|何|啥))\s*(?:(?:is|are) (?:it|that|this|they)|ist (?:das|sie|es))?"
    r"\s*(?:so|such|denn|这么|那么|如此)?\s*(?P<how>\w+)?\s*$",
    re.I,
)
LOW = re.compile(r"^(?:low|poor|bad|small|little|niedrig|gering|schlecht|低|差|小)$", re.I)
OF_SLOWNESS = "why is it slow?"  # what "why" alone asks after an answer that is no reason by itself
SLOW = re.compile(r"slow|long|time|step|busy|idle|wait|bottleneck|langsam|lang|dauer|schritt|慢|久|时间|步", re.I)
UTILISATION = re.compile(r"\b(?:utili[sz]\w*|busy|usage|auslastung|ausgelastet)\b|利用率|使用率", re.I)
# "how many did I profile": what is counted is named by the part before it.
ELLIPTIC = re.compile(r"^how (?:many|much|often|long)(?: \w+){0,3}$|^\w{0,4}(?:多[久少大长]|几次)$", re.I)
# Words that stand for what was named before.
REFERS = re.compile(
    r"\b(?:it|they|them|its|their|theirs|there|these|those|that|this|ones?|each other|dies\w*|sie|davon|darin|dort)\b",
    re.I,
)
OF_THE_RUN = re.compile(
    r"\b(?:why|how slow|is|was|could|does|can|liegt|ist|warum) (?:it|es|this|that)\b(?! (?:take|cost|spend)\b)", re.I
)


@dataclass(frozen=True)
class Part:
    """One of several questions as it is named in the answer, its answer, and what of that was not said before."""

    named: str
    answer: Answer
    text: str


def answered(discussion: Discussion, text: str, page: int = 0) -> Answer:
    """The answer to a question, or to each of several in one sentence; raises InputError as ``reply`` does."""
    parts = () if page else parted(text)
    if len(parts) < 2:
        return _after_statement(discussion, text, page)
    if len(parts) == 2 and _statement(parts[0]):  # what was seen is no question: the one after it is about it
        alone = _after_statement(discussion, text if WHY.match(parts[1]) else parts[1], page)
        return alone if alone.intent != NOT_UNDERSTOOD else reply(discussion, text, page)
    found = _of_each(discussion, parts)
    if found is None or all(each.answer.intent == NOT_UNDERSTOOD for each in found):
        return reply(discussion, text, page)
    body = blocks([*map(_paragraph, found), _rest(found)])
    notes = tuple(dict.fromkeys(note for each in found for note in each.answer.notes))
    return Answer(body, cited_evidence(discussion, body), notes=notes, intent=SEVERAL)


def _after_statement(discussion: Discussion, text: str, page: int) -> Answer:
    """The answer to a question; to what stands after a colon alone, where the whole is not understood."""
    whole = reply(discussion, text, page)
    before, _, after = text.rpartition(":")
    answered_so = whole.intent not in (NOT_UNDERSTOOD, FIGURE) or bool(whole.evidence)
    if answered_so or not before or not QUESTION.search(after.strip()):
        return whole
    alone = reply(discussion, after.strip(), page)
    return whole if alone.intent == NOT_UNDERSTOOD else alone


def parted(text: str) -> tuple[str, ...]:
    """The questions of one text in their order; a single one as typed, without what ends it."""
    kept = text[:LIMIT].strip()
    pattern = PARTED if kept.isascii() or not CHINESE_QUESTION.search(kept) else CHINESE_PARTED
    parts = [each.strip(" ?!.,;，。？；") for each in pattern.split(kept, MOST_PARTS - 1)]
    parts = [each for each in parts if each]
    if len(parts) == 1 and len(halves := YES_NO_PARTED.split(kept, 1)) == 2 and QUESTION.search(halves[0]):
        parts = [each.strip(" ?!.,;") for each in halves]
    if len(parts) < 2 or CONDITION.search(parts[0]) or any(CLAUSE.search(each) for each in parts[:-1]):
        return (kept,)
    if pattern is CHINESE_PARTED and not all(CHINESE_QUESTION.search(each) for each in parts):
        return (kept,)
    return tuple(parts)


QUESTION = re.compile(rf"^(?:{_ENGLISH}|{_GERMAN}|show|list|give|tell|compare|explain|name|print|find)", re.I)


def _statement(part: str) -> bool:
    """Whether a part of an English text says what was seen, and asks nothing."""
    asks = QUESTION.search(part.rpartition(":")[2].strip())
    return part.isascii() and not asks and len(part.split()) >= SAID_WORDS


def _of_each(discussion: Discussion, parts: tuple[str, ...]) -> list[Part] | None:
    """Every part with its answer; None where a part speaks of what another names, and so is none of its own."""
    if any(_depends(part) and not IT.search(part) for part in parts[1:]):
        return None
    talk, found, said = Conversation(), list[Part](), set[str]()
    for place, part in enumerate(parts):
        full = _reason(part, parts[0]) if place else ""
        resolved = talk.resolve(full or ("why?" if place and WHY.match(part) else part))
        if place and resolved.text == part and _depends(part):
            return None
        slow = SLOW.search(parts[0]) or SLOW.search(part)
        lost = bool(place and WHY.match(part) and resolved.text == OF_SLOWNESS and not slow)
        answer = Answer("", intent=NOT_UNDERSTOOD) if lost else reply(discussion, resolved.text)
        if answer.intent == NOT_UNDERSTOOD and place and ELLIPTIC.search(part):
            return None
        talk.add(turn_of(resolved.text, answer, ()))
        fresh = [each for each in without_reading(answer.text).split("\n\n") if each not in said]
        said.update(fresh)
        read = "" if resolved.text == part else f" (read as “{capital(unbracketed(resolved.text))}”)"
        again = any(each.answer.text == answer.text for each in found)
        body = SAME_ANSWER if again else blocks(fresh) or without_reading(answer.text)
        found.append(Part(f"“{unbracketed(part)}”{read}", answer, body))
    return found


def _reason(part: str, first: str) -> str:
    """The question in full that "why so low?" stands for after a question for the utilization; else empty."""
    why = WHY.match(part)
    if why is None or not UTILISATION.search(first):
        return ""
    return "why is the GPU utilization so low?" if not why["how"] or LOW.match(why["how"]) else ""


def _depends(part: str) -> bool:
    """Whether a part speaks of something that only the part before it names."""
    return bool(REFERS.search(OF_THE_RUN.sub(" ", part)))


def _paragraph(part: Part) -> str:
    """One part and its answer in short, or that it was not understood."""
    if part.answer.intent == NOT_UNDERSTOOD:
        named = part.named.partition(" (read as")[0]
        return f"{named} is not answered: it was not understood. `help` lists what can be asked."
    return f"{part.named}: {in_short(part.text)}"


def _rest(found: list[Part]) -> str:
    known = (each for each in found if each.answer.intent != NOT_UNDERSTOOD)
    return MORE_ALONE if any(in_short(each.text) != each.text for each in known) else ""

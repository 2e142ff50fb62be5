"""The turns of a conversation, and what a short question such as "and rank 7?" refers to in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.model.turn import ToolCallRecord, Turn
from hermes_agent.questions.intents import Answer
from hermes_agent.questions.prose import capital
from hermes_agent.questions.reading.question import Question, in_english, read_question

IN_CODE = re.compile(r"`([^`\n]{2,200})`")
ROW_ID = re.compile(r"^[ecgswrnmphtqu]\d+\.")
NO_NAME = re.compile(rf"{ROW_ID.pattern}|.* --")  # in code, and of no kernel or operator
NAMES = 10  # names remembered of one answer
REMEMBERED = 200  # turns; older ones are forgotten
LEAD = (
    r"(?P<lead>and|und|or|but|what about|how about|the same (?:for|of|on)|same (?:for|on)|dasselbe fur|was ist mit"
    r"|wie ist es mit|et|y|那|那么)?"
)
PLACE = re.compile(
    rf"^{LEAD}\s*(?:(?:for|of|on|in|auf|bei|von)\s+)?(?:the )?"
    r"(?P<noun>ranks?|rang|gpu|steps?|schritt|iteration|第|卡)\s*#?(?P<number>\d{1,9})\s*(?:步|号?卡|呢)?$",
    re.IGNORECASE,
)
WHY_NOT = re.compile(r"^(?:but |and )?(?:why not|whynot|warum nicht|wieso nicht|为什么不是?)$")
WHY = re.compile(
    r"^(?P<lead>and|but|und|aber|y|et|那么?|但)?\s*"
    r"(?:why|how come|warum|wieso|weshalb|por ?qu[eé]|pourquoi|为(?:什么|何|啥))"
    r"\s*(?:is (?:that|this|it)(?: so)?|so|das|denn|ist das so|呢|这样)?$"
)
PLACE_FOUND = re.compile(r"\b(?P<noun>Rank|Step) (?P<number>\d{1,9}) (?:is the slowest|is late|arrives last)\b")
NEXT = re.compile(r"^(?:and )?(?:then|then what|what then|after that|next|what next|what else|und dann|然后呢?)$")
MORE = re.compile(r"^(?:show )?(?:me )?(?:more|the next(?: ones| page)?|next page|mehr|weiter|更多)$")
BY = re.compile(
    r"^(?:and )?by (?:the )?(?P<by>kernels?|operators?|names?|layers?|modules?|phases?|lines?|shapes?|parts?)$"
)
SLOWEST = re.compile(r"^(?:and )?(?:which |what )?(?:is )?(?:the )?(?P<how>slowest|longest|fastest|worst)(?: one)?$")
PHASE = re.compile(r"^(?:and|what about|how about) (?:the )?(?P<phase>forward|backward|optimizer|data)(?: pass)?$")
PHASES = re.compile(r"\b(forward|backward|optimizer)\b")
THIS_EVENT = re.compile(r"\b(this|that) (kernel|operator|event|call)\b")
IT = re.compile(r"^how (many times|often|long|much time)\b.*\b(it|they)\b", re.IGNORECASE)
WORD_IT = re.compile(r"\b(it|they)\b", re.IGNORECASE)
LEAST_NAME = 8  # letters of a name that was cut in an answer; what is left of it is looked for
THAT_STEP = re.compile(
    r"\b(?:this|that) (?:step|iteration)\b|\b(?:diesem|dem|dieser) schritt\b|[这那]一?步", re.IGNORECASE
)
A_STEP = re.compile(r"\bStep (\d{1,9}) (?:is|takes|of)\b")  # what an answer is about
NOUNS = re.compile(r"\b(step|rank|kernel|collective|layer)s?\b")
RANK = re.compile(r"\b(ranks?|rang|gpu)\s*#?\d+", re.IGNORECASE)
STEP = re.compile(r"\b(steps?|schritt|iteration)\s*#?\d+", re.IGNORECASE)
IS_STEP = ("step", "steps", "schritt", "iteration", "第")
NO_EARLIER = "That refers to an earlier question, and there is none it could refer to. Ask the whole question."


@dataclass(frozen=True)
class Resolved:
    """A question that stands alone; ``note`` says what was understood, ``lacking`` why it could not be resolved."""

    text: str
    page: int = 0
    note: str = ""
    lacking: str = ""


@dataclass
class Conversation:
    """The turns so far, the oldest first."""

    turns: list[Turn] = field(default_factory=list)
    _last: Resolved | None = None  # the last question as it was understood

    @classmethod
    def of(cls, turns: Sequence[Turn]) -> Conversation:
        """A conversation that goes on after stored turns."""
        again = cls()
        for turn in turns[-REMEMBERED:]:
            again.add(turn)
        return again

    def add(self, turn: Turn) -> None:
        """Remember a turn."""
        resolved = self.resolve(turn.question)
        self._last = None if resolved.lacking else resolved
        self.turns.append(turn)
        del self.turns[:-REMEMBERED]

    def resolve(self, text: str) -> Resolved:
        """The question in full: as typed where it stands alone, else what it refers to in the last one."""
        words = " ".join(re.sub(r"[?!.,，。？！]+", " ", text.lower()).split())
        short = self._short(words)
        if short is None:
            return self._with_step(text) if THAT_STEP.search(text) else self._with_name(text)
        if short == "" or self._last is None:
            return Resolved(text, lacking=NO_EARLIER if self._last is None else f"{NO_EARLIER} {self._about()}".strip())
        page = self._last.page + 1 if MORE.match(words) else 0
        note = f"Understood as “{capital(short)}”{f', page {page + 1}' if page else ''}."
        return Resolved(short, page, note)

    def _short(self, words: str) -> str | None:
        """The full form of a question that refers to the last one; "" where it does but cannot, None otherwise."""
        last = "" if self._last is None else self._last.text
        if (match := PLACE.match(words)) and (match["lead"] or last):
            step = match["noun"] in IS_STEP
            place = f"{'step' if step else 'rank'} {match['number']}"
            return _placed(last, STEP if step else RANK, place, " in " if step else " on ")
        if WHY_NOT.match(words):
            subject = read_question(last).subject
            return f"why is it not {subject.title}?" if subject else ""
        if (match := WHY.match(words)) and (match["lead"] or last):
            return self._reason()
        if NEXT.match(words):
            return self._next_change()
        if MORE.match(words):
            return last
        if match := BY.match(words):
            return f"{last.rstrip(' ?.')} by {match['by']}" if last else ""
        if match := SLOWEST.match(words):
            noun = NOUNS.search(last.lower())
            return f"which {noun[1]} is the {match['how']}?" if noun else ""
        if match := PHASE.match(words):
            return f"how much time in the {match['phase']} pass?" if PHASES.search(last.lower()) else ""
        return None

    def _reason(self) -> str:
        """The question for the reason of what the last answer says: why a rank or step is slow, a device is idle."""
        last = "" if self._last is None else self._last.text
        if not last:
            return ""
        english = (in_english(last) or ("", last))[1].lower()
        found = PLACE_FOUND.search(self.turns[-1].answer) if self.turns else None
        asked = read_question(english)
        if found:
            return f"why is {found['noun'].lower()} {found['number']} slow?"
        if asked.ranks or asked.steps:
            return f"why is rank {asked.ranks[0]} slow?" if asked.ranks else f"why is step {asked.steps[0]} slow?"
        if re.search(r"\bidle\b", english):
            return "why is the device idle?"
        if re.search(r"\bwait(s|ing)?\b", english):
            return "why do ranks wait?"
        return "how sure are you?" if re.match(r"why\b", english) else "why is it slow?"

    def _next_change(self) -> str:
        """The advice after the one of the last answer; the first where it cites none."""
        shown = [name for name in self.turns[-1].ids if name.startswith("A")] if self.turns else []
        asked = read_question(self._last.text) if self._last else Question("", "")
        if asked.ids and (own := [name for name in asked.ids if name.startswith("A")]):
            return f"show A{int(own[-1][1:]) + 1}"
        return f"show A{int(shown[0][1:]) + 1}" if shown else "what should I change first?"

    def _with_step(self, text: str) -> Resolved:
        """The question as typed, "that step" replaced by the one step that the last question or answer was about."""
        last = self.turns[-1] if self.turns else None
        known = [str(each) for each in last.steps] if last else []
        known = known or (A_STEP.findall(last.answer)[:1] if last else [])
        if len(known) != 1:
            return Resolved(text, lacking=NO_EARLIER)
        full = THAT_STEP.sub(f"step {known[0]}", text)
        return Resolved(full, note=f"Understood as “{capital(full)}”.")

    def _with_name(self, text: str) -> Resolved:
        """The question as typed, "this kernel" replaced by the name that the last answer was about."""
        names = self.turns[-1].names if self.turns else []
        name = names[0].partition("…")[0] if names else ""
        if len(name) < LEAST_NAME and names:
            name = names[0]
        pattern = THIS_EVENT if THIS_EVENT.search(text.lower()) else WORD_IT if IT.search(text.strip()) else None
        if not name or pattern is None:
            return Resolved(text)
        full = pattern.sub(lambda _: f"`{name}`", text, count=1)
        return Resolved(full, note=f"Understood as “{capital(full)}”.")

    def _about(self) -> str:
        return f"The last one was “{self._last.text}”." if self._last else ""


def turn_of(question: str, answer: Answer, calls: Sequence[ToolCallRecord]) -> Turn:
    """The turn of a question that was answered, with what it was about."""
    asked = read_question(question)
    names = dict.fromkeys((*asked.names, *(name for name in IN_CODE.findall(answer.text) if not NO_NAME.match(name))))
    return Turn(
        question=question,
        answer=answer.text,
        by=answer.by,
        intent=answer.intent,
        ranks=list(asked.ranks),
        steps=list(asked.steps),
        names=list(names)[:NAMES],
        subject=asked.subject.causes[0] if asked.subject else "",
        ids=list(dict.fromkeys(cited_ids(answer.text))),
        calls=list(calls),
        notes=list(answer.notes),
    )


def _placed(last: str, pattern: re.Pattern[str], place: str, link: str) -> str:
    """The last question about another place: its own replaced, else the place added."""
    if not last:
        return ""
    if pattern.search(last):
        return pattern.sub(place, last)
    foreign = in_english(last)
    return f"{(foreign[1] if foreign else last).rstrip(' ?.')}{link}{place}?"

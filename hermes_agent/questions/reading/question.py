"""A question as read: its words, and the ids, ranks, steps, names and causes in it; ``lexicon.yaml`` has the words."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

from pydantic import TypeAdapter

from hermes_agent.model.display import FAMILY_TITLES, cause_title, plain
from tools.documents import parse_yaml
from tools.knowledge.taxonomy import causes, known_mechanism

LIMIT = 2000  # characters read; a longer question is cut
MOST_PLACES = 64  # ranks or steps taken from one question
IDENTIFIER = re.compile(r"\b([EAC])(\d{1,6})\b", re.IGNORECASE)
TO = r"\s*(?:\bto\b|\bthrough\b|-|–|\.{2,3}|:)\s*"
AND = r"\s*(?:,\s*(?:and|or)\b|,|\band\b|\bor\b|\bvs\b|\bversus\b|\bagainst\b|\bwith\b|&)\s*"
# A number belongs to the word before it, and is no place where a unit follows it: "batch 64", "a step of 60 ms".
OWNED = re.compile(
    rf"(?P<owner>(?:loader )?[a-z_]+)[\s#:=-]*(?:from\s+)?(?P<numbers>\d{{1,9}}(?:(?:{TO}|{AND})\d{{1,9}})*)\b"
    r"(?!\s*(?:ns|us|ms|s|seconds?|x|%|percent)(?!\w)|\.\d)"
)
SPAN = re.compile(rf"(\d+)(?:{TO}(\d+))?")
RANK_WORDS = {"rank", "ranks", "gpu", "gpus", "device", "devices", "process", "processes", "worker"}
STEP_WORDS = {"step", "steps", "iteration", "iterations", "iter", "iters"}
# Names of kernels and operators: quoted, with colons, in camel case, or after their kind and before a verb.
NAME = re.compile(
    r"[`\"“]([^`\"“”]{2,200})[`\"”]|([\w<>~]+(?:::[\w<>~]+)+)|\b((?:cuda|cu|hip|nccl|rccl|acl)[A-Z]\w{3,})"
    r"|\b(?:kernels?|operators?|ops?|calls?|functions?)\s+(?:named\s+|called\s+)?(\w+)\s+(?:take|run|cost|last)s?\b"
    r"|(?<![\w.])\.(\w{3,})\b(?:\(\))?"
)
# A question with one of these is English, also where another language has its first word ("Comment on the step time").
ENGLISH = re.compile(
    r"\b(the|is|are|why|how|which|does|should|could|would|my|this|of|it|for|with|to|and|we|you|do|i)\b"
)
# The first word of a question for yes or no about what a job did.
YES_OR_NO = re.compile(r"^(is|are|was|were|did|do|does|has|have|had|any|could|can)\b")
_MORE = r"(?:\s*(?:und|oder|et|ou|y|o|和|与|或)?\s*\b\d{1,7}\b)*"
FOREIGN_RANK = re.compile(rf"(?:ranks?|rangs?|rangos?|gpus?)\s*(\d{{1,7}}{_MORE})|(\d{{1,7}})\s*号?卡")
FOREIGN_STEP = re.compile(
    rf"(?:step|schritt(?:en?)?|pasos?|etapes?|iterations?|iteracion)\s*(\d{{1,9}}{_MORE})|第?\s*(\d{{1,9}})\s*步"
)
FOREIGN_OR = re.compile(r"\boder\b|还是|或者?")
OF_A_PLACE = {  # questions that are said otherwise of one rank or step
    "Why is it slow?": "Why is {} slow?",
    "Where does the time go?": "Break down {}",
    "How long does a step take?": "How long is {}?",
}
COMPARE = "Compare them"
OF_A_STEP = {
    "How much time in the optimizer?",
    "How much time in forward and backward?",
    "Which line of code is slow?",
    "Which layer is slow?",
    "Which kernel takes the most time?",
}
OF_A_RANK = OF_A_STEP | {
    "How much communication overlaps with compute?",
    "What is the GPU utilization in percent?",
    "What is the peak memory?",
    "How long is the device idle?",
}


@dataclass(frozen=True)
class Intent:
    """One kind of question: its line in the help, and its patterns over normalised words."""

    about: str
    patterns: tuple[str, ...]
    unless: tuple[str, ...] = ()
    example: str = ""

    def fits(self, words: str) -> bool:
        """Whether normalised words are a question of this kind."""
        found = any(re.search(pattern, words) for pattern in self.patterns)
        return found and not any(re.search(pattern, words) for pattern in self.unless)


@dataclass(frozen=True)
class Subject:
    """One or several causes a question may mean, ``words`` are its names; ``mechanism`` narrows a single cause."""

    title: str
    causes: tuple[str, ...]
    mechanism: str | None = None
    words: str = field(default="", compare=False)
    broad: bool = field(default=False, compare=False)  # its words also stand in questions about something else


@dataclass(frozen=True)
class Language:
    """Patterns of one language by the English subject, question or words that they stand for."""

    subjects: dict[str, str]
    questions: dict[str, str]
    words: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """An operation as people name it, and parts of the names that kernels and operators have for it."""

    title: str
    words: str
    pieces: tuple[str, ...]
    others: tuple[str, ...] = ()  # parts of names that are of another operation


@dataclass(frozen=True)
class EventKind:
    """Events as people name them: their kind of ``find_events`` and a part of their names."""

    title: str
    words: str
    kind: str
    part: str = ""
    device: bool = False  # there are none on a run without a device


@dataclass(frozen=True)
class Topic:
    """What a figure can be of: ``figures`` has the metrics of it (``part_ms:part=host``) by what is asked.

    ``shown`` are words of an answer about it; ``given`` goes to every metric, as for events of one kind.
    """

    title: str
    words: str
    shown: str
    figures: dict[str, list[str]]
    given: dict[str, str] = field(default_factory=dict)
    device: bool = False


@dataclass(frozen=True)
class Unrecorded:
    """What no source of a run holds, and a sentence with what to record or where to look."""

    words: str
    text: str
    checks: tuple[str, ...] = ()  # which may have found it after all
    from_log: str = ""  # the sentence where the run's own output was read
    found_too: str = ""  # the sentence after what checks found


@dataclass(frozen=True)
class Narrowing:
    """Words that narrow a question, and those that an answer to it has."""

    title: str
    words: str
    shown: str


@dataclass(frozen=True)
class Term:
    """A word of the field that is no cause, and what it means in the answers."""

    words: str
    text: str


@dataclass(frozen=True)
class Lexicon:
    """Words by which questions are understood, and fixed texts of answers."""

    intents: dict[str, Intent]
    subjects: tuple[Subject, ...]
    languages: dict[str, Language]
    texts: dict[str, str]
    operations: tuple[Operation, ...]
    event_kinds: tuple[EventKind, ...]
    topics: tuple[Topic, ...]
    narrowing: tuple[Narrowing, ...]
    unrecorded: tuple[Unrecorded, ...]
    terms: tuple[Term, ...]
    spelling: str
    english: str


@dataclass(frozen=True)
class Question:
    """One question; ``words`` is lower case with single spaces and nothing but letters and digits."""

    text: str
    words: str
    ids: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # of kernels or operators, as typed
    subject: Subject | None = None
    subjects: tuple[Subject, ...] = ()  # all of them, in the order they are named
    page: int = 0  # which page of its rows, from 0


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """``lexicon.yaml``, read once."""
    text = files("hermes_agent.questions.reading").joinpath("lexicon.yaml").read_text(encoding="utf-8")
    return TypeAdapter(Lexicon).validate_python(parse_yaml(text))


def wording(name: str) -> str:
    """A fixed text of the answers."""
    return lexicon().texts[name]


def read_question(text: str, page: int = 0) -> Question:
    """The question with everything that can be recognised in it."""
    kept = text[:LIMIT].strip()
    words = normalised(kept)
    return Question(
        kept,
        words,
        ids=tuple(f"{match[1].upper()}{int(match[2])}" for match in IDENTIFIER.finditer(kept)),
        ranks=_places(kept.lower(), RANK_WORDS),
        steps=_places(kept.lower(), STEP_WORDS),
        names=tuple(dict.fromkeys(next(filter(None, match.groups())) for match in NAME.finditer(kept))),
        subject=subject_of(words),
        subjects=subjects_of(words),
        page=page,
    )


def _places(text: str, owners: set[str]) -> tuple[int, ...]:
    """The numbers of all lists (``5 and 9``) and ranges (``5 to 9``) that belong to one of the words, each once."""
    numbers: dict[int, None] = {}
    for match in OWNED.finditer(text):
        for first, last in SPAN.findall(match["numbers"] if match["owner"] in owners else ""):
            low, high = sorted((int(first), int(last or first)))
            numbers.update(dict.fromkeys(range(low, min(high, low + MOST_PLACES) + 1)))
    return tuple(numbers)[:MOST_PLACES]


def normalised(text: str) -> str:
    """Lower case, letters and digits only, single spaces; apostrophes close up (``isnt``)."""
    closed = re.sub(r"['’]", "", text.lower())
    return " ".join(re.sub(r"[^a-z0-9]+", " ", closed).split())


def subject_of(words: str) -> Subject | None:
    """The subject of normalised words: the longest name in them; of equal ones a cause before a synonym."""
    return next((subject for *_, subject in _mentions(words)), None)


def subjects_of(words: str) -> tuple[Subject, ...]:
    """All subjects of normalised words in their order; of names that overlap the longest, as in ``subject_of``."""
    taken: list[tuple[int, int, Subject]] = []
    for begin, end, subject in _mentions(words):
        if all(end <= start or stop <= begin for start, stop, _ in taken):
            taken.append((begin, end, subject))
    return tuple(dict.fromkeys(subject for _, _, subject in sorted(taken, key=lambda each: each[0])))


def _mentions(words: str) -> list[tuple[int, int, Subject]]:
    """Every name in the words with its place; the longest first, of equal ones a cause before a synonym."""
    found = [(*match.span(), subject) for pattern, subject in _names() for match in pattern.finditer(words)]
    return sorted(found, key=lambda each: each[0] - each[1])


@lru_cache(maxsize=1)
def _names() -> tuple[tuple[re.Pattern[str], Subject], ...]:
    rows: list[tuple[str, Subject]] = []
    for cause in causes().values():
        for mechanism in (None, *(each for each in cause.mechanisms if known_mechanism(each))):
            title = cause_title(cause.id, mechanism)
            spelt = re.sub(r"[^a-z0-9]+", " ?", title.lower())
            rows.append((f"{_spelt(mechanism or cause.id)}|{spelt}", Subject(title, (cause.id,), mechanism)))
    rows.extend((each.words, each) for each in lexicon().subjects)
    for family, title in FAMILY_TITLES.items():
        members = tuple(cause.id for cause in causes().values() if cause.family == family)
        rows.append((f"{_spelt(family)}|{title}", Subject(title, members)))
    return tuple((re.compile(rf"\b(?:{pattern})\b"), subject) for pattern, subject in rows)


def _spelt(identifier: str) -> str:
    return plain(identifier).replace(" ", " ?") + "s?"


def in_english(text: str) -> tuple[str, str] | None:
    """Language and English form of a question in another language; None when it is not known to be one."""
    words, languages = folded(text[:LIMIT]), lexicon().languages
    if words.isascii() and ENGLISH.search(words):
        return None
    for question in next(iter(languages.values())).questions:
        for name, language in languages.items():
            subjects = "|".join(language.subjects.values())
            if _search(name, language.questions[question].replace("{s}", subjects), words):
                english = question.replace("{subject}", _subjects_named(name, language, words))
                return name, _placed(english, words)
    return None


def _subjects_named(name: str, language: Language, words: str) -> str:
    """The English subject of a question in another language; of alternatives all, in their order."""
    pieces = FOREIGN_OR.split(words)
    found = [
        next((subject for subject, pattern in language.subjects.items() if _search(name, pattern, piece)), "")
        for piece in pieces
    ]
    if len(pieces) > 1 and all(found):
        return " or ".join(dict.fromkeys(found))
    known = (subject for subject, pattern in language.subjects.items() if _search(name, pattern, words))
    return next(known, "the first cause")


def folded(text: str) -> str:
    """Lower case without accents, punctuation as blanks, single blanks; other scripts are kept."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join(re.sub(r"[^\w]+|_", " ", bare).split())


def _search(language: str, pattern: str, words: str) -> bool:
    """Chinese has no blanks between words, and letters of its own; elsewhere a name begins and ends with a word."""
    if language == "Chinese":
        return not words.isascii() and bool(re.search(pattern, words))
    return bool(re.search(rf"\b(?:{pattern})\b", words))


def _placed(question: str, words: str) -> str:
    """The question about the ranks and the steps that were named, as far as it can be about some."""
    ranks = [f"rank {each}" for each in _foreign(FOREIGN_RANK, words)]
    steps = [f"step {each}" for each in _foreign(FOREIGN_STEP, words)]
    where = [*(ranks if question in OF_A_RANK else []), *(steps if question in OF_A_STEP else [])]
    if where:
        return f"{question.rstrip('?')} on {' and '.join(where)}?"
    if question == COMPARE and (two := (steps if len(steps) > 1 else ranks)[:2]):
        return f"Compare {' with '.join(two)}"
    if not (where := ranks + steps) or question not in OF_A_PLACE:
        return question
    place = " ".join(where) if question == "Where does the time go?" else where[0]
    step_of = "a step of " if ranks and question == "How long does a step take?" else ""
    return OF_A_PLACE[question].format(step_of + place)


def left_out(text: str, question: Question) -> str:
    """A sentence with the ranks and steps that a question in another language names and its English form does not."""
    words = folded(text[:LIMIT])
    ranks = [f"rank {each}" for each in _foreign(FOREIGN_RANK, words) if each not in question.ranks]
    steps = [f"step {each}" for each in _foreign(FOREIGN_STEP, words) if each not in question.steps]
    return f"It is not about {' or '.join(ranks + steps)} alone." if ranks or steps else ""


def of_all_steps(question: Question) -> str:
    """A sentence for an answer that is of all steps although some were named; empty where none was."""
    return f"Of all recorded steps, not of {_named('step', question.steps)} alone:" if question.steps else ""


def of_all_ranks(question: Question) -> str:
    """The same for ranks."""
    return f"Of all recorded ranks, not of {_named('rank', question.ranks)} alone:" if question.ranks else ""


def _named(noun: str, numbers: tuple[int, ...]) -> str:
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _foreign(pattern: re.Pattern[str], words: str) -> list[int]:
    """The numbers of the places that folded words name, each once."""
    found = (number for match in pattern.findall(words) for number in re.findall(r"\d+", "".join(match)))
    return list(dict.fromkeys(int(number) for number in found))[:MOST_PLACES]

"""The closed vocabulary between slots, and what a figure or a cause is about in its groups of words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from hermes_agent.model.diagnosis import EvidenceRecord
from tools.judgement.catalog import metrics
from tools.knowledge.taxonomy import causes

# What is not known is refused, in any language, script or spelling: the list of what is allowed is short and complete,
# a list of what is forbidden never is.


# Typographic marks that models write for plain ones; every other character outside of ASCII is refused.
TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u2011": "-", "\u00a0": " "})
FORBIDDEN = re.compile(r"[^A-Za-z ,.;:?!'\"()/-]")
JOINED = re.compile(r"[.:?!][^\s\"')]|//|/(?![a-z])|(?<![A-Za-z])/", re.IGNORECASE)  # an address, a path, a ratio
# Figures and comparisons that are made of ordinary words.
IN_WORDS = re.compile(
    r"\bas (?:long|short|much|often|slow|small|heavy) as\b|\bsame (?:amount|share|value|as)\b|(?<!at the )\bsame time\b"
    r"|\b(?:first|last|final|next|previous|initial|second|former|latter) "
    r"(?:rank|step|iteration|node|device|gpu|accelerator|machine)s?\b"
)
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
ENDINGS = ("s", "es", "d", "ed", "ing", "ly", "'s")
SHORTEST_STEM = 3
REASONS = {
    "figure": "{word!r} is a figure in words; use the slot of an id",
    "claim": "{word!r} blames or clears something; a statement of kind cause does that by its fields",
    "negation": "{word!r} denies something; a statement of kind cause does that with claim absent or open",
    "comparison": "{word!r} compares; write the slot {{than}} in a statement of kind comparison",
}

OF_PREDICTION = ("predicted", "joint")
OF_SAVING = (*OF_PREDICTION, "saving", "impact", "cost")


@dataclass(frozen=True)
class Vocabulary:
    """The lists of ``vocabulary.toml``; ``groups`` are words of subjects and of kinds of figures, by group."""

    plain: frozenset[str]
    phrases: re.Pattern[str]
    groups: Mapping[str, frozenset[str]]
    figure_groups: frozenset[str]
    judgement: frozenset[str]
    action: frozenset[str]
    imperative: frozenset[str]
    refused: Mapping[str, str]  # word -> reason
    metrics: Mapping[str, frozenset[str]]  # part of a metric's name -> subjects
    values: Mapping[str, frozenset[str]]  # value of a metric's argument -> subjects
    families: Mapping[str, frozenset[str]]
    causes: Mapping[str, frozenset[str]]


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """The lists, read once."""
    table = tomllib.loads(files("hermes_agent.statements").joinpath("vocabulary.toml").read_text(encoding="utf-8"))

    def sets(name: str) -> dict[str, frozenset[str]]:
        return {key: frozenset(words.split()) for key, words in table[name].items()}

    return Vocabulary(
        plain=frozenset(table["plain"].split()),
        phrases=re.compile("|".join(rf"(?<![a-z]){re.escape(each)}(?![a-z])" for each in table["phrases"])),
        groups={**sets("figures_of"), **sets("subjects")},
        figure_groups=frozenset(table["figures_of"]),
        judgement=frozenset(table["judgement"]["words"].split()),
        action=frozenset(table["action"]["words"].split()),
        imperative=frozenset(table["imperative"]["words"].split()),
        refused={word: reason for reason, words in sets("refused").items() for word in words},
        metrics=sets("metrics"),
        values=sets("values"),
        families=sets("families"),
        causes=sets("causes"),
    )


def plain_text(text: str) -> str:
    """The text with plain quotes, dashes and blanks."""
    return text.translate(TYPOGRAPHY).strip()


def words_of(text: str) -> list[str]:
    """The words of a stretch of text, lower case, without the phrases that are allowed as a whole."""
    return WORD.findall(vocabulary().phrases.sub(" ", text.lower().replace("-", " ")))


def groups_of(words: list[str]) -> dict[str, frozenset[str]]:
    """The groups of each word that belongs to some, by word: those that list it, else those that list its stem."""
    found = {}
    for word in words:
        listed = frozenset(name for name, group in vocabulary().groups.items() if word in group)
        found[word] = listed or frozenset(name for name, group in vocabulary().groups.items() if _in(word, group))
    return {word: groups for word, groups in found.items() if groups}


def judging(words: list[str], advising: bool) -> list[str]:
    """The words that judge, and those that call for action unless it is advice."""
    lists = vocabulary()
    return [word for word in words if _in(word, lists.judgement if advising else lists.judgement | lists.action)]


def commands_of(text: str) -> list[str]:
    """The words of a text that tell a reader to do something, in the form that commands have."""
    return [word for word in words_of(text) if word in vocabulary().imperative]


def faults_of_wording(text: str) -> Iterator[str]:
    """Yield what is wrong with the characters and words of a stretch of free text."""
    if odd := FORBIDDEN.search(text):
        mark = odd.group()
        what = "a digit" if mark.isnumeric() else f"the character U+{ord(mark):04X}"
        yield f"{what} stands in the text; write plain English words, and slots for figures, ranks, steps and names"
        return
    if JOINED.search(text):
        yield "addresses, paths, ratios and markup are not allowed"
    if said := IN_WORDS.search(" ".join(text.lower().replace("-", " ").split())):
        yield f"{said.group()!r} is a figure or a comparison in words; use slots"
    known = vocabulary()
    for word in words_of(text):
        if (reason := known.refused.get(word.removesuffix("'s"))) is not None:
            yield REASONS[reason].format(word=word)
        elif not _in(word, known.plain | known.judgement | known.action) and not groups_of([word]):
            yield f"the word {word!r} is not in the vocabulary; use a plainer word"


def _in(word: str, known: frozenset[str]) -> bool:
    """Return whether the word, or its stem with a regular ending, is known."""
    return word in known or any(stem in known for stem in _stems(word))


@lru_cache(maxsize=4096)
def _stems(word: str) -> tuple[str, ...]:
    cut = [word.removesuffix(ending) for ending in ENDINGS if word.endswith(ending)]
    cut += [f"{stem}e" for stem in cut] + [stem[:-1] for stem in cut if stem[-1:] == stem[-2:-1]]
    cut += [f"{word.removesuffix(end)}y" for end in ("ies", "ied") if word.endswith(end)]
    return tuple(stem for stem in cut if len(stem) >= SHORTEST_STEM)


def subjects_of_cause(name: str | None) -> frozenset[str]:
    """The subjects of a cause, ``slow_link`` or ``operator_dispatch:small_operators``; none for an unknown one."""
    cause, _, mechanism = (name or "").partition(":")
    if (known := causes().get(cause)) is None:
        return frozenset()
    lists = vocabulary()
    own = lists.causes.get(cause, frozenset()) | lists.families[known.family]
    return own | _subjects(f"{cause} {mechanism}")


def subjects_of_figure(record: EvidenceRecord) -> frozenset[str]:
    """The subjects of a figure; none where it is about the step as a whole."""
    if isinstance(cause := record.arguments.get("cause"), str):
        return subjects_of_cause(cause)
    values = tuple(str(value) for value in record.arguments.values() if isinstance(value, str))
    return _of_metric(record.metric, values)


def kinds_of_figure(record: EvidenceRecord) -> frozenset[str]:
    """The groups of ``figures_of`` whose words may stand with the figure."""
    statistic = record.arguments.get("statistic")
    kinds = {"cost"}
    if any(part in record.metric for part in OF_SAVING):
        kinds |= {"saving", "predicted"}
    if record.unit == "x" and "speedup" in record.metric and record.value != 1.0:
        kinds.add("faster" if record.value > 1.0 else "slower")
    if statistic in (None, "mean"):
        kinds.add("mean")
    if statistic == "median" or (statistic is None and record.metric == "step_time_ms"):
        kinds.add("median")
    if statistic == "max" or "longest" in record.metric:
        kinds.add("maximum")
    return frozenset(kinds)


def is_predicted(record: EvidenceRecord) -> bool:
    """Return whether the figure was predicted, not measured."""
    return any(part in record.metric for part in OF_PREDICTION)


def is_predicted_time(record: EvidenceRecord) -> bool:
    """Return whether the figure is what a step would take."""
    return is_predicted(record) and record.unit == "ms"


def is_saving(record: EvidenceRecord) -> bool:
    """Return whether the figure is what a step loses to something, or would save."""
    return not is_predicted(record) and any(part in record.metric for part in OF_SAVING)


@lru_cache(maxsize=4096)
def _of_metric(metric: str, values: tuple[str, ...]) -> frozenset[str]:
    lists = vocabulary()
    named = [part for part in lists.metrics if part in metric]
    own = lists.metrics[max(named, key=len)] if named else _subjects(metric)
    own |= frozenset().union(*(lists.values.get(value, _subjects(value)) for value in values))
    if not own and not named and (known := metrics().get(metric)) is not None and not metric.startswith("step"):
        own = _subjects(known.question)
    return own


def _subjects(text: str) -> frozenset[str]:
    groups = groups_of(text.lower().replace("_", " ").replace(":", " ").replace(".", " ").split()).values()
    return frozenset().union(*groups) - vocabulary().figure_groups

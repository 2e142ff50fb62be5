"""Questions in other words than the cases: about one case each, and the lines of what people ask, in folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import yaml
from pydantic import BaseModel, ConfigDict

from case_library.retrieval.asked import NO_CAUSE, CauseReader
from case_library.retrieval.fusion import Weights
from case_library.retrieval.query import CaseQuery
from case_library.retrieval.ranker import CaseRanker
from evals.retrieval.asking import ABLATIONS, SHOWN, TOP, Library, Outcome, ask

FOLDER = Path(__file__).parent
WRITTEN = {
    "development": "case_paraphrases_seen.yaml",
    "unseen": "case_paraphrases.yaml",
    "later": "case_paraphrases_later.yaml",
    "blind": "case_paraphrases_blind.yaml",
    "fresh": "case_paraphrases_fresh.yaml",  # of a hand that has seen none of the lines, once it is written
}
SETS = {name: file for name, file in WRITTEN.items() if (FOLDER / file).is_file()}


class Paraphrase(BaseModel):
    """A question whose answer is the case of an id; ``kind`` says who asks it and how."""

    model_config = ConfigDict(extra="forbid", strict=True)

    case: str
    text: str
    kind: str = ""


class ParaphraseSet(BaseModel):
    """Questions about cases, and questions that no case answers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    questions: list[Paraphrase]
    off_topic: list[str]


@dataclass(frozen=True)
class Paraphrased:
    """Shares of a set: with a case of the right cause in first place and among the first three, and the case itself.

    ``case_top`` is None where a question is about a cause and no single case. ``outcomes`` are those of its questions,
    ``off_topic_abstained`` is a share of the questions that no case answers.
    """

    first: float
    top: float
    case_top: float | None
    outcomes: Sequence[Outcome]
    off_topic_abstained: float


def load_paraphrases(name: str) -> ParaphraseSet:
    """The set of a name in ``SETS``."""
    return ParaphraseSet.model_validate(yaml.safe_load((FOLDER / SETS[name]).read_text(encoding="utf-8")))


def ask_set(
    library: Library, asked: ParaphraseSet, ablations: Mapping[str, Weights] = ABLATIONS
) -> Mapping[str, Paraphrased]:
    """The figures of a set under each ablation, all cases in the library."""
    causes = {case.id: case.cause for case in library.cases}
    rankers = zip(ablations, library.without("", *ablations.values()), strict=True)
    return {name: _asked(ranker, asked, causes) for name, ranker in rankers}


FOLDS = 5
OF_LINES = ("all", "questions only", "without questions")


def ask_lines(library: Library, asked: Mapping[str, Sequence[str]]) -> Mapping[str, Paraphrased]:
    """The figures of lines by cause, those of each fold asked with a reader that was fitted on the others.

    A fold is a stretch of each cause, so that lines of one language or mechanism are mostly in the same.
    """
    [base] = library.without("", Weights())
    outcomes: dict[str, list[Outcome]] = {name: [] for name in OF_LINES}
    for fold in range(FOLDS):
        others = {cause: [line for line, of in _folds(lines) if of != fold] for cause, lines in asked.items()}
        ranker = base.reading(CauseReader.fit(others))
        for name in OF_LINES:
            weighed = ranker.weighed(ABLATIONS[name])
            outcomes[name] += [
                ask(weighed, CaseQuery(text=line), cause.replace(NO_CAUSE, ""))
                for cause, lines in asked.items()
                for line, of in _folds(lines)
                if of == fold
            ]
    return {name: _of_lines(each) for name, each in outcomes.items()}


def _folds(lines: Sequence[str]) -> list[tuple[str, int]]:
    return [(line, place * FOLDS // len(lines)) for place, line in enumerate(lines)]


def _of_lines(outcomes: Sequence[Outcome]) -> Paraphrased:
    inside = [outcome for outcome in outcomes if outcome.cause]
    return Paraphrased(
        first=fmean(outcome.place == 1 for outcome in inside),
        top=fmean(outcome.found for outcome in inside),
        case_top=None,
        outcomes=inside,
        off_topic_abstained=fmean(outcome.abstained for outcome in outcomes if not outcome.cause),
    )


def _asked(ranker: CaseRanker, asked: ParaphraseSet, causes: Mapping[str, str]) -> Paraphrased:
    outcomes = [ask(ranker, CaseQuery(text=each.text), causes[each.case]) for each in asked.questions]
    return Paraphrased(
        first=fmean(outcome.place == 1 for outcome in outcomes),
        top=fmean(outcome.found for outcome in outcomes),
        case_top=fmean(each.case in _ids(ranker, each.text)[:TOP] for each in asked.questions),
        outcomes=outcomes,
        off_topic_abstained=fmean(not _ids(ranker, text) for text in asked.off_topic),
    )


def _ids(ranker: CaseRanker, text: str) -> list[str]:
    return [hit.id for hit in ranker.answer(CaseQuery(text=text), SHOWN).hits]

"""All askings of one measurement: every case left out once, every user question, under all weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from case_library.fusion import Weights
from case_library.query import CaseQuery
from evals.retrieval.asking import WAYS, Outcome, ask, by_signals, by_symptom, by_text, forced_place
from evals.retrieval.library import Library
from evals.retrieval.questions import UserQuestion

ABLATIONS: Mapping[str, Weights] = {
    "all": Weights(),
    "words only": Weights(vector=0, votes=0, signature=0),
    "vector only": Weights(words=0, votes=0, signature=0),
    "votes only": Weights(words=0, vector=0, signature=0),
    "without words": Weights(words=0),
    "without vector": Weights(vector=0),
    "without votes": Weights(votes=0),
    "without signature": Weights(signature=0),
    "without one case of each cause in front": Weights(spread=False),
}


@dataclass(frozen=True)
class Asked:
    """Outcomes of cases by way and of questions by half; places without abstention by ablation and set."""

    cases: Mapping[str, Sequence[Outcome]]
    questions: Mapping[str, Sequence[Outcome]]
    ablations: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


def ask_all(library: Library, questions: Sequence[UserQuestion]) -> Asked:
    """Ask everything; a case asks rankers that never saw it."""
    ways: defaultdict[str, list[Outcome]] = defaultdict(list)
    places: dict[str, defaultdict[str, list[int]]] = {name: defaultdict(list) for name in ABLATIONS}
    for case in library.cases:
        rankers = dict(zip(ABLATIONS, library.without(case.id, *ABLATIONS.values()), strict=True))
        for way, query_of in WAYS.items():
            ways[way].append(ask(rankers["all"], query_of(case), case.cause))
        for name, ranker in rankers.items():
            places[name]["symptom alone"].append(forced_place(ranker, by_symptom(case), case.cause))
            places[name]["title and symptom"].append(forced_place(ranker, by_text(case), case.cause))
            places[name]["family and signals"].append(forced_place(ranker, by_signals(case), case.cause))
    rankers = dict(zip(ABLATIONS, library.without("", *ABLATIONS.values()), strict=True))
    halves: defaultdict[str, list[Outcome]] = defaultdict(list)
    for question in questions:
        query = CaseQuery(text=question.text)
        halves[question.half].append(ask(rankers["all"], query, question.cause))
        if question.cause:
            for name, ranker in rankers.items():
                places[name]["user questions"].append(forced_place(ranker, query, question.cause))
    return Asked(ways, halves, places)

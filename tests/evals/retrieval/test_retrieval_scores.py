"""Figures from outcomes, worked out by hand, and the library that forgets a case."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from case_library.library import load_cases
from case_library.retrieval.external_embeddings import MiniLmEmbedding
from case_library.retrieval.fusion import Weights
from case_library.retrieval.query import CaseQuery
from evals.retrieval.asking import (
    ABLATIONS,
    WAYS,
    Library,
    Outcome,
    ask,
    ask_all,
    by_candidates,
    by_masked_symptom,
)
from evals.retrieval.cost import Timing, enlarge
from evals.retrieval.questions import UserQuestion
from evals.retrieval.report import abstaining, found, interval, report
from tests.case_library.small_library import write_small_library
from tests.case_library.toy_weights import toy_weights

FIRST = Outcome("a", place=1, forced=1, abstained=False)
FOURTH = Outcome("a", place=4, forced=4, abstained=False)
SILENT = Outcome("a", place=0, forced=2, abstained=True)
LOST = Outcome("a", place=0, forced=0, abstained=True)
OUTSIDE = Outcome("", place=0, forced=0, abstained=True)
ANSWERED = Outcome("", place=0, forced=0, abstained=False)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(load_cases(write_small_library(tmp_path_factory.mktemp("cases"))))


def test_an_abstention_is_a_miss_and_forced_tells_what_it_hid() -> None:
    figures = found([FIRST, FOURTH, SILENT, LOST])
    assert figures.recall == 0.25
    assert figures.reciprocal == pytest.approx((1 + 0.25) / 4)
    assert figures.abstained == 0.5
    assert figures.forced == 0.5
    assert figures.in_vain == 0.5
    assert math.isnan(found([FIRST]).in_vain)


def test_abstention_is_judged_by_scope() -> None:
    figures = abstaining([FIRST, SILENT, OUTSIDE, OUTSIDE, ANSWERED])
    assert (figures.in_scope, figures.out_of_scope) == (2, 3)
    assert figures.precision == pytest.approx(2 / 3)
    assert figures.recall == pytest.approx(2 / 3)


def test_a_case_left_out_leaves_no_trace_in_rarity_vectors_or_votes(library: Library, tmp_path: Path) -> None:
    write_small_library(tmp_path)
    (tmp_path / "moe-hot-expert.yaml").unlink()
    never_there = Library(load_cases(tmp_path)).without("", Weights())[0]
    forgetting = library.without("moe-hot-expert", Weights())[0]
    for text in ("one hot expert holds up the all-to-all", "loss.item() every step", "cudaStreamSynchronize"):
        query = CaseQuery(text=text)
        assert forgetting.answer(query, 10) == never_there.answer(query, 10)
        assert forgetting.strength(query) == never_there.strength(query)
    query = CaseQuery(text="one hot expert")
    assert library.without("", Weights())[0].answer(query, 10) != forgetting.answer(query, 10)


def test_the_place_of_the_cause_is_counted_from_one(library: Library) -> None:
    ranker = library.without("", Weights())[0]
    query = CaseQuery(text="garbage collection pauses the rank")
    assert ask(ranker, query, "garbage_collection") == Outcome("garbage_collection", 1, 1, False)
    assert ask(ranker, CaseQuery(text="bake bread"), "garbage_collection").abstained


def test_candidates_hold_the_right_cause_and_two_others(library: Library) -> None:
    case = library.cases[0]
    query = by_candidates(case)
    assert case.cause in query.causes
    assert len(set(query.causes)) == 3
    assert query.text == ""
    assert WAYS["symptom alone"](case).causes == ()


def test_a_masked_symptom_lacks_the_words_of_the_causes_name_in_any_form(library: Library) -> None:
    case = library.cases[0].model_copy(
        update={
            "cause": "garbage_collection",
            "family": "cpu",
            "mechanism": None,
            "symptom": "Garbage is collected while the CPU-bound rank stalls; gc.collect() pauses 1.2 s.",
        }
    )
    assert by_masked_symptom(case).text == "is while the rank stalls; pauses 1.2 s."


def test_other_weights_measured_beside_the_default_get_a_table(library: Library, tmp_path: Path) -> None:
    other = Library(library.cases, MiniLmEmbedding(toy_weights(tmp_path / "weights")))
    questions = [UserQuestion("garbage collection pauses", "garbage_collection", "development")]
    asked, compared = ask_all(library, questions), ask_all(other, questions)
    text = report(asked, [], "a command", compared)
    assert text.count("\n| MiniLM |") == text.count("\n| hashed |") == 3
    assert asked.ablations["vector only"] != compared.ablations["vector only"]
    assert asked.ablations["without vector"] == compared.ablations["without vector"]


def test_the_report_has_a_row_for_every_way_half_ranker_and_cause(library: Library) -> None:
    questions = [
        UserQuestion("garbage collection pauses", "garbage_collection", "development"),
        UserQuestion("NET/Socket in the nccl log", "network_configuration", "held out"),
        UserQuestion("bake bread", "", "held out"),
        UserQuestion("boil an egg", "", "later"),
    ]
    text = report(ask_all(library, questions), [Timing(9, 1.5, 0.5, 2.0, 30.0, 100.0)], "a command")
    assert "9 cases of 6 causes. Command: `a command`." in text
    assert all(f"\n| {name} |" in text for name in ABLATIONS)
    assert "| development | 0.85 | 1 | 1.000 | 1.000 | 0% | 1.000 |" in text
    assert "| later | 0 | 1 | 1.000 | 0.90 | - |" in text
    assert "| 9 | 1.50 | 0.50 | 2.0 | 30 | 100 |" in text
    assert "| `operator_dispatch` |" in text
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 6
    assert all(len({row.count("|") for row in table if row.startswith("|")}) == 1 for table in tables)


def test_an_enlarged_library_is_valid_and_as_large_as_asked(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    write_small_library(source)
    enlarge(target, 20, source)
    cases = load_cases(target)
    assert len(cases) == 20
    assert len({tuple(case.signals) for case in cases}) == 20


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert interval(21 / 40, 40) == pytest.approx((0.375, 0.671), abs=1e-3)
    assert interval(1.0, 10)[0] == pytest.approx(10 / (10 + 1.959964**2), abs=1e-6)

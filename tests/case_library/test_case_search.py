"""What a search answers and how it explains it, on a library of made-up cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from case_library.library import CaseError
from case_library.retrieval.recall import CaseIndex, CaseQuery
from tests.case_library.small_library import SMALL, write_small_library


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseIndex]:
    folder = write_small_library(tmp_path_factory.mktemp("cases"))
    with CaseIndex.open(folder) as opened:
        yield opened


def test_a_cause_alone_brings_only_cases_of_that_cause(index: CaseIndex) -> None:
    recall = index.search(CaseQuery(causes=("slow_data_processing",)))
    assert {hit.id for hit in recall.hits} == {"loader-workers", "loader-transform"}
    assert {hit.similarity for hit in recall.hits} == {0.8}
    assert recall.abstained == ""


def test_mechanisms_order_same_unstated_other(index: CaseIndex) -> None:
    hits = index.search(CaseQuery(causes=("operator_dispatch",), mechanisms=("host_synchronization",))).hits
    assert [hit.similarity for hit in hits] == [1.0, 1.0, 0.7]
    assert hits[2].id == "tiny-kernels"
    assert hits[2].why.startswith("same cause operator_dispatch, its mechanism is not stated; ")
    assert "ranked signature 3" in hits[2].why
    other = index.search(CaseQuery(causes=("slow_data_processing",), mechanisms=("compressed_format",))).hits
    assert [hit.similarity for hit in other] == [0.6, 0.6]


def test_a_contradicted_mechanism_and_another_maker_are_conflicts(index: CaseIndex) -> None:
    query = CaseQuery(causes=("slow_data_processing",), mechanisms=("too_few_workers",), hardware="Ascend 910B")
    first, second = index.search(query).hits
    assert first.id == "loader-workers"
    assert first.conflicts == ("on NVIDIA, not Ascend",)
    assert second.conflicts == ("another mechanism, heavy_transform", "on NVIDIA, not Ascend")


def test_free_text_finds_the_case_and_names_the_words(index: CaseIndex) -> None:
    hit = index.search(CaseQuery(text="GPU idle while DataLoader with num_workers=0")).hits[0]
    assert hit.id == "loader-workers"
    assert "num_workers" in hit.why
    assert hit.conflicts == ()


def test_a_misspelt_question_and_one_in_german_find_the_same_case(index: CaseIndex) -> None:
    for text in ("garbage colection pauses", "GPU wartet auf Daten, der Datenlader hat zu wenige Prozesse"):
        assert index.search(CaseQuery(text=text)).hits != ()
    assert index.search(CaseQuery(text="garbage colection pauses")).hits[0].id == "gc-pauses"


def test_other_words_for_the_same_thing_meet(index: CaseIndex) -> None:
    assert index.search(CaseQuery(text="mixture of experts: a2a waits for the busiest")).hits[0].id == "moe-hot-expert"
    assert index.search(CaseQuery(text="每一步都有垃圾回收卡顿")).hits[0].id == "gc-pauses"


def test_a_query_with_the_words_of_a_signal_shows_it_as_shared(index: CaseIndex) -> None:
    hit = index.search(CaseQuery(signals=("cudaStreamSynchronize 40-50 ms every step",))).hits[0]
    assert hit.id == "item-sync"
    assert hit.shared_signals == ("cudaStreamSynchronize 40-50 ms every step",)
    assert hit.url == "https://github.com/example/item-sync/issues/1"
    assert "cudaStreamSynchronize" in hit.why


def test_a_question_about_something_else_is_abstained_on_with_the_reason(index: CaseIndex) -> None:
    recall = index.search(CaseQuery(text="how do I bake bread"))
    assert recall.hits == ()
    assert recall.abstained == "No case is close: the best reaches a similarity of 0.00, and 0.40 is needed."
    named = index.search(CaseQuery(text="validation accuracy after 700 steps"))
    assert named.hits == ()
    assert named.abstained.endswith("is needed; the question seems to be about model quality.")


@pytest.mark.parametrize(
    "query",
    [CaseQuery(), CaseQuery(text="  ?! 12 "), CaseQuery(text="why is it so slow"), CaseQuery(framework="pytorch")],
)
def test_a_query_that_says_nothing_is_abstained_on(index: CaseIndex, query: CaseQuery) -> None:
    recall = index.search(query)
    assert recall.hits == ()
    assert recall.abstained == "The question names no symptom, signal or cause to compare with."


def test_a_cause_of_which_no_case_is_left_is_abstained_on(index: CaseIndex) -> None:
    assert index.search(CaseQuery(causes=("moe_imbalance",))).hits[0].id == "moe-hot-expert"
    recall = index.search(CaseQuery(causes=("moe_imbalance",)), without={"moe-hot-expert"})
    assert recall.hits == ()
    assert recall.abstained.startswith("No case is close: the best reaches a similarity of 0.25")


def test_with_every_case_left_out_nothing_is_answered(index: CaseIndex) -> None:
    for query in (CaseQuery(text="loss.item() every step"), CaseQuery(causes=("operator_dispatch",))):
        assert index.search(query, without=set(SMALL)).hits == ()


def test_a_case_left_out_never_comes_back(index: CaseIndex) -> None:
    query = CaseQuery(text="loss.item() synchronizes in every step")
    assert index.search(query).hits[0].id == "item-sync"
    assert "item-sync" not in {hit.id for hit in index.search(query, limit=200, without={"item-sync"}).hits}


def test_the_best_case_of_each_of_three_causes_stands_in_front_of_a_text_without_a_cause(index: CaseIndex) -> None:
    hits = index.search(CaseQuery(families=("io",), signals=("worker", "mount", "reads")), limit=3).hits
    assert {hit.cause for hit in hits[:2]} == {"slow_data_processing", "slow_data_reading"}
    causes = [hit.cause for hit in index.search(CaseQuery(causes=("slow_data_processing",), text="worker")).hits]
    assert causes == ["slow_data_processing"] * 2


def test_with_a_cause_the_limit_holds_and_hits_come_by_falling_similarity(index: CaseIndex) -> None:
    query = CaseQuery(causes=("operator_dispatch", "network_configuration"), text="GPUDirect RDMA disabled in NCCL log")
    hits = index.search(query, limit=4).hits
    assert len(hits) == 4
    assert hits[0].id == "socket-fallback"
    similarities = [hit.similarity for hit in hits]
    assert similarities == sorted(similarities, reverse=True)
    assert all(0.0 <= similarity <= 1.0 for similarity in similarities)
    assert index.search(query, limit=2).hits == hits[:2]
    assert index.search(query, limit=0).hits == ()


def test_the_framework_orders_cases_that_are_otherwise_equal(index: CaseIndex) -> None:
    plain = index.search(CaseQuery(families=("cpu",)), limit=9).hits
    by_framework = index.search(CaseQuery(families=("cpu",), framework="jax"), limit=9).hits
    assert {hit.id for hit in plain} == {hit.id for hit in by_framework}
    assert len(plain) == 4
    assert by_framework[0].id == "gc-pauses"


def test_the_whole_case_is_read_by_its_id(index: CaseIndex) -> None:
    case = index.case("item-sync")
    assert case.source.number is None
    assert case.mechanism == "host_synchronization"


@pytest.mark.parametrize("id", ["unheard-of", "../cases/item-sync", ""])
def test_an_id_that_is_not_there_is_refused(index: CaseIndex, id: str) -> None:
    with pytest.raises(CaseError, match="There is no case"):
        index.case(id)


def test_a_very_long_text_is_cut_and_answered(index: CaseIndex) -> None:
    text = "loss.item() calls cudaStreamSynchronize in every step. " * 20_000
    assert index.search(CaseQuery(text=text)).hits[0].id == "item-sync"

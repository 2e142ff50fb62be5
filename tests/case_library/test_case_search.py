"""What a search answers and how it explains it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from case_library.library import CaseError
from case_library.recall import CaseIndex, CaseQuery


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseIndex]:
    with CaseIndex.open(cache_dir=Path(tmp_path_factory.mktemp("cache"))) as opened:
        yield opened


def test_a_cause_alone_brings_only_cases_of_that_cause(index: CaseIndex) -> None:
    recall = index.search(CaseQuery(causes=("slow_data_processing",)))
    assert {hit.cause for hit in recall.hits} == {"slow_data_processing"}
    assert len(recall.hits) == 4
    assert recall.abstained == ""
    assert {hit.similarity for hit in recall.hits} == {0.8}


def test_a_mechanism_no_case_states_still_brings_the_cause_and_says_so(index: CaseIndex) -> None:
    hits = index.search(CaseQuery(causes=("slow_data_processing",), mechanisms=("too_few_workers",))).hits
    assert {hit.cause for hit in hits} == {"slow_data_processing"}
    assert hits[0].id == "dali-corrupt-jpeg-cpu-fallback"
    assert hits[0].similarity == 0.7
    assert hits[0].why.startswith("same cause slow_data_processing, its mechanism is not stated; ranked signature 1")
    assert hits[1].similarity == 0.6
    assert "by another mechanism, heavy_transform" in hits[1].why


def test_the_same_mechanism_comes_before_the_same_cause(index: CaseIndex) -> None:
    hits = index.search(CaseQuery(causes=("operator_dispatch",), mechanisms=("host_synchronization",))).hits
    assert {hits[0].id, hits[1].id} == {"torchtune-loss-item-sync", "olmo-metrics-host-sync"}
    assert [hit.similarity for hit in hits[:3]] == [1.0, 1.0, 0.7]


def test_free_text_about_the_loader_finds_loader_cases(index: CaseIndex) -> None:
    hits = index.search(CaseQuery(text="GPU idle while DataLoader with num_workers=0")).hits
    assert hits[0].id == "hy2dl-dataloader-thread-oversub"
    assert "io" in {hit.family for hit in hits}
    assert "num_workers" in hits[0].why


def test_a_query_with_the_words_of_a_signal_shows_it_as_shared(index: CaseIndex) -> None:
    hit = index.search(CaseQuery(signals=("cudaStreamSynchronize every step",))).hits[0]
    assert hit.id == "torchtune-loss-item-sync"
    assert hit.shared_signals == ("cudaStreamSynchronize 40-50 ms every step",)
    assert hit.url == "https://github.com/meta-pytorch/torchtune/pull/522"
    assert "cudaStreamSynchronize" in hit.why


def test_a_question_about_something_else_is_abstained_on_with_the_reason(index: CaseIndex) -> None:
    recall = index.search(CaseQuery(text="how do I bake bread"))
    assert recall.hits == ()
    assert recall.abstained == "No case is close: the best reaches a similarity of 0.00, and 0.45 is needed."


def test_middling_cases_that_name_different_causes_are_not_shown(index: CaseIndex) -> None:
    recall = index.search(CaseQuery(text="out of memory error when opening photoshop"))
    assert recall.hits == ()
    assert recall.abstained.startswith("The best cases disagree: at a similarity of 0.4")
    assert recall.abstained.endswith("say more of what was seen.")


@pytest.mark.parametrize(
    "query",
    [CaseQuery(), CaseQuery(text="  ?! 12 "), CaseQuery(text="why is it so slow"), CaseQuery(framework="pytorch")],
)
def test_a_query_that_says_nothing_is_abstained_on(index: CaseIndex, query: CaseQuery) -> None:
    recall = index.search(query)
    assert recall.hits == ()
    assert recall.abstained == "The question names no symptom, signal or cause to compare with."


def test_a_cause_of_which_no_case_is_left_is_abstained_on(index: CaseIndex) -> None:
    both = {"nous-llep-moe-imbalance", "deepspeed-autoep-deepep-skew"}
    assert {hit.id for hit in index.search(CaseQuery(causes=("moe_imbalance",))).hits} == both
    recall = index.search(CaseQuery(causes=("moe_imbalance",)), without=both)
    assert recall.hits == ()
    assert recall.abstained.startswith("No case is close: the best reaches a similarity of 0.25")


def test_a_case_left_out_never_comes_back(index: CaseIndex) -> None:
    query = CaseQuery(text="loss.item() synchronizes in every step")
    first = index.search(query).hits[0].id
    assert first not in {hit.id for hit in index.search(query, limit=200, without={first}).hits}


def test_the_limit_holds_and_hits_come_by_falling_similarity(index: CaseIndex) -> None:
    query = CaseQuery(causes=("network_configuration",), text="GPU Direct RDMA disabled in the NCCL log")
    hits = index.search(query, limit=7).hits
    assert len(hits) == 7
    similarities = [hit.similarity for hit in hits]
    assert similarities == sorted(similarities, reverse=True)
    assert all(0.0 <= similarity <= 1.0 for similarity in similarities)
    assert index.search(query, limit=2).hits == hits[:2]


def test_the_framework_orders_cases_that_are_otherwise_equal(index: CaseIndex) -> None:
    plain = index.search(CaseQuery(families=("cpu",)), limit=25).hits
    assert len(plain) == 25
    by_framework = index.search(CaseQuery(families=("cpu",), framework="jax"), limit=25).hits
    assert {hit.id for hit in plain} == {hit.id for hit in by_framework}
    assert {hit.id for hit in by_framework[:5]} == {
        "energnn-jit-rebuilt-each-step",
        "equinox-gc-step-spikes",
        "jax-glicko-shape-recompile",
        "keras-jax-steps-per-execution-retrace",
        "marin-coordinated-gc",
    }


def test_the_whole_case_is_read_by_its_id(index: CaseIndex) -> None:
    case = index.case("torchtune-loss-item-sync")
    assert case.source.number == 522
    assert case.mechanism == "host_synchronization"


@pytest.mark.parametrize("id", ["unheard-of", "../cases/torchtune-loss-item-sync", ""])
def test_an_id_that_is_not_there_is_refused(index: CaseIndex, id: str) -> None:
    with pytest.raises(CaseError, match="There is no case"):
        index.case(id)


def test_a_very_long_text_is_cut_and_answered(index: CaseIndex) -> None:
    text = "loss.item() calls cudaStreamSynchronize in every step. " * 20_000
    assert index.search(CaseQuery(text=text)).hits[0].id == "torchtune-loss-item-sync"

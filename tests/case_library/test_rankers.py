"""The parts of recall by themselves, on numbers worked out by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_library.retrieval.fusion import (
    STRONG,
    UNDECIDED,
    WEAK,
    CauseVotes,
    LexicalIndex,
    Strength,
    TextParts,
    Weights,
    abstention,
    blended,
    covered,
    scaled,
    similarity,
    spread,
    strength_of,
)
from case_library.retrieval.hashed_embedding import DIMENSION, HashedTextEmbedding, text_counts
from case_library.retrieval.ranker import vendor_conflict
from case_library.retrieval.words import (
    Vocabulary,
    lexicon,
    parse_lexicon,
    read_question,
    search_terms,
    surface_forms,
    terms,
)


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    assert terms("num_workers=0") == ["num_worker", "num", "worker"]
    assert terms("DataLoader") == ["dataloader", "data", "loader"]
    assert terms("CUDA_LAUNCH_BLOCKING") == ["cuda_launch_block", "cuda", "launch", "block"]


def test_filler_numbers_and_single_letters_say_nothing() -> None:
    assert terms("Why is my training so slow? 12 3.5 %") == []
    assert terms("H100") == ["h100"]
    assert terms("warum ist mein Training so langsam") == []


def test_endings_are_trimmed_so_that_forms_of_a_word_meet() -> None:
    assert terms("reads reading") == ["read", "read"]
    assert terms("recompiles recompiled recompile") == ["recompil"] * 3


def test_accents_are_folded() -> None:
    assert terms("données réseau") == terms("donnees reseau")


def test_a_term_is_shown_by_the_word_it_came_from() -> None:
    assert surface_forms("cudaStreamSynchronize")["cudastreamsynchroniz"] == "cudaStreamSynchronize"


@given(st.text(max_size=400))
def test_every_term_of_any_text_has_a_readable_word(text: str) -> None:
    assert set(terms(text)) <= set(surface_forms(text))
    question = read_question(text, Vocabulary({"loader": 3}))
    assert set(question.terms) == set(question.shown)


@pytest.mark.parametrize("text", ["all-reduce", "AllReduce", "all reduce", "gradient sync", "梯度同步很慢"])
def test_several_ways_to_say_a_thing_are_one_concept(text: str) -> None:
    assert "~allreduce" in lexicon().concepts(text)


def test_a_lexicon_tells_concepts_other_topics_and_pace_apart() -> None:
    small = parse_lexicon("# comment\nloader = data loader | 数据加载\n! cooking = recipe\n? pace = slow | wait\n")
    assert small.concepts("the Data-Loader waits") == {"~loader": "data loader"}
    assert small.concepts("数据加载慢") == {"~loader": "数据加载"}
    assert small.other_topics("a recipe") == {"cooking": "recipe"}
    assert small.speaks_of_pace("it waits")
    assert not small.speaks_of_pace("a recipe")
    assert small.parts == {"data", "loader"}


def test_concepts_join_the_words_of_a_text_once() -> None:
    assert search_terms("gc gc").count("~garbage") == 1
    assert search_terms("gc gc").count("gc") == 2


def test_a_misspelt_word_is_corrected_and_a_short_or_strange_one_left() -> None:
    known = Vocabulary({"collector": 2, "collection": 9, "gc": 4, "loader": 1})
    assert known.correct("colector") == "collector"
    assert known.correct("loaedr") == "loader"
    assert known.correct("gd") == "gd"
    assert known.correct("banana") == "banana"
    assert known.correct("loader") == "loader"


def test_bm25_equals_the_formula() -> None:
    index = LexicalIndex([Counter(gpu=2, idle=1), Counter(gpu=1), Counter(disk=4)])
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    mean = 8 / 3
    expected = rarity * 2 * 2.2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 3 / mean))
    scores = index.score(["gpu", "unknown", "gpu"])
    assert index.rarity("gpu") == pytest.approx(rarity)
    assert scores.bm25[0] == pytest.approx(expected)
    assert scores.gain.tolist() == pytest.approx([rarity, rarity, 0.0])
    assert index.rarity_of_one == pytest.approx(math.log(1 + 2.5 / 1.5))


def test_the_best_three_cases_of_a_cause_vote_and_the_taxonomy_adds_to_it() -> None:
    library = LexicalIndex([Counter(zzz=1), Counter(zzz=1), Counter(yyy=1)])
    votes = CauseVotes(["garbage_collection", "garbage_collection", "straggler"], library)
    assert votes.names == ["garbage_collection", "straggler"]
    assert votes.count(["zzz"], library.score(["zzz"]).bm25).tolist() == [1.0, 0.0]
    assert votes.count(["yyy"], library.score(["yyy"]).bm25).tolist() == [0.0, 1.0]
    by_taxonomy = votes.count(search_terms("gen-2 collections"), np.zeros(3))
    assert by_taxonomy[0] == 1.0
    assert by_taxonomy[1] < 0.5


def test_vectors_have_length_one_and_like_texts_are_nearer() -> None:
    texts = ["slow disk reads", "disk reading waits", "tiny kernels launched"]
    embedding = HashedTextEmbedding.fit(text_counts(texts))
    vectors = np.array(embedding(texts))
    assert vectors.shape == (3, DIMENSION)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)
    assert vectors[0] @ vectors[1] > 0.3 > vectors[0] @ vectors[2] + 0.2


def test_a_text_without_words_still_has_a_vector_of_length_one() -> None:
    embedding = HashedTextEmbedding.fit(text_counts(["slow disk reads"]))
    assert np.linalg.norm(embedding(["12 %"])[0]) == pytest.approx(1.0, abs=1e-6)


def test_an_embedding_built_from_its_stored_weights_gives_the_same_vectors() -> None:
    embedding = HashedTextEmbedding.fit(text_counts(["slow disk reads", "tiny kernels"]))
    again = HashedTextEmbedding(embedding.stored())
    assert np.array_equal(embedding(["disk kernels"])[0], again(["disk kernels"])[0])


def test_an_embedding_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="idf must have 2048 weights, not 3"):
        HashedTextEmbedding([1.0, 2.0, 3.0])


def test_scores_are_scaled_by_their_greatest() -> None:
    assert scaled(np.array([2.0, 4.0])).tolist() == [0.5, 1.0]
    assert scaled(np.zeros(2)).tolist() == [0.0, 0.0]


def test_rankers_are_blended_by_weight() -> None:
    parts = {"words": np.array([4.0, 2.0]), "vector": np.array([0.2, 0.4]), "votes": np.array([0.0, 1.0])}
    parts["questions"] = np.array([0.5, 0.0])
    assert blended(parts, Weights(words=1, vector=0.5, votes=1, questions=0)).tolist() == pytest.approx([0.625, 1.0])
    assert blended(parts, Weights(words=1, vector=0.5, votes=1, questions=0.5)).tolist() == pytest.approx([0.875, 1.0])
    assert blended(parts, Weights(words=1, vector=0, votes=0, questions=0)).tolist() == [1.0, 0.5]


def test_one_case_of_each_of_three_causes_comes_first_and_none_is_lost() -> None:
    assert spread([5, 4, 3, 2, 1, 0], ["a", "a", "b", "b", "c", "d"]) == [5, 3, 1, 4, 2, 0]
    assert spread([1, 0], ["a", "a"]) == [1, 0]


def test_covered_is_the_share_of_the_rarity_asked_within_bounds() -> None:
    assert covered(gain=2, asked=4) == 0.5
    assert covered(gain=0.45, asked=0.45) == pytest.approx(0.25)  # common words cannot be covered fully
    assert covered(gain=2.3, asked=40) == pytest.approx(0.5)  # of a long text a part is enough


def test_the_strength_of_a_text_adds_its_parts_and_takes_other_topics_away() -> None:
    assert TextParts(concepts=3, of_pace=True, scope=1.2).strength == pytest.approx(1.0)
    assert TextParts(share=0.5, familiar=0.5).strength == pytest.approx(0.45 / 4)
    assert TextParts(1, 3, True, True, 1.0).strength == pytest.approx(0.8)
    assert TextParts(scope=0.5).strength == pytest.approx(0.365)
    assert TextParts(share=0.5, scope=-1).strength == 0.0
    assert TextParts(concepts=3, of_pace=True).strength < WEAK


def test_a_text_of_words_that_only_a_case_has_is_near() -> None:
    assert TextParts(share=1, familiar=0.0).strength >= STRONG
    assert TextParts(share=1, familiar=1.0).strength < WEAK


@given(
    share=st.floats(0, 1),
    concepts=st.integers(0, 50),
    other=st.booleans(),
    pace=st.booleans(),
    scope=st.floats(-3, 3),
    familiar=st.floats(0, 1),
)
def test_strength_stays_between_nought_and_one(
    share: float, concepts: int, other: bool, pace: bool, scope: float, familiar: float
) -> None:
    assert 0 <= TextParts(share, concepts, pace, other, scope, familiar).strength <= 1


def test_a_text_beside_a_signature_adds_a_part_of_what_is_left() -> None:
    agreement = np.array([0.5, 0.0])
    assert similarity(np.array([1.0, 0.5]), agreement, True).tolist() == pytest.approx([0.7, 0.2])
    assert similarity(np.array([1.0, 0.5]), agreement, False).tolist() == [1.0, 0.5]
    strong = strength_of(0.5, agreement, np.array([1.0, 0.2, 0.9]), True)
    assert strong == Strength(total=pytest.approx(0.6), text=0.5, signature=0.5, undecided=0.2)  # type: ignore[arg-type]


def test_recall_abstains_on_the_weak_and_on_the_middling_that_speak_for_no_cause() -> None:
    between = (WEAK + STRONG) / 2
    assert abstention(Strength(WEAK - 0.01, 0, 0, 0)).startswith("No case is close")
    assert abstention(Strength(WEAK, 0, 0, 0)) == ""
    assert abstention(Strength(between, 0, 0, UNDECIDED + 0.01)).startswith("The best cases disagree on the cause")
    assert abstention(Strength(between, 0, 0.5, UNDECIDED + 0.01)) == ""
    assert abstention(Strength(STRONG, 0, 0, 1.0)) == ""
    assert abstention(Strength(0.1, 0, 0, 0), "daily life").endswith("the question seems to be about daily life.")


def test_makers_conflict_only_where_both_texts_name_one() -> None:
    assert vendor_conflict("8x H100", "rocm on MI300X") == "on AMD, not NVIDIA"
    assert vendor_conflict("8x H100", "A100 and MI300X") == ""
    assert vendor_conflict("", "rocm") == ""

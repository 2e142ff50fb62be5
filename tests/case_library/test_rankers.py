"""The parts of recall by themselves, on numbers worked out by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_library.embedding import DIMENSION, HashedTextEmbedding
from case_library.fusion import Closeness, abstention, closeness, fuse, ranks
from case_library.lexical import LexicalIndex
from case_library.words import surface_forms, terms


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    assert terms("num_workers=0") == ["num_worker", "num", "worker"]
    assert terms("DataLoader") == ["dataloader", "data", "loader"]
    assert terms("CUDA_LAUNCH_BLOCKING") == ["cuda_launch_block", "cuda", "launch", "block"]


def test_filler_numbers_and_single_letters_say_nothing() -> None:
    assert terms("Why is my training so slow? 12 3.5 %") == []


def test_endings_are_trimmed_so_that_forms_of_a_word_meet() -> None:
    assert terms("reads reading") == ["read", "read"]
    assert terms("recompiles recompiled recompile") == ["recompil"] * 3


def test_a_term_is_shown_by_the_word_it_came_from() -> None:
    assert surface_forms("cudaStreamSynchronize")["cudastreamsynchroniz"] == "cudaStreamSynchronize"


@given(st.text(max_size=400))
def test_every_term_of_any_text_has_a_readable_word(text: str) -> None:
    assert set(terms(text)) <= set(surface_forms(text))


def test_bm25_equals_the_formula() -> None:
    index = LexicalIndex({"a": Counter(gpu=2, idle=1), "b": Counter(gpu=1), "c": Counter(disk=4)})
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    mean = 8 / 3
    expected = rarity * 2 * 2.2 / (2 + 1.2 * (1 - 0.75 + 0.75 * 3 / mean))
    match = index.rank(["gpu", "unknown"])["a"]
    assert index.rarity("gpu") == pytest.approx(rarity)
    assert match.bm25 == pytest.approx(expected)
    assert match.gain == pytest.approx(rarity)
    assert set(index.rank(["gpu"])) == {"a", "b"}


def test_the_rarest_matched_term_comes_first() -> None:
    index = LexicalIndex({"a": Counter(gpu=1, idle=1), "b": Counter(gpu=1), "c": Counter(disk=4)})
    assert index.rank(["gpu", "idle"])["a"].matched == ("idle", "gpu")


def test_vectors_have_length_one_and_like_texts_are_nearer() -> None:
    texts = ["slow disk reads", "disk reading waits", "tiny kernels launched"]
    embedding = HashedTextEmbedding.fit(texts)
    vectors = np.array(embedding(texts))
    assert vectors.shape == (3, DIMENSION)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)
    assert vectors[0] @ vectors[1] > 0.3 > vectors[0] @ vectors[2] + 0.2


def test_an_embedding_built_from_its_configuration_gives_the_same_vectors() -> None:
    embedding = HashedTextEmbedding.fit(["slow disk reads", "tiny kernels"])
    again = HashedTextEmbedding.build_from_config(embedding.get_config())
    assert np.array_equal(embedding(["disk kernels"])[0], again(["disk kernels"])[0])


def test_an_embedding_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="idf must have 2048 weights, not 3"):
        HashedTextEmbedding([1.0, 2.0, 3.0])


def test_equal_scores_share_a_rank_and_zero_has_none() -> None:
    assert ranks({"a": 2.0, "b": 5.0, "c": 2.0, "d": 0.0, "e": 1.0}) == {"b": 1, "a": 2, "c": 2, "e": 4}


def test_fusion_adds_weighted_reciprocal_ranks() -> None:
    fused = fuse([({"a": 1, "b": 2}, 1.0), ({"b": 1}, 2.0)])
    assert fused == {"a": pytest.approx(1 / 11), "b": pytest.approx(1 / 12 + 2 / 11)}


def test_text_alone_is_the_mean_of_coverage_and_angle() -> None:
    assert closeness(gain=2, asked=4, cosine=0.2, signature=0.9, has_signature=False).similarity == pytest.approx(0.5)
    assert closeness(gain=0, asked=10, cosine=0.3, signature=0.0, has_signature=False).similarity == 0.0


def test_a_query_of_common_words_cannot_be_covered_fully() -> None:
    assert closeness(gain=0.45, asked=0.45, cosine=0, signature=0, has_signature=False).text == pytest.approx(0.125)


def test_a_long_text_is_covered_by_a_part_of_its_words() -> None:
    assert closeness(gain=2.3, asked=40, cosine=0, signature=0, has_signature=False).text == pytest.approx(0.25)


@given(
    gain=st.floats(0, 100),
    more=st.floats(0, 100),
    cosine=st.floats(-1, 1),
    signature=st.floats(0, 1),
    signed=st.booleans(),
)
def test_similarity_stays_between_nought_and_one(
    gain: float, more: float, cosine: float, signature: float, signed: bool
) -> None:
    assert 0 <= closeness(gain, gain + more, cosine, signature, signed).similarity <= 1


def test_between_weak_and_strong_two_of_three_must_agree() -> None:
    middling = [Closeness(0.5, 0.5, 0.0)] * 3
    assert abstention(middling, ["a", "b", "a"]) == ""
    assert abstention(middling, ["a", "b", "c"]).startswith("The best cases disagree: at a similarity of 0.50 they")
    assert abstention([Closeness(0.44, 0.44, 0.0)] * 3, ["a"] * 3).startswith("No case is close")
    assert abstention([Closeness(0.6, 0.6, 0.0)] * 3, ["a", "b", "c"]) == ""
    assert abstention([], []).startswith("No case is close")

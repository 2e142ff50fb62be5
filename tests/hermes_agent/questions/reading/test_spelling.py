"""Misspelt words."""

from __future__ import annotations

import pytest

from hermes_agent.questions.reading.spelling import corrected


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("wich kernal takes most tiem", "which kernel takes most time"),
        ("dataloder slow??", "dataloader slow??"),
        ("how busy is the gup", "how busy is the gpu"),
        ("garbge colection?", "garbage collection?"),
        ("is the straglar rank 7?", "is the straggler rank 7?"),
    ],
)
def test_a_misspelt_word_becomes_the_nearest_one(typed: str, read: str) -> None:
    assert corrected(typed) == read


@pytest.mark.parametrize(
    "question",
    [
        "why is it slow?",
        "how long does `aten::kernal` take?",
        "rank 12 in step 34",
        "what about ncclKernel_AllReduce and sgemm_128x64_nn",
        "warum ist es langsam?",
        "为什么这么慢?",
        "are tensors copied?",
        "are there crashes?",
        "how long does the rack take",
        "which modules are loaded?",
        "where does the slowness come from",
        "is it optimized, improved, compared, trailing, compatible, complex or charged by chance?",
        "is the transformer similarly strange in media, clauses and transfers?",
    ],
)
def test_names_numbers_and_words_that_are_right_stay(question: str) -> None:
    assert corrected(question) == question

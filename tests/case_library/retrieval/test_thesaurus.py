"""What the thesaurus takes for the same, in any order and across languages, and what it does not."""

from __future__ import annotations

import pytest

from case_library.retrieval.thesaurus import WINDOW, parse_thesaurus
from case_library.retrieval.words import MARK, lexicon, pieces, search_terms, terms, thesaurus
from tools.knowledge.taxonomy import causes

SMALL = """
# comment
@member = gpu* | main process | 卡
@wait = wait* | stand still | 等
pause > straggler = @member + @wait | stuck
"""


def concepts(text: str) -> dict[str, str]:
    return parse_thesaurus(SMALL, pieces).concepts(text, pieces(text))


@pytest.mark.parametrize(
    "text",
    ["three GPUs are waiting", "they wait for the slow gpu", "Main-process: stands still", "有一张卡一直在等", "stuck"],
)
def test_words_of_two_classes_mean_a_concept_in_any_order(text: str) -> None:
    assert set(concepts(text)) == {"pause"}


def test_one_class_alone_or_words_far_apart_mean_nothing() -> None:
    assert concepts("the gpu is fast") == {}
    assert concepts("gpu " + "word " * (WINDOW - 1) + "waits") != {}
    assert concepts("gpu " + "word " * WINDOW + "waits") == {}


def test_one_word_cannot_stand_for_two_parts_of_a_sense() -> None:
    both = parse_thesaurus("@a = wait\n@b = wait | stall\nc > straggler = @a + @b\n", pieces)
    assert both.concepts("wait", pieces("wait")) == {}
    assert both.concepts("wait stall", pieces("wait stall")) == {"c": "wait … stall"}


def test_a_class_that_is_not_defined_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"@nobody"):
        parse_thesaurus("c > straggler = @nobody + wait\n", pieces)


def test_every_cause_of_the_taxonomy_has_a_concept_and_no_other_cause_is_named() -> None:
    assert set(thesaurus().causes) == set(causes())


def test_a_question_gets_the_concept_beside_its_words() -> None:
    found = search_terms("the interpreter keeps cleaning up objects")
    assert MARK + "garbage" in found
    assert "interpreter" in found
    assert MARK + "garbage" not in lexicon().concepts("the interpreter prints objects")


def test_short_names_of_mixed_case_are_one_word_and_several_gpus_are_gpu() -> None:
    assert terms("RoCE NaN NVMe") == ["roce", "nan", "nvme"]
    assert terms("GPUs") == terms("GPU") == ["gpu"]
    assert "loader" in terms("DataLoader")

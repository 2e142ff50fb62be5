"""The reading of a question by lines of what people ask, on small numbers worked out by hand and on the library's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from case_library.retrieval.asked import (
    NO_CAUSE,
    CauseReader,
    asked_lines,
    features,
    parse_asked,
)
from case_library.retrieval.fitted import FITTED, cause_reader, fitted, load, save, source_key, stored_key
from case_library.retrieval.query import CaseQuery
from case_library.retrieval.recall import CaseIndex
from tools.knowledge.taxonomy import causes

LINES = {
    "garbage_collection": ["the interpreter tidies up", "python sweeps its heap"],
    "slow_link": ["a loose cable", "half the lanes"],
    NO_CAUSE: ["recipe for soup", "football results"],
}


def test_lines_stand_under_a_cause_of_the_taxonomy_and_none_twice() -> None:
    asked = asked_lines()
    assert asked.keys() == {*causes(), NO_CAUSE}
    lines = [line for each in asked.values() for line in each]
    assert len(set(lines)) == len(lines) > 1500


def test_a_line_under_no_cause_is_refused() -> None:
    assert parse_asked("# why\n[a]\none\n\n[b]\ntwo\nthree\n") == {"a": ["one"], "b": ["two", "three"]}
    with pytest.raises(ValueError, match="'one' stands under no cause"):
        parse_asked("one\n[a]\n")


def test_a_question_is_read_by_words_letters_and_concepts() -> None:
    found = dict(features("Cables 网卡"))
    assert found["w:cabl"] == 1.0
    assert found["n:<cabl"] == pytest.approx(0.35)
    assert {"c:~link", "u:网", "u:网卡", "u:卡"} <= found.keys()


def test_one_line_of_each_of_two_causes_gives_the_weights_of_the_ridge() -> None:
    reader = CauseReader.fit({"a": ["ab"], "b": ["cd"], NO_CAUSE: []})
    # Two lines without a common word: the kernel is 1 on the diagonal, the ridge sqrt(3 / 2).
    share = 1 / (1 + 1.5**0.5)
    reading = reader.read("ab")
    assert reading.causes == ("a", "b")
    assert reading.fit.tolist() == pytest.approx([share, 0.0])
    assert reading.scope == pytest.approx(share)
    assert reading.familiar == pytest.approx(1.0)


def test_a_question_fits_the_cause_whose_words_it_has_and_less_with_words_of_no_line() -> None:
    reader = CauseReader.fit(LINES)
    reading = reader.read("its heap")
    assert reading.causes[int(reading.fit.argmax())] == "garbage_collection"
    assert reading.scope > 0 > reader.read("football soup").scope
    assert 0 < reader.read("cable quux zyzzy").fit.max() < reader.read("cable").fit.max()
    assert not reader.read("").fit.any()
    assert 0 < reader.read("cable quux zyzzy").familiar < 0.5


def test_a_saved_reader_reads_as_before(tmp_path: Path) -> None:
    reader = CauseReader.fit(LINES)
    save(reader, tmp_path / "reader.npz", "of three lines")
    again = load(tmp_path / "reader.npz")
    assert stored_key(tmp_path / "reader.npz") == "of three lines"
    assert again.causes == reader.causes
    text = "python and a cable"
    # Each weight is off by at most half a level of 127, and a line of length 1 adds up few of them.
    assert np.allclose(again.read(text).fit, reader.read(text).fit, atol=0.01)
    assert again.read(text).scope == pytest.approx(reader.read(text).scope, abs=0.01)


def test_the_reader_that_is_shipped_is_of_the_lines_as_they_are() -> None:
    renew = "run python -m case_library.retrieval.fitted --write"
    assert stored_key(FITTED) == source_key(), renew
    expected, shipped = fitted(), cause_reader()
    assert shipped.causes == expected.causes
    assert shipped.rarity == pytest.approx(dict(expected.rarity), abs=1e-5), renew
    half_a_level = np.abs(expected.weights).max(axis=0) / 127 / 2
    assert (np.abs(shipped.weights - expected.weights) <= half_a_level + 1e-4).all(), renew


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("somebody's interpreter is always busy cleaning", "garbage_collection"),
        ("显卡一直在等CPU解码图片", "slow_data_processing"),
        ("der letzte Rang kommt stets zu spät und alle warten", "straggler"),
    ],
)
def test_a_question_in_other_words_is_read(text: str, cause: str) -> None:
    reading = cause_reader().read(text)
    assert cause in [reading.causes[place] for place in np.argsort(-reading.fit)[:3]]
    assert reading.scope > 0


@pytest.mark.parametrize("cause", causes())
def test_whoever_knows_the_name_of_a_cause_is_understood(cause: str) -> None:
    reading = cause_reader().read(cause.replace("_", " "))
    assert reading.causes[int(np.argmax(reading.fit))] == cause
    assert reading.scope > 0.5


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("garbage collection pauses", "garbage_collection"),
        ("my dataloader is slow", "slow_data_processing"),
        ("stragglers in all-reduce", "straggler"),
        ("kernel launch bound", "operator_dispatch"),
        ("GPU thermal throttling?", "slow_device"),
        ("checkpoint saving slow", "checkpoint_stall"),
    ],
)
def test_short_questions_with_the_words_of_the_field_find_cases(text: str, cause: str) -> None:
    with CaseIndex.open() as index:
        assert cause in [hit.cause for hit in index.search(CaseQuery(text=text), limit=3).hits]

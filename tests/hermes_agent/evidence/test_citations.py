"""Citations in rendered text: ids, sentences, and figures that have to be those of the evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.evidence.citations import (
    cited_figures,
    cited_ids,
    sentences,
    without_citations,
    written,
    wrong_citations,
)
from hermes_agent.evidence.index import EvidenceIndex
from hermes_agent.evidence.ledger import Ledger, render
from hermes_agent.model.diagnosis import EvidenceRecord, SourceSelector
from tools.findings import Fact, Sentence


def record(identifier: str, value: float, unit: str) -> EvidenceRecord:
    where = SourceSelector(path="a.json", selector="steps")
    return EvidenceRecord(
        id=identifier,
        metric="m",
        arguments={},
        value=value,
        unit=unit,
        ranks=[],
        steps=[],
        window_ns=None,
        source=where,
    )


FIGURES = (("E1", 177.592, "ms"), ("E2", 33.37, "%"), ("E3", 1.2587, "x"), ("E4", 5.0, "steps"), ("E5", 2.5e9, "B/s"))
INDEX = EvidenceIndex({name: record(name, value, unit) for name, value, unit in FIGURES})


@pytest.mark.parametrize(
    "text",
    [
        "A step takes 178 ms [E1] and 33.4 % [E2] of it is data wait.",
        "It would be 1.26x [E3] faster; it is seen in 5 steps [E4].",
        "It reaches 2.50 GB/s [E5]. Of rank 1 nothing is said (see [E2], [E4]).",
        "Use `99 ms [E1]` as it is.",
    ],
)
def test_figures_as_they_are_rendered_pass(text: str) -> None:
    assert wrong_citations(text, INDEX) == []


@pytest.mark.parametrize(
    "text",
    [
        "It takes 187 ms [E1].",
        "It takes 178 s [E1].",
        "It takes 178 ms [E2].",
        "It takes 177.6 ms [E1].",
        "So [E9].",
        "[A1]",
    ],
)
def test_another_figure_or_an_id_that_does_not_exist_is_named(text: str) -> None:
    assert len(wrong_citations(text, INDEX)) == 1


def test_a_citation_behind_the_full_stop_belongs_to_the_sentence_before() -> None:
    assert sentences("It takes 3 ms. [E1] Then `a. B` runs.") == ["It takes 3 ms. [E1]", "Then `a. B` runs."]


def test_ids_are_read_and_left_out() -> None:
    text = "It takes 3 ms [E1], as in [A1, C2]."
    assert cited_ids(text) == ["E1", "A1", "C2"]
    assert without_citations(text) == "It takes 3 ms, as in."


@given(
    st.floats(min_value=1e-3, max_value=1e15),
    st.sampled_from(["ms", "us", "%", "x", "B", "B/s", "FLOP/s", "steps", "count"]),
)
def test_what_is_rendered_is_read_back(value: float, unit: str) -> None:
    index = EvidenceIndex({"E1": record("E1", value, unit)})
    text = f"It is {written(value, unit)} [E1]."
    assert cited_figures(text) == [(written(value, unit), "E1")]
    assert wrong_citations(text, index) == []


@given(st.floats(min_value=1.0, max_value=1e6), st.floats(min_value=1.02, max_value=50.0))
def test_a_figure_that_is_off_is_named(value: float, factor: float) -> None:
    index = EvidenceIndex({"E1": record("E1", value, "ms")})
    assert len(wrong_citations(f"It is {written(value * factor, 'ms')} [E1].", index)) == 1


@pytest.mark.parametrize(("value", "text"), [(1.0, "1/step"), (0.25, "0.25/step"), (12.4, "12.4/step")])
def test_a_rate_per_step_is_one_word_that_can_be_cited(value: float, text: str) -> None:
    assert written(value, "/step") == text
    assert cited_figures(f"Python collects garbage {text} [E3].") == [(text, "E3")]


@pytest.mark.parametrize(("count", "text"), [(1, "In 1 [E1] step it waits."), (21, "In 21 [E1] steps it waits.")])
def test_a_count_of_one_is_followed_by_the_singular(count: int, text: str) -> None:
    fact = Fact("waited", (), float(count), "count")
    assert render(Sentence("in {0} steps it waits.", (fact,)), Ledger()) == text


@pytest.mark.parametrize(("value", "text"), [(1.0, "1 pass"), (4.0, "4 passes"), (1.5, "1.5 passes")])
def test_passes_are_counted_in_singular_and_plural(value: float, text: str) -> None:
    assert written(value, "passes") == text

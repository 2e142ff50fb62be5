"""The verifier catches what the evidence does not bear out, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.evidence.figures import written
from hermes_agent.evidence.verifier import Evidence, Grounds, sentences, verify

GROUNDS = Grounds(
    evidence={
        "E1": Evidence(177.592, "ms"),
        "E2": Evidence(33.37, "%"),
        "E3": Evidence(1.2587, "x"),
        "E4": Evidence(1500.0, "count"),
        "E5": Evidence(2.5e9, "B/s"),
    },
    quotes={"A1": "Set num_workers to 4 and prefetch_factor to 2.", "C1": "Step time fell from 90 to 18.07 ms."},
    ranks=frozenset({0, 1}),
    steps=frozenset({5, 6, 7}),
)


@pytest.mark.parametrize(
    "text",
    [
        "A step takes 177.6 ms [E1] and 33 % [E2] of it is data wait.",
        "A step takes 0.178 s [E1].",
        "A step takes 177,592 us [E1].",
        "A step takes 178 ms. [E1] It would be 1.26x faster [E3].",
        "Rank 1 is late in steps 5 to 7.",
        "Use `num_workers=8` on rank 0.",
        "Set workers to 4 [A1].",
        "A like case fell to 18.07 ms [C1].",
        "There were 1,500 launches [E4].",
        "It reaches 2.5 GB/s [E5].",
        "1. The loader is slow.\n2. Nothing else is.",
    ],
)
def test_a_true_sentence_passes(text: str) -> None:
    assert verify(text, GROUNDS) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("A step takes 187.6 ms [E1].", "wrong_number"),
        ("A step takes 177.5 ms [E1].", "wrong_number"),
        ("A step takes 177.6 s [E1].", "wrong_number"),
        ("A step takes 33.37 ms [E2].", "wrong_number"),
        ("A step takes 177.6 ms [E2].", "wrong_number"),
        ("A step takes 177.6 ms.", "uncited_number"),
        ("A step takes 177.6 ms [E9].", "unknown_id"),
        ("It is slow [C7].", "unknown_id"),
        ("Rank 4 is late.", "unknown_rank"),
        ("In step 12 it stalls.", "unknown_step"),
        ("It would be twice times faster.", "spelled_number"),
        ("It wastes fifty percent of the step [E2].", "spelled_number"),
        ("Write `sleep 300 ms` here.", "uncited_number"),
        ("Set workers to 16 [A1].", "wrong_number"),
        ("First it is fine [E1]. Then it takes 177.6 ms.", "uncited_number"),
    ],
)
def test_a_false_or_unsupported_sentence_is_caught(text: str, kind: str) -> None:
    assert kind in [problem.kind for problem in verify(text, GROUNDS)]


def test_a_citation_behind_the_full_stop_belongs_to_the_sentence_before() -> None:
    assert sentences("It takes 3 ms. [E1] Then `a. B` runs.") == ["It takes 3 ms. [E1]", "Then `a. B` runs."]


@given(st.floats(min_value=1e-3, max_value=1e7), st.sampled_from(["ms", "us", "%", "x", "B", "B/s", "FLOP/s"]))
def test_what_we_write_the_verifier_reads_back(value: float, unit: str) -> None:
    grounds = Grounds(evidence={"E1": Evidence(value, unit)})
    assert verify(f"It is {written(value, unit)} [E1].", grounds) == []


@given(st.floats(min_value=1.0, max_value=1e6), st.floats(min_value=1.02, max_value=50.0))
def test_a_number_that_is_off_is_caught(value: float, factor: float) -> None:
    grounds = Grounds(evidence={"E1": Evidence(value, "ms")})
    assert [p.kind for p in verify(f"It is {written(value * factor, 'ms')} [E1].", grounds)] == ["wrong_number"]

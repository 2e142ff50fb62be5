"""A figure of one rank in a sentence about several names its rank."""

from __future__ import annotations

import pytest

from tools.findings import Fact, Sentence, on_its_rank


def of(*ranks: int) -> Fact:
    return Fact("device_idle_ms", (), 8.0, "ms", ranks)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("The device waits {0} per step.", "On rank 7: the device waits {0} per step."),
        ("{0} of the launches wait.", "On rank 7: {0} of the launches wait."),
        ("NCCL waits {0} on some ranks only.", "On rank 7: NCCL waits {0} on some ranks only."),
    ],
)
def test_a_figure_of_one_rank_is_not_said_of_all(text: str, named: str) -> None:
    said, rank = on_its_rank(Sentence(text, (of(7),)), (0, 2, 7))
    assert (said.template, said.facts, rank) == (named, (of(7),), 7)


@pytest.mark.parametrize(
    ("sentence", "ranks"),
    [
        (Sentence("The device waits {0}.", (of(7),)), (7,)),  # the only rank it is about
        (Sentence("The device of rank 7 waits {0}.", (of(7),)), (0, 7)),  # named already
        (Sentence("The device waits {0}, the host {1}.", (of(7), of(0))), (0, 7)),  # of two ranks
        (Sentence("The device waits {0}.", (of(0, 7),)), (0, 7)),  # of both
        (Sentence("The device waits."), (0, 7)),
    ],
)
def test_nothing_is_added_where_the_rank_is_known_or_not_one(sentence: Sentence, ranks: tuple[int, ...]) -> None:
    assert on_its_rank(sentence, ranks) == (sentence, None)


def test_a_rank_that_was_told_is_not_repeated_and_another_one_is_named() -> None:
    same, other = Sentence("It waits {0}.", (of(7),)), Sentence("It waits {0}.", (of(2),))
    assert on_its_rank(same, (0, 2, 7), told=7) == (same, None)
    assert on_its_rank(other, (0, 2, 7), told=7)[0].template == "On rank 2: it waits {0}."

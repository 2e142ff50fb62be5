"""Which words of a sentence belong to which of its figures."""

from __future__ import annotations

from hermes_agent.evidence.clauses import Clause, clauses


def cut(sentence: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(" ".join(clause.text.split()), clause.ids) for clause in clauses(sentence)]


def test_the_words_before_a_figure_are_its_own_and_so_are_those_up_to_the_next_comma() -> None:
    assert cut("Computation takes 3 ms [E1] of the step, waiting takes 4 ms [E2] more.") == [
        ("Computation takes of the step", ("E1",)),
        ("waiting takes more.", ("E2",)),
    ]


def test_without_a_mark_between_them_the_words_belong_to_the_second() -> None:
    assert cut("That costs 40 ms [E4] of a step of 100 ms [E1].") == [
        ("That costs", ("E4",)),
        ("of a step of .", ("E1",)),
    ]


def test_the_last_and_parts_two_figures_so_that_a_name_with_and_stays_whole() -> None:
    assert cut("It has 3 ms [E1] of copies and memory and 4 ms [E2] of data.") == [
        ("It has of copies and memory", ("E1",)),
        ("of data.", ("E2",)),
    ]


def test_a_figure_in_brackets_restates_the_one_before_it() -> None:
    first, second = clauses("The device is idle 9 ms [E1] per step (12 % [E2]) in long pauses.")
    assert "in long pauses" in first.tail
    assert "in long pauses" in second.tail


def test_a_figure_takes_the_ids_of_the_next_citation_even_behind_words() -> None:
    assert [clause.ids for clause in clauses("A step would be 1.5x faster [E3][A1].")] == [("E3", "A1")]


def test_two_figures_may_share_one_citation() -> None:
    assert [clause.ids for clause in clauses("It takes 3 ms and 4 ms [E1, E2].")] == [("E1", "E2")] * 2


def test_a_figure_without_a_citation_behind_it_takes_the_last_before_it() -> None:
    assert [clause.ids for clause in clauses("By [E1] it takes 3 ms.")] == [("E1",)]
    assert [clause.ids for clause in clauses("It takes 3 ms.")] == [()]


def test_a_citation_without_a_figure_is_a_clause_of_its_own() -> None:
    (clause,) = clauses("The loader is slow [E4].")
    assert clause == Clause("The loader is slow ", ".", "", ("E4",))


def test_numbers_of_ranks_and_steps_and_in_code_are_no_figures() -> None:
    (clause,) = clauses("On rank 3 in steps 4 and 5 `num_workers=8` takes 7 ms [E1].")
    assert clause.figure is not None
    assert clause.figure.text == "7 ms"

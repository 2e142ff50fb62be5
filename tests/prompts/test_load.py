"""Prompts are files, filled in strictly."""

from __future__ import annotations

import re

import pytest

from prompts.load import PromptError, names, render, source

VARIABLES = {
    "answer": {"most", "statements"},
    "answer_facts": {"diagnosis", "evidence", "cases", "not_checked"},
    "hypotheses": {"causes", "known", "lead", "most"},
    "mcp_diagnose": {"run"},
    "mcp_verify": {"before", "after", "advice"},
    "question": {"diagnosis", "max_rounds", "statements"},
    "question_small": {"diagnosis", "max_rounds"},
    "repair": {"complaints"},
    "statements": set(),
}


def test_every_prompt_is_listed_with_its_variables() -> None:
    found = {name: set(re.findall(r"\{\{(.*?)\}\}", source(name))) for name in names()}
    assert found == VARIABLES


def test_variables_are_put_in_and_nothing_else_changes() -> None:
    text = render("answer", most=7, statements="{rules}")
    assert "at most 7 statements" in text
    assert text == source("answer").replace("{{most}}", "7").replace("{{statements}}", "{rules}")


def test_a_value_that_looks_like_a_variable_is_not_filled_in() -> None:
    text = render("question", diagnosis="{{max_rounds}} {{other}} \\1 \\g<0>", max_rounds=3, statements="")
    assert "{{max_rounds}} {{other}} \\1 \\g<0>" in text


def test_a_missing_variable_is_an_error() -> None:
    with pytest.raises(PromptError, match="question also needs max_rounds, statements"):
        render("question", diagnosis="x")


def test_an_unknown_variable_is_an_error() -> None:
    with pytest.raises(PromptError, match="repair has no variable tone"):
        render("repair", complaints="x", tone="kind")


@pytest.mark.parametrize("name", ["nothing", "../load", "load.py", "", "Answer"])
def test_a_prompt_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(PromptError, match=r"There is no prompt .*answer, answer_facts, .*question, question_small"):
        render(name)

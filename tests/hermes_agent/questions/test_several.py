"""Several questions in one sentence are answered one by one, and alternatives with a judgement of each."""

from __future__ import annotations

import re

import pytest

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.evidence.spent_parts import stored_part
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.several import MORE_ALONE, SEVERAL, answered, parted
from hermes_agent.questions.short_form import in_short
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import unsupported


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("how long is a step and which rank is slowest?", ("how long is a step", "which rank is slowest")),
        ("What is the GPU utilisation, and why so low?", ("What is the GPU utilisation", "why so low")),
        ("Wie lang ist ein Schritt und welcher Rang wartet?", ("Wie lang ist ein Schritt", "welcher Rang wartet")),
        ("每步多长时间，哪个卡最慢？", ("每步多长时间", "哪个卡最慢")),
        ("Is it slow? What should I change?", ("Is it slow", "What should I change")),
        ("how long are the forward and backward passes", ("how long are the forward and backward passes",)),
        ("if I fix the loader, how much faster is it", ("if I fix the loader, how much faster is it",)),
        ("can you tell me and show why it is slow", ("can you tell me and show why it is slow",)),
        ("通信和计算各占多少，分别？", ("通信和计算各占多少，分别？",)),
        ("第一次 all-reduce 等了多久，真正传输多久？", ("第一次 all-reduce 等了多久", "真正传输多久")),
    ],
)
def test_a_sentence_is_parted_where_a_further_question_begins(text: str, parts: tuple[str, ...]) -> None:
    assert parted(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "how long is a step and how long does rank 0 wait for data?",
        "Wie lange dauert ein Schritt und wie lange wartet Rang 0 auf Daten?",
        "每步多长时间，每步等数据多久？",
    ],
)
def test_each_half_is_answered_in_a_paragraph_with_its_own_citation(loader: Discussion, text: str) -> None:
    answer = answered(loader, text)
    halves = answer.text.removeprefix("“").split("\n\n“")
    assert answer.intent == SEVERAL
    assert len(halves) == 2
    assert all(cited_ids(each) for each in halves)
    assert "40.0 ms" in halves[1]
    assert not unsupported(answer.text, loader)


def test_a_half_that_is_not_understood_is_named(loader: Discussion) -> None:
    text = answered(loader, "how long is a step and where is my umbrella?").text
    assert "“where is my umbrella” is not answered: it was not understood" in text
    assert "“how long is a step”: " in text


def test_why_after_a_rank_asks_for_the_reason_of_that_answer(loader: Discussion) -> None:
    text = answered(loader, "how long does rank 0 wait for data, and why?").text
    assert "“why” (read as “Why is rank 0 slow?”)" in text


def test_why_after_an_answer_that_has_no_reason_here_is_not_understood(loader: Discussion) -> None:
    text = answered(loader, "how many ranks are there, and why?").text
    assert "“why” is not answered: it was not understood" in text


def test_a_half_that_speaks_of_the_one_before_leaves_the_sentence_whole(loader: Discussion) -> None:
    assert answered(loader, "which gaps does the device have and what did the host do in them?").intent != SEVERAL


def test_a_chinese_half_that_names_nothing_leaves_the_sentence_whole(loader: Discussion) -> None:
    assert answered(loader, "第一次 all-reduce 等了多久，真正传输多久？").intent != SEVERAL


def test_the_main_cause_is_named_with_its_rank_and_the_part_of_the_step_that_it_is_in(loader: Discussion) -> None:
    text = answered(loader, "What is the main cause, on which rank, and which part of the step does it take?").text
    assert text.startswith("Top bottleneck: too few data loader workers")
    assert re.search(r"The cost is part of data wait: 40\.0 ms \[E\d+\] per step\.", text)
    assert not unsupported(text, loader)


def test_the_part_of_the_main_cause_is_from_the_diagnosis_and_the_same_when_measured(loader: Discussion) -> None:
    stored = stored_part(loader.diagnosis, "data_wait", None)
    assert stored is not None
    again = loader.measure("part_ms", part="data_wait")
    assert stored.value == pytest.approx(again.value, rel=1e-9)
    assert stored.key == again.key
    assert (stored.ranks, stored.steps, stored.path) == (again.ranks, again.steps, again.path)


def test_a_part_that_is_smaller_than_the_cost_is_not_said_to_hold_it(loader: Discussion) -> None:
    first = loader.diagnosis.causes[0]
    larger = first.model_copy(update={"impact_ms_per_step": 41.0})  # the wait for data takes 40 ms
    diagnosis = loader.diagnosis.model_copy(update={"causes": [larger]})
    text = answered(Discussion(diagnosis, loader.material), "what is the main cause, and in which part?").text
    assert "The cost is part of" not in text


def test_alternatives_are_judged_each_and_the_one_found_is_named(loader: Discussion) -> None:
    text = answered(loader, "is it the data loader or garbage collection?").text
    assert text.startswith("Of these, data input is among the causes found; Python garbage collection is not.")
    assert "the first of the causes found is" in text
    assert not unsupported(text, loader)


@pytest.mark.parametrize("text", ["Liegt es am Netz oder am Datenlader?", "是网络还是数据加载的问题?"])
def test_alternatives_in_other_languages_are_all_read(loader: Discussion, text: str) -> None:
    lead, found = answered(loader, text).text.split("\n\n")[:2]
    assert "`Could it be network or data loader?`" in lead
    assert found == "Of these, data input is among the causes found; the network is not."


def test_an_answer_in_short_ends_with_the_first_rows_of_the_table_it_introduces() -> None:
    rows = "\n".join(f"| {each} | {each} ms [E1] |" for each in range(9))
    text = f"Kernels of rank 0:\n\n| name | ms |\n| --- | --- |\n{rows}\n\nFurther words."
    assert in_short(text).endswith("| 2 | 2 ms [E1] |")
    assert MORE_ALONE not in in_short(text)

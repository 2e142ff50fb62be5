"""Short questions that refer to the one before."""

from __future__ import annotations

import pytest

from hermes_agent.model.turn import Turn
from hermes_agent.questions.intents import reply
from hermes_agent.questions.reading.conversation import Conversation, turn_of
from tests.hermes_agent.questions import discussed


def after(*questions: str, ids: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> Conversation:
    return Conversation.of([Turn(question=each, answer="", ids=list(ids), names=list(names)) for each in questions])


@pytest.mark.parametrize(
    ("before", "short", "full"),
    [
        ("how long is the step of rank 0?", "and rank 7?", "how long is the step of rank 7?"),
        ("where does the time go?", "and for rank 2", "where does the time go on rank 2?"),
        ("where does the time go on rank 0?", "the same for rank 2", "where does the time go on rank 2?"),
        ("Wo bleibt die Zeit auf Rang 0?", "und rang 3?", "Wo bleibt die Zeit auf rank 3?"),
        ("how long is step 5?", "what about step 9?", "how long is step 9?"),
        ("could it be the network?", "why not?", "why is it not the network?"),
        ("compare rank 3 with rank 0", "by kernel", "compare rank 3 with rank 0 by kernel"),
        ("how long does a step take?", "and the slowest one?", "which step is the slowest?"),
        ("how much time in the forward pass?", "and backward?", "how much time in the backward pass?"),
        ("how long is rank 3 busy?", "and why?", "why is rank 3 slow?"),
        ("Wie lange dauert Schritt 5?", "und warum?", "why is step 5 slow?"),
        ("how long is the device idle?", "why?", "why is the device idle?"),
        ("为什么在等？", "那为什么", "why do ranks wait?"),
        ("how long does a step take?", "warum", "why is it slow?"),
        ("why is it slow?", "why is that?", "how sure are you?"),
        ("how long does a step take?", "and then?", "what should I change first?"),
    ],
)
def test_a_short_question_is_completed_from_the_last_one(before: str, short: str, full: str) -> None:
    resolved = after(before).resolve(short)
    assert resolved.text == full
    assert resolved.lacking == ""
    assert f"{full[:1].upper()}{full[1:]}" in resolved.note


@pytest.mark.parametrize(
    "short", ["and rank 7?", "why not?", "more", "and then?", "by kernel", "und rang 3?", "and why?"]
)
def test_a_reference_without_an_earlier_question_says_what_it_lacks(short: str) -> None:
    assert "earlier question" in Conversation().resolve(short).lacking


def test_a_reference_that_does_not_fit_names_the_last_question() -> None:
    assert "how long does a step take" in after("how long does a step take?").resolve("why not?").lacking


def test_a_place_alone_is_a_question_where_there_is_none_before() -> None:
    assert Conversation().resolve("step 3?").text == "step 3?"


def test_more_gives_one_page_after_the_other() -> None:
    talk = after("the 5 slowest kernels")
    first = talk.resolve("more")
    talk.add(Turn(question="more", answer=""))
    second = talk.resolve("more")
    assert [(each.text, each.page) for each in (first, second)] == [(first.text, 1), ("the 5 slowest kernels", 2)]


def test_a_new_question_begins_at_its_first_page() -> None:
    talk = after("the 5 slowest kernels", "more", "and rank 1?")
    assert talk.resolve("more").page == 1
    assert "rank 1" in talk.resolve("more").text


def test_and_then_goes_through_the_advice() -> None:
    talk = after("what should I change first?", ids=("E1", "A1", "A2"))
    assert talk.resolve("and then?").text == "show A2"
    talk.add(Turn(question="and then?", answer="", ids=["A2"]))
    assert talk.resolve("and then?").text == "show A3"


def test_this_kernel_is_the_one_that_the_last_answer_was_about() -> None:
    talk = after("the slowest kernel", names=("sgemm", "relu"))
    assert talk.resolve("which Python line launches this kernel?").text == "which Python line launches `sgemm`?"


@pytest.mark.parametrize("question", ["why is it slow?", "and is rank 7 slow?", "what about the network?"])
def test_a_question_that_stands_alone_stays_as_typed(question: str) -> None:
    assert after("where does the time go?").resolve(question).text == question


def test_that_step_is_the_one_of_the_last_answer() -> None:
    spiky, talk = discussed.spiky(), Conversation()
    assert talk.resolve("what did rank 0 do in that step?").lacking
    asked = "which step is the slowest?"
    talk.add(turn_of(asked, reply(spiky, asked), ()))
    assert talk.resolve("what did rank 0 do in that step?").text == "what did rank 0 do in step 7?"
    assert talk.resolve("was macht rank 0 in diesem Schritt?").text == "was macht rank 0 in step 7?"


def test_why_is_about_the_place_that_the_last_answer_names() -> None:
    talk = Conversation.of(
        [Turn(question="which rank is the slowest?", answer="Rank 2 is the slowest: it takes 7 ms.")]
    )
    assert talk.resolve("und warum?").text == "why is rank 2 slow?"


def test_why_alone_is_a_question_where_there_is_none_before() -> None:
    assert Conversation().resolve("why?").text == "why?"


def test_what_comes_after_the_last_change_is_one_sentence() -> None:
    loader = discussed.slow_loader()
    last = loader.diagnosis.advice[-1].id
    found = reply(loader, f"show A{int(last[1:]) + 1}")
    assert found.text == f"There is no further change: {last} is the last one."

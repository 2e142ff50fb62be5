"""What a question asks for, as a record."""

from __future__ import annotations

import pytest

from hermes_agent.questions.reading.asked import Asked, about_topic, asked, in_english_words
from hermes_agent.questions.reading.question import lexicon, read_question
from tools.judgement.catalog import metrics


def read(text: str) -> Asked:
    found = asked(read_question(text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "topic", "quantity", "statistic"),
    [
        ("How long does rank 0 wait for data?", "waiting for data", "time", ""),
        ("What share of the step waits for data?", "waiting for data", "share", ""),
        ("how long is the longest all-reduce on rank 6?", "all-reduces", "time", "longest"),
        ("mean duration of an all reduce", "all-reduces", "time", "each"),
        ("What bandwidth do the all-reduces reach?", "all-reduces", "rate", ""),
        ("allreduces per iteration", "all-reduces", "count", ""),
        ("What did garbage collection cost?", "garbage collection", "time", ""),
        ("how long does one garbage collection take", "garbage collection", "time", "each"),
        ("how long does a garbage collection take per step", "garbage collection", "time", ""),
        ("how much memory is used", "device memory", "bytes", ""),
        ("how much communication per step", "collectives", "time", ""),
        ("softmax % of gpu time", "kernels of softmax", "share", ""),
        ("how many kernels does rank 6 launch", "kernels", "count", ""),
        ("median step time of rank 1", "the step", "time", "median"),
        ("total time rank 1 waited for data over all steps", "waiting for data", "time", "total"),
    ],
)
def test_a_figure_is_read_as_topic_quantity_and_statistic(text: str, topic: str, quantity: str, statistic: str) -> None:
    found = read(text)
    assert (found.topic.title, found.quantity, found.statistic) == (topic, quantity, statistic)


def test_the_whole_of_a_share_is_the_step_or_the_time_in_which_the_device_is_busy() -> None:
    assert read("what share of the step of rank 0 is computation?").of == "step"
    assert read("Which share of the time that the GPU of rank 5 is busy goes to NCCL?").of == "busy"


@pytest.mark.parametrize(
    ("text", "over", "extreme"),
    [
        ("Which rank waits longer for data, 0 or 1?", "rank", "most"),
        ("which gpu is idle the least?", "rank", "least"),
        ("how much time is idle on each npu", "rank", ""),
        ("which gpu is busier", "rank", "most"),
        ("in which step does rank 1 wait longest for data?", "step", "most"),
        ("how long is the shortest kernel?", "", "least"),
    ],
)
def test_a_question_for_a_rank_or_step_is_one_for_the_most_or_least_of_them(text: str, over: str, extreme: str) -> None:
    found = read(text)
    assert (found.over, found.extreme) == (over, extreme)


def test_words_that_narrow_a_question_are_kept() -> None:
    assert read("how long before the first kernel starts?").unread == ("before", "first", "starts")


@pytest.mark.parametrize(
    "text",
    ["why do ranks wait for data?", "what is data wait?", "which kernel takes the most time?", "is it the data loader?",
     "what would a faster loader bring?", "could it be the all-reduces?", "what does `aten::mm` do?"],
)  # fmt: skip
def test_a_question_for_a_cause_a_name_or_a_meaning_is_none_for_a_figure(text: str) -> None:
    assert asked(read_question(text)) is None


def test_a_topic_alone_is_a_question_for_its_first_figure() -> None:
    found = about_topic(read_question("were any packets retransmitted?"))
    assert found is not None
    assert (found.topic.title, found.quantity) == ("retransmitted packets", "share")


@pytest.mark.parametrize(
    ("text", "language", "spoken"),
    [
        ("Welche Karte wartet am wenigsten auf die Kommunikation?", "German",
         "the time of exposed communication, the least of all ranks"),
        ("主机到设备的拷贝花了多久？", "Chinese", "the time of copies to the device"),
    ],
)  # fmt: skip
def test_questions_in_other_languages_are_read_word_by_word(text: str, language: str, spoken: str) -> None:
    name, words = in_english_words(text)
    assert name == language
    assert read(words).spoken == spoken


def test_every_metric_of_a_topic_exists() -> None:
    named = {spec.partition(":")[0] for topic in lexicon().topics for specs in topic.figures.values() for spec in specs}
    assert named <= set(metrics())

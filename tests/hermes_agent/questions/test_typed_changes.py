"""What-if questions that name a faster link or a rank like the others."""

from __future__ import annotations

import pytest

from hermes_agent.questions.intents import reply
from hermes_agent.questions.typed_changes import named_changes
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import unsupported


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("what would I gain with a 10x faster link", ("link 10x",)),
        ("what if the link were 2.5 times as fast", ("link 2.5x",)),
        ("link 2x", ("link 2x",)),
        ("what if the network had twice the bandwidth", ("link 2x",)),
        ("what if we had twice the bandwidth", ("link 2x",)),
        ("rank 7 as fast", ("rank 7 as fast as the others",)),
        ("what if rank 0 were as fast as the others?", ("rank 0 as fast as the others",)),
        ("what if num_workers=4", ("num_workers=4",)),
        ("would bf16 help?", ("bf16",)),
        ("is the link slow", ()),
        ("link 0x", ()),
    ],
)
def test_a_change_is_read_from_the_words_of_a_question(text: str, changes: tuple[str, ...]) -> None:
    assert named_changes(text) == changes


def test_a_link_that_is_not_replayed_says_so_before_what_its_cause_costs() -> None:
    """The run has no collectives, so no link can be faster."""
    discussion = discussed.slow_loader()
    text = reply(discussion, "what if the link were 10x faster?").text
    assert text.startswith("`link 10x` as such is not predicted: no collective is recorded inside a step.")
    assert unsupported(text, discussion) == []


def test_a_predicted_change_names_the_steps_that_it_starts_from() -> None:
    discussion = discussed.late_rank()
    text = reply(discussion, "what if the link were 10x faster?").text
    step = discussion.figure("step_time_ms", statistic="mean")
    steps = len(discussion.profile().step_ms)
    assert (
        f"The step it starts from takes {step} (mean of {steps} profiled steps, by the slowest rank of each)." in text
    )
    assert unsupported(text, discussion) == []


def test_two_ranks_are_compared_in_the_order_they_are_named() -> None:
    discussion = discussed.late_rank()
    for first, second in ((0, 1), (1, 0)):
        text = reply(discussion, f"compare rank {first} with rank {second}").text
        assert text.startswith(f"Rank {first} takes ")
        assert f"diff is rank {second} minus rank {first}" in text


def test_bf16_on_a_device_without_units_for_it_is_refused_and_fp16_named() -> None:
    """The made-up device is a V100 in single precision: its matrix units take fp16 only."""
    discussion = discussed.single_precision()
    text = reply(discussion, "would bf16 help?").text
    assert text.startswith("`bf16` is not predicted: the device 'Tesla V100-SXM2-32GB' has no matrix units for bf16.")
    assert "fp16 instead, for which it has them" in text
    assert "Fixing matrix kernels without tensor cores would cut the step" in text
    assert unsupported(text, discussion) == []

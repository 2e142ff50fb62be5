"""What messages ask for."""

from __future__ import annotations

import pytest

from hermes_agent.bot.wishes import Compare, Diagnose, Help, ListRuns, Question, Unclear, Wish, wish_of

NAMES = ("train-7", "resnet.v2", "slow", "Big")


@pytest.mark.parametrize(
    ("text", "present", "wish"),
    [
        ("", "", Help()),
        ("Help!", "", Help()),
        ("help", "slow", Question("slow", "help")),
        ("show E7", "slow", Question("slow", "show E7")),
        ("why is train-8 slow?", "slow", Unclear("There is no registered run `train-8`; did you mean `train-7`?")),
        ("", "slow", Diagnose("slow")),
        ("runs", "", ListRuns()),
        ("train-7", "", Diagnose("train-7")),
        ("please diagnose the run `TRAIN-7`.", "", Diagnose("train-7")),
        ("big: which rank is slow?", "", Question("Big", "which rank is slow?")),
        ("why is resnet.v2 slow?", "", Question("resnet.v2", "why is it slow?")),
        ("why is `slow` slow?", "train-7", Question("slow", "why is it slow?")),
        ("which rank is slow?", "train-7", Question("train-7", "which rank is slow?")),
        ("compare train-7 with big", "", Compare("train-7", "Big")),
        ("compare against big", "slow", Compare("Big", "slow")),
        ("compare rank 1 with rank 0", "slow", Question("slow", "compare rank 1 with rank 0")),
    ],
)
def test_a_message_is_understood(text: str, present: str, wish: Wish) -> None:
    assert wish_of(text, NAMES, present) == wish


@pytest.mark.parametrize(
    "text", ["/data/traces", "diagnose ~/run", r"C:\run", "s3://bucket/run", "x.json", "a/../slow"]
)
def test_a_path_is_no_run(text: str) -> None:
    wish = wish_of(text, NAMES)
    assert isinstance(wish, Unclear)
    assert wish.reason.startswith("A path in a message is never opened")


def test_a_name_inside_of_a_path_is_no_name() -> None:
    assert isinstance(wish_of("../train-7/x", NAMES), Unclear)
    assert wish_of("/tmp/train-7", NAMES, "slow") == Question("slow", "/tmp/train-7")


def test_without_a_registered_run_it_is_said_how_to_register_one() -> None:
    wish = wish_of("why?", ())
    assert isinstance(wish, Unclear)
    assert "hermes-dx runs add" in wish.reason

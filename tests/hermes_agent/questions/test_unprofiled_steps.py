"""A trace of a few steps next to records of many: both are given, the unprofiled steps and the diagnosis first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import Answer, reply
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.recorded_runs import recorded_profile, records_of, step_rows, untraced_profile
from tests.synthetic import RankBuilder
from tests.tools.sources.job_log.logs import megatron
from tools.sources.load import load_run
from tools.views.profile import Profile

USUAL_MS, PAUSE_MS, EVERY = 50.0, 300.0, 6
STEPS = 60


def computing(rank: int) -> RankBuilder:
    """Three traced steps of 50 ms in which rank 1 waits for rank 0 and nobody collects garbage."""
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        builder.operator("aten::mm", step * 50_000 + 10, 49_900 - 20_000 * rank)
        if rank:
            builder.annotation("gloo:all_reduce", step * 50_000 + 30_000, 19_900, track=builder.host_thread("gloo"))
        builder.step(1000 + step, step * 50_000, step * 50_000 + 50_000)
    return builder


@pytest.fixture(scope="module")
def collecting() -> Discussion:
    """Every sixth unprofiled step rank 1 collects garbage for 300 ms, for which rank 0 waits."""
    pauses = [PAUSE_MS if step % EVERY == EVERY - 1 else 0.0 for step in range(STEPS)]
    walls = [USUAL_MS + pause for pause in pauses]
    records = records_of(
        [
            step_rows(0, walls),
            step_rows(1, walls, gc_ms=pauses, gc_longest_ms=pauses, gc_runs=[int(pause > 0) for pause in pauses]),
        ]
    )
    return discuss(recorded_profile(records, computing))


def values(answer: Answer, metric: str) -> list[tuple[object, float]]:
    return [(each.arguments.get("statistic"), each.value) for each in answer.evidence if each.metric == metric]


def test_the_diagnosis_singles_out_the_rank_that_collects(collecting: Discussion) -> None:
    cause = collecting.diagnosis.causes[0]
    assert (cause.cause, cause.ranks) == ("garbage_collection", [1])


def test_a_step_takes_what_unprofiled_steps_take_and_the_traced_ones_come_second(collecting: Discussion) -> None:
    answer = reply(collecting, "How long is a step?")
    recorded = dict(values(answer, "series_step_ms"))
    assert (recorded["median"], recorded["max"]) == (USUAL_MS, USUAL_MS + PAUSE_MS)
    assert recorded["mean"] == pytest.approx(collecting.diagnosis.step_time_ms.unprofiled.mean)  # type: ignore[union-attr]
    assert dict(values(answer, "step_time_ms")) == {"median": 50.0, "mean": 50.0, "max": 50.0}
    assert answer.text.index("unprofiled step") < answer.text.index("The traced steps take")


def test_the_rank_of_the_first_cause_is_named_before_the_slowest_of_the_traced_steps(collecting: Discussion) -> None:
    text = reply(collecting, "Which rank is slow?").text
    assert text.startswith(
        "By the diagnosis it is rank 1: its first cause, Python garbage collection, was found there."
    )
    assert "not on all ranks: the others wait" in text
    assert text.index("rank 1") < text.index("In the traced steps rank 0 is the slowest")


def test_the_rank_of_the_first_cause_is_slow_although_its_traced_steps_are_not(collecting: Discussion) -> None:
    text = reply(collecting, "Is rank 1 slow?").text
    assert text.startswith("Yes by the diagnosis: its first cause, Python garbage collection, is on rank 1.")


def test_a_rank_slow_in_the_traced_steps_alone_is_pointed_to_where_the_diagnosis_looks(collecting: Discussion) -> None:
    text = reply(collecting, "Is rank 0 slow?").text
    assert text.startswith("Yes, rank 0 is slow.")
    assert "the diagnosis looks elsewhere: its first cause, Python garbage collection, is on rank 1" in text


def test_the_longest_unprofiled_step_is_named_before_the_slowest_traced_one(collecting: Discussion) -> None:
    answer = reply(collecting, "Which step is slow?")
    assert dict(values(answer, "series_step_ms"))["max"] == USUAL_MS + PAUSE_MS
    assert answer.text.index("The longest unprofiled step") < answer.text.index("the slowest traced one")


SAVED = 10  # steps between the made-up saves


ASSUMED = "That the long steps are saves is not recorded (lead L1); what follows holds if they are."


def _saving(written: bool = True) -> Discussion:
    """60 steps of 50 ms, each tenth 150 ms longer; 54 of them are looked at, with 6 long ones.

    ``written``: the process writes 30 MB in each long step, which shows that they are saves.
    """
    walls_ms = [200.0 if step % SAVED == SAVED - 1 else 50.0 for step in range(60)]
    steps = step_rows(0, walls_ms)
    records = records_of([steps])
    if written:
        ends = steps["end_unix_ns"].to_numpy()[SAVED - 1 :: SAVED]
        at = np.searchsorted(ends, records.system["unix_ns"].to_numpy(), side="right")
        records = replace(records, system=records.system.assign(write_bytes=30e6 * at))
    return discuss(untraced_profile(records))


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize(
    "text",
    ["what happens if I save every 100 steps instead of 10?", "would a checkpoint every 100 steps be faster?"],
)
def test_rarer_saves_are_predicted_from_the_length_and_period_of_the_recorded_ones(text: str, written: bool) -> None:
    discussion = _saving(written)
    answer = reply(discussion, text)
    found = {each.metric: each.value for each in answer.evidence}
    assert answer.intent == "what_if"
    assert answer.text.startswith(ASSUMED) != written
    assert found["stall_period_steps"] == SAVED
    cost_ms = 150.0 * 6 / 54
    assert found["series_step_ms"] == pytest.approx(50.0 + cost_ms)
    assert found["spaced_stalls_step_ms"] == pytest.approx(50.0 + cost_ms * SAVED / 100)
    assert unsupported(answer.text, discussion) == []


@pytest.mark.parametrize("written", [True, False])
def test_a_step_with_a_save_is_longer_by_the_length_of_the_save(written: bool) -> None:
    discussion = _saving(written)
    answer = reply(discussion, "how much longer does a step with a checkpoint take than one without")
    found = {each.metric: each.value for each in answer.evidence}
    assert answer.intent == "save_cost"
    assert answer.text.startswith(ASSUMED) != written
    assert found["stall_excess_ms"] == pytest.approx(150.0)
    assert found["stall_cost_ms"] == pytest.approx(150.0 * 6 / 54)
    assert unsupported(answer.text, discussion) == []


@pytest.mark.parametrize("written", [True, False])
def test_an_interval_of_saves_is_given_by_what_it_costs_of_the_mean_step(written: bool) -> None:
    """A save of 150 ms costs N steps of 50 ms at most 5 % from 57 on: 150 <= 0.05 (57 x 50 + 150); 1 % from 297 on."""
    discussion = _saving(written)
    answer = reply(discussion, "how often should I save?")
    found = {each.arguments.get("pct"): each.value for each in answer.evidence if each.metric == "stall_spacing_steps"}
    assert found == {5: 57.0, 1: 297.0}
    assert answer.text.startswith(ASSUMED) != written
    assert unsupported(answer.text, discussion) == []


def test_rarer_saves_are_not_predicted_where_no_save_was_found() -> None:
    run = discuss(untraced_profile(records_of([step_rows(0, [50.0] * 60)])))
    for question in ("what happens if I save every 100 steps instead of 10?", "how often should I save?"):
        assert reply(run, question).text.startswith("What another save interval brings cannot be predicted")


def test_how_often_long_steps_come_is_answered_with_their_period_and_length() -> None:
    discussion = _saving()
    answer = reply(discussion, "how often does the long step come?")
    found = {each.metric: each.value for each in answer.evidence}
    assert answer.intent == "rhythm"
    assert found["stall_period_steps"] == SAVED
    assert found["stall_excess_ms"] == pytest.approx(150.0)
    assert unsupported(answer.text, discussion) == []
    even = discuss(untraced_profile(records_of([step_rows(0, [50.0] * 60)])))
    assert reply(even, "how often does the long step come?").intent != "rhythm"


def test_what_is_slow_names_the_long_step_of_a_few_printed_ones(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(megatron(*enumerate((512.3, 511.9, 2011.9, 512.8, 512.1), 1)))
    answer = reply(discuss(Profile(load_run([log]))), "what is slow?")
    assert answer.intent == "overview"
    rows = [line for line in answer.text.splitlines() if line.startswith("| w")]
    assert "| 3 |" in rows[0]
    assert "2012" in rows[0]

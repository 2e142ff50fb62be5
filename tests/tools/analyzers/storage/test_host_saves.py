"""Saves in traces without a device: the state is taken, and the host pauses."""

from __future__ import annotations

import pytest

from tests.asked import ask
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.recorded.series import step_series_of
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile

STEP_US = 50_000.0
SAVE_US = 30_000.0
PARAMETERS = 20


def saving(
    number: int = 0,
    at_steps: tuple[int, ...] = (2,),
    detached: int = PARAMETERS,
    between: str = "",
    frame: str = "",
    then: str = "aten::select",
    steps: int = 5,
) -> RankBuilder:
    """Steps of 50 ms with twenty parameters; in some the state is taken and the host pauses 30 ms."""
    rank, at = RankBuilder(number, device=None), 0.0
    for step in range(steps):
        begin = at
        rank.operator("aten::linear", at, 20_000.0)
        for place in range(PARAMETERS):
            rank.operator("torch::autograd::AccumulateGrad", at + 20_000.0 + place * 1_000.0, 1_000.0)
        at += 40_000.0
        if step in at_steps:
            for _ in range(detached):
                rank.operator("aten::detach", at, 5.0)
                at += 5.0
                if between:
                    rank.operator(between, at, 5.0)
                    at += 5.0
            rank.operator(then, at, 5.0)
            at += 5.0
            if frame:
                rank.event(EventKind.PYTHON, frame, at, SAVE_US)
            at += SAVE_US
        rank.operator("aten::sum", at, 10_000.0)
        at += 10_000.0
        rank.step(step, begin, at)
    return rank


def answer(*ranks: RankBuilder) -> Check:
    return ask(profile_of(*ranks), "storage.host_save")


def test_a_pause_after_the_values_of_all_parameters_were_taken_is_a_save() -> None:
    profile = profile_of(saving())
    (finding,) = ask(profile, "storage.host_save").findings
    assert (finding.cause, finding.mechanism, finding.steps) == ("checkpoint_stall", "synchronous_save", (2,))
    assert measure(profile, "state_save_each_ms", rank=0).value == pytest.approx(30.0)
    assert measure(profile, "state_save_ms", rank=0).value == pytest.approx(30.0 / 5)
    assert measure(profile, "state_save_steps", rank=0).value == 1
    assert finding.confidence == 0.6
    assert "seldom" in finding.against[-1].template


def test_saves_in_two_steps_are_surer_than_in_one() -> None:
    (finding,) = answer(saving(at_steps=(0, 2))).findings
    assert finding.confidence == 0.75


def test_only_the_rank_that_saves_is_named() -> None:
    (finding,) = answer(saving(0), saving(1, at_steps=())).findings
    assert finding.ranks == (0,)


@pytest.mark.parametrize(
    "rank",
    [
        saving(detached=4),  # a loss and some metrics
        saving(between="aten::mul"),  # a histogram of each parameter
        saving(then="aten::_foreach_lerp_"),  # an average of the parameters
        saving(at_steps=(0, 1, 2, 3)),  # what comes in most steps is no save at intervals
        saving(frame="metrics.py(9): report"),  # Python frames show something else
        saving(at_steps=()),
    ],
)
def test_other_pauses_are_no_saves(rank: RankBuilder) -> None:
    assert answer(rank).status == "clean"


def test_frames_that_save_make_it_sure() -> None:
    (finding,) = answer(saving(at_steps=(0, 2), frame="torch/serialization.py(700): save")).findings
    assert finding.confidence > 0.8
    assert finding.against == ()


def test_the_only_step_of_a_trace_shows_no_saving_at_intervals() -> None:
    assert answer(saving(at_steps=(0,), steps=2)).status == "found"
    assert answer(saving(at_steps=(0,), steps=1)).status == "clean"


def rhythmic(build: tuple[int, ...], long_ms: float = 80.0) -> Profile:
    walls = [long_ms if step % 10 == 9 else 50.0 for step in range(60)]
    return recorded_profile(records_of([step_rows(0, walls)]), lambda number: saving(number, at_steps=build))


def test_long_steps_at_intervals_are_saves_where_the_trace_shows_one() -> None:
    (finding,) = ask(rhythmic((2,)), "storage.periodic_stall").findings
    assert (finding.mechanism, finding.confidence, finding.against) == ("synchronous_save", 0.85, ())
    for other in (rhythmic(()), rhythmic((2,), long_ms=150.0)):  # a save of 30 ms explains no long step of 100 ms more
        (open_one,) = ask(other, "storage.periodic_stall").findings
        assert (open_one.mechanism, open_one.confidence) == (None, 0.45)


def test_long_steps_that_no_source_explains_are_a_lead_and_no_cause() -> None:
    profile = rhythmic((), long_ms=150.0)
    judged = ranking(profile)
    assert "checkpoint_stall" not in {each.finding.cause for each in judged.causes}
    (lead,) = [each for each in judged.leads if each.place.part == "step"]
    assert profile.series is not None
    counted = len(step_series_of(profile.series, 0).numbers)  # of the 60, those that neither start up nor are profiled
    assert lead.impact_ms == pytest.approx(6 * 100.0 / counted)
    assert [each.cause for each in lead.candidates][:2] == ["checkpoint_stall", "evaluation_stall"]

"""Saving the state while the training waits, as the trace of a device shows it."""

from __future__ import annotations

import pytest

from tests.asked import STORAGE, asking
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.whatif.change import Scale

analyze = asking(*STORAGE)

STEPS, WORK_US, COPY_US = 6, 10_000.0, 1000.0


def saving_rank(
    saved: tuple[int, ...], pause_us: float, copied_bytes: int = 50_000_000, frame: str = "", steps: int = STEPS
) -> RankBuilder:
    """Steps of one long kernel; after it the steps that save copy to the host and pause."""
    rank = RankBuilder()
    at = 0.0
    for step in range(steps):
        begun = at
        rank.kernel("gemm", start_us=at + 4, duration_us=WORK_US, call_us=at)
        at += WORK_US + 4
        if step in saved:
            rank.copy(
                "Memcpy DtoH (Device -> Pageable)", at, COPY_US, call_us=at - 2, call_duration_us=COPY_US + 4,
                bytes_=copied_bytes,
            )  # fmt: skip
            at += COPY_US + 2
            if frame:
                rank.event(EventKind.PYTHON, frame, at, pause_us)
            at += pause_us
        rank.step(step, begun, at)
    return rank


def traced_save(profile: Profile) -> Check:
    (check,) = [check for check in analyze(profile) if check.name == "storage.traced_save"]
    return check


def test_steps_that_copy_a_state_and_pause_are_savings() -> None:
    (finding,) = traced_save(profile_of(saving_rank((1, 4), pause_us=6000))).findings
    assert (finding.cause, finding.mechanism, finding.steps) == ("checkpoint_stall", "synchronous_save", (1, 4))
    steps, copied, cost = finding.claim.facts
    assert (steps.value, copied.value) == (2, 50e6)
    assert cost.value == pytest.approx(2 * (6.0 + 1.0) / STEPS, rel=0.01)
    assert 0.25 < finding.confidence < 0.5, "without frames it may be anything that reads much back and then computes"
    assert finding.against
    (change,) = finding.change
    assert isinstance(change, Scale)
    assert len(change.intervals) == 2


def test_frames_that_save_name_the_cause() -> None:
    rank = saving_rank((1, 4), pause_us=6000, frame="torch/serialization.py(942): save")
    (finding,) = traced_save(profile_of(rank)).findings
    assert finding.confidence > 0.75
    assert not finding.against


@pytest.mark.parametrize(
    "rank",
    [
        pytest.param(saving_rank((), 0.0), id="nothing is copied"),
        pytest.param(saving_rank((1, 4), 6000, copied_bytes=4), id="a loss is read"),
        pytest.param(saving_rank((0, 1, 2, 4), 6000), id="copied in most steps, as when offloading"),
        pytest.param(
            saving_rank((1, 4), 6000, frame="sklearn/_ranking.py(500): roc_auc_score"), id="frames of a metric"
        ),
    ],
)
def test_what_is_no_saving_is_clean(rank: RankBuilder) -> None:
    assert traced_save(profile_of(rank)).status == "clean"


def test_one_saving_is_less_sure_than_several_and_copies_without_a_pause_less() -> None:
    (once,) = traced_save(profile_of(saving_rank((2,), 6000))).findings
    (several,) = traced_save(profile_of(saving_rank((2, 4), 6000))).findings
    (no_pause,) = traced_save(profile_of(saving_rank((2, 4), 0.0))).findings
    assert no_pause.confidence < once.confidence < several.confidence < 0.5


def test_without_a_device_the_trace_cannot_show_it() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 0, 100)
    rank.step(0, 0, 100)
    assert traced_save(profile_of(rank)).status == "cannot_answer"


@pytest.mark.parametrize(
    ("frame", "status"), [("", "cannot_answer"), ("torch/serialization.py(942): save", "found")], ids=["none", "saving"]
)
def test_in_one_step_only_frames_show_a_save(frame: str, status: str) -> None:
    check = traced_save(profile_of(saving_rank((0,), 60_000, frame=frame, steps=1)))
    assert check.status == status
    for finding in check.findings:
        assert finding.confidence <= 0.6
        assert finding.claim.facts[2].value == pytest.approx(61.0, rel=0.01)
        assert "more seldom" in finding.against[0].template

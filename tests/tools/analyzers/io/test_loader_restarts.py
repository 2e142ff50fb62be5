"""Loader workers that are started again in every epoch, by the calls at the end and the begin of an epoch."""

from __future__ import annotations

import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.views.profile import Profile

CALL = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def epochs(ending_ms: float, starting_ms: float, first_ms: float, length: int = 4, steps: int = 12) -> Profile:
    """Steps of 40 ms behind a loader call of 1 ms; each epoch of ``length`` steps ends with a call without a batch."""
    rank, at = RankBuilder(device=None), 0.0
    for step in range(steps):
        begun, call_us = at, 1_000.0
        if step and step % length == 0:
            rank.annotation(CALL, at, 1e3 * ending_ms)
            at += 1e3 * (ending_ms + starting_ms)
            call_us = 1e3 * first_ms
        rank.annotation(CALL, at, call_us)
        rank.operator("aten::mm", at + call_us, 20_000)
        rank.operator("autograd::engine::evaluate_function: MmBackward0", at + call_us + 20_000, 19_000)
        at += call_us + 40_000
        rank.step(step, begun, at)
    return profile_of(rank)


def test_a_restart_lasts_from_the_end_of_an_epoch_to_the_first_batch_of_the_next() -> None:
    profile = epochs(10.0, 15.0, 35.0)
    (finding,) = ask(profile, "io.data_loader").findings
    assert (finding.cause, finding.mechanism, finding.steps) == ("slow_data_processing", "workers_restarted", (4, 8))
    count, each, cost = (fact.value for fact in finding.claim.facts)
    assert [count, each, cost] == pytest.approx([2, 60.0, 10.0])
    (cause, *_) = ranking(profile).causes
    assert cause.finding.mechanism == "workers_restarted"
    assert cause.impact_ms == pytest.approx(2 * 59.0 / 12, rel=0.05)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param((0.02, 0.5, 4.0), id="workers live on"),
        pytest.param((0.02, 30.0, 35.0), id="the program pauses between epochs"),
    ],
)
def test_epochs_of_persistent_workers_are_none(run: tuple[float, float, float]) -> None:
    profile = epochs(*run)
    assert measure(profile, "worker_restarts", rank=0).value == 0
    answer = ask(profile, "io.data_loader")
    assert all(finding.mechanism != "workers_restarted" for finding in answer.findings)
    assert not ask(epochs(*run), "io.data_loader").findings or answer.findings[0].mechanism == "unexplained_wait"


def test_batches_that_are_skipped_are_none() -> None:
    rank = RankBuilder(device=None)
    for call in range(6):
        rank.annotation(CALL, 20_000 * call, 15_000)
    rank.operator("autograd::engine::evaluate_function: MmBackward0", 120_000, 20_000)
    rank.step(0, 0, 150_000)
    assert measure(profile_of(rank), "worker_restarts", rank=0).value == 0


def test_two_loaders_in_every_step_are_none() -> None:
    rank = RankBuilder(device=None)
    for step in range(10):
        at = 48_000.0 * step
        rank.annotation(CALL, at, 3_000)
        rank.annotation(CALL, at + 5_000, 4_000)
        rank.operator("aten::mm", at + 9_000, 20_000)
        rank.operator("autograd::engine::evaluate_function: MmBackward0", at + 29_000, 19_000)
        rank.step(step, at, at + 48_000)
    assert measure(profile_of(rank), "worker_restarts", rank=0).value == 0

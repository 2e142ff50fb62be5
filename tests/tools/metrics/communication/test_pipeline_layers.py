"""Layers that the stages of a pipeline repeat, from made-up stages and from recorded ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import V100, RankBuilder, profile_of
from tools.errors import InputError
from tools.metrics.communication.pipeline import pipeline
from tools.metrics.communication.pipeline_layers import planned_stages, recorded_layers
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

RECORDED = Path(__file__).parents[4] / "evals/lab/recorded"
BLOCK = [("aten::layer_norm", 100.0), ("aten::linear", 400.0)]
EMBEDDING, LOSS = [("aten::embedding", 300.0)], [("aten::nll_loss", 200.0)]
STEPS, MICRO_BATCHES, TRANSFER_US = 3, 2, 20.0
BACKWARD = 2.0  # times as long as forward


class StageBuilder:
    """One rank that computes operators, on the host or as kernels, and exchanges."""

    def __init__(self, number: int, operators: Sequence[tuple[str, float]], on_device: bool) -> None:
        self.rank = RankBuilder(number, device=V100 if on_device else None)
        self.operators, self.on_device = operators, on_device
        self.now_us, self.sequence = 0.0, 10
        self.passes: list[list[int]] = []

    def _run(self, name: str, us: float, sequence: int, forward: bool) -> None:
        thread = 0 if forward else 1
        self.rank.operator(name, self.now_us, 5 if self.on_device else us, sequence=sequence, forward_thread=thread)
        if self.on_device:
            self.rank.kernel(f"k {name}", self.now_us + 4, us, call_us=self.now_us + 1)
        self.now_us += us + (10 if self.on_device else 0)

    def forward(self) -> None:
        """One micro-batch; ``aten::detach`` leaves nothing to autograd."""
        own = []
        for name, us in self.operators:
            own.append(self.sequence)
            self._run(name, us, self.sequence, True)
            self.sequence += 2  # the operator is two nodes of the graph
        self._run("aten::detach", 1.0, self.sequence, True)
        self.passes.append(own)

    def backward(self) -> None:
        """The last micro-batch that is not yet through."""
        numbers = self.passes.pop()
        for (name, us), first in zip(reversed(self.operators), reversed(numbers), strict=True):
            node = f"autograd::engine::evaluate_function: {name[6:].title()}Backward0"
            for number in (first + 1, first):
                self._run(node, BACKWARD * us / 2, number, False)

    def exchange(self, kind: str, until_us: float) -> None:
        """A transfer that lasts at least until then."""
        us = max(TRANSFER_US, until_us - self.now_us)
        if self.on_device:
            self.rank.operator(f"c10d::{kind}", self.now_us, 5)
            self.rank.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", self.now_us + 4, us, self.now_us + 1)
            self.now_us += us + 10
            return
        span = self.rank.annotation(f"gloo:{kind}", self.now_us, us)
        self.rank.detail("operators", span, dims="[[64]]", types='["float"]', sequence=-1, forward_thread=-1)
        self.now_us += us


def two_stages(
    first: Sequence[tuple[str, float]], last: Sequence[tuple[str, float]], on_device: bool = False
) -> Profile:
    """All forward passes, then all backward ones."""
    stages = [StageBuilder(0, first, on_device), StageBuilder(1, last, on_device)]
    for step in range(STEPS):
        begin_us, arrived = stages[0].now_us, []
        for _ in range(MICRO_BATCHES):
            stages[0].forward()
            stages[0].exchange("send", 0.0)
            arrived.append(stages[0].now_us)
        for moment in arrived:
            stages[1].exchange("recv", moment)
            stages[1].forward()
        returned = []
        for _ in range(MICRO_BATCHES):
            stages[1].backward()
            stages[1].exchange("send", 0.0)
            returned.append(stages[1].now_us)
        for moment in returned:
            stages[0].exchange("recv", moment)
            stages[0].backward()
        end_us = max(each.now_us for each in stages)
        for each in stages:
            each.rank.step(step, begin_us, end_us)
            each.now_us = end_us
    return profile_of(*(each.rank for each in stages))


def best_by_all_cuts(loads: Sequence[float], stages: int) -> tuple[float, tuple[int, ...]]:
    """The least time of the slowest stage over all cuts."""
    found = []
    for cuts in combinations(range(1, len(loads)), stages - 1):
        edges = [0, *cuts, len(loads)]
        spans = list(pairwise(edges))
        found.append((max(sum(loads[low:high]) for low, high in spans), tuple(high - low for low, high in spans)))
    return min(found)


@pytest.mark.parametrize("on_device", [False, True])
def test_layers_and_their_times_are_those_of_the_model(on_device: bool) -> None:
    profile = two_stages(EMBEDDING + 2 * BLOCK, 4 * BLOCK + LOSS, on_device)
    found = recorded_layers(profile)
    assert (found.ranks, found.per_stage, found.micro_batches) == ((0, 1), (2, 4), MICRO_BATCHES)
    ahead = [0.8, 0.5, 0.5, 0.5, 0.5, 0.7]
    assert found.forward_ms == pytest.approx(ahead, rel=0.01)
    assert found.backward_ms == pytest.approx([BACKWARD * each for each in ahead], rel=0.01)
    stages = pipeline(profile)
    assert stages is not None
    both = found.forward_ms + found.backward_ms
    sums = MICRO_BATCHES * np.array([both[:2].sum(), both[2:].sum()])
    assert sums == pytest.approx(stages.table["compute_ms"].to_numpy())


def test_the_planned_cut_is_the_best_of_all() -> None:
    profile = two_stages(EMBEDDING + 2 * BLOCK, 4 * BLOCK + LOSS)
    planned = planned_stages(profile)
    least_ms, counts = best_by_all_cuts([2.4, 1.5, 1.5, 1.5, 1.5, 2.1], 2)
    assert planned.per_stage == counts == (3, 3)
    assert planned.moves
    assert planned.made.before_ms == pytest.approx(6.6, rel=0.01)
    assert planned.made.after_ms == pytest.approx(least_ms, rel=0.01)
    assert measure(profile, "planned_stage_ms").value == pytest.approx(MICRO_BATCHES * least_ms, rel=0.01)


def test_a_cut_that_is_the_best_stays() -> None:
    assert not planned_stages(two_stages(EMBEDDING + 3 * BLOCK, 3 * BLOCK + LOSS)).moves


@pytest.mark.parametrize("name", ["stages-strong", "stages_narrow-strong"])
def test_recorded_stages_get_the_layers_that_the_fix_gave_them(name: str) -> None:
    slow, fixed = (
        planned_stages(Profile(load_run([RECORDED / "heavy_stage" / name / part]))) for part in ("slow", "fixed")
    )
    assert slow.layers.per_stage == (1, 5)
    assert slow.per_stage == fixed.layers.per_stage == fixed.per_stage == (3, 3)
    loads = (slow.layers.forward_ms + slow.layers.backward_ms).tolist()
    assert slow.made.after_ms == pytest.approx(best_by_all_cuts(loads, 2)[0])


UNEQUAL = [("aten::conv2d", 500.0), ("aten::linear", 400.0), ("aten::gelu", 300.0), ("aten::embedding", 200.0)]


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (UNEQUAL[:2], UNEQUAL[2:], "no layers that repeat"),
        (EMBEDDING, 6 * BLOCK, "stage of rank 0 holds none"),
        (BLOCK[:1], [BLOCK[1], *5 * BLOCK], "stage of rank 0 holds none"),
    ],
)
def test_stages_without_whole_layers_are_refused(
    first: Sequence[tuple[str, float]], last: Sequence[tuple[str, float]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        recorded_layers(two_stages(first, last))


def test_a_run_without_a_pipeline_is_refused() -> None:
    rank = RankBuilder(0, device=None)
    rank.operator("aten::linear", 0, 50, sequence=1)
    rank.step(0, 0, 100)
    with pytest.raises(InputError, match="no pipeline of stages"):
        recorded_layers(profile_of(rank))

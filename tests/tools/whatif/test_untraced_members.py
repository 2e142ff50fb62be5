"""Collectives of groups of which one rank was traced, next to groups that a late rank holds up as well."""

from __future__ import annotations

import numpy as np
import pytest

from tests.collective_runs import RING
from tests.synthetic import RankBuilder, profile_of, to_ns
from tools.run.model import Layout
from tools.views.profile import Profile
from tools.whatif.change import Scale
from tools.whatif.predict import predict, unchanged

COMPUTE_US, LATE_US, TRANSFER_US, STEP_US = 1_000.0, 3_000.0, 200.0, 4_000.0
STEPS = 4


def one_of_two_groups(lone_end_us: float, lone_elements: int = 1 << 20) -> Profile:
    """Ranks 0 and 1 reduce one part of the gradients, rank 2 and one without a trace the other part; rank 1 is late.

    The collective of rank 2 ends ``lone_end_us`` after a step's begin.
    """
    met_us = LATE_US + TRANSFER_US
    lengths = ((COMPUTE_US, met_us, "a"), (LATE_US, met_us, "a"), (COMPUTE_US, lone_end_us, "b"))
    builders = [RankBuilder(rank) for rank in range(3)]
    for rank, (compute_us, end_us, group) in zip(builders, lengths, strict=True):
        for step in range(STEPS):
            begin = step * STEP_US
            rank.kernel("gemm", begin + 10, compute_us - 10, call_us=begin + 2)
            reduced = rank.kernel(RING, begin + compute_us, end_us - compute_us, call_us=begin + 6)
            elements = lone_elements if group == "b" else 1 << 20
            sizes = {"group_size": 2, "in_elements": elements, "out_elements": elements, "dtype": "Float"}
            rank.detail("collectives", reduced, collective="allreduce", group=group, ranks=group, **sizes)
            rank.runtime("cudaDeviceSynchronize", begin + 9, end_us - 4)
            rank.step(step, begin, begin + STEP_US)
    return profile_of(*builders, layout=Layout(world_size=4))


def saved_us(profile: Profile) -> float:
    """What rank 1 brings by computing as fast as the others, per step."""
    spans = [[to_ns(step * STEP_US + COMPUTE_US), to_ns(step * STEP_US + LATE_US)] for step in range(STEPS)]
    track = int(profile.rank(1).track[profile.rank(1).communication_kernels[0]])
    return predict(profile, (Scale(1, track, np.array(spans, dtype=np.int64)),)).saving_ms * 1e3


def test_a_collective_that_ends_with_a_parallel_groups_waited_for_the_same_rank() -> None:
    assert saved_us(one_of_two_groups(LATE_US + TRANSFER_US + 20)) == pytest.approx(LATE_US - COMPUTE_US, abs=5)


@pytest.mark.parametrize(
    ("lone_end_us", "elements"),
    [
        pytest.param(LATE_US - 50, 1 << 20, id="it ended before the late rank came"),
        pytest.param(LATE_US + 2.5 * TRANSFER_US, 1 << 20, id="it ended long after the late rank had come"),
        pytest.param(LATE_US + TRANSFER_US, 1 << 18, id="it carries something else"),
    ],
)
def test_any_other_collective_of_an_untraced_rank_lasts_as_long_as_it_did(lone_end_us: float, elements: int) -> None:
    assert saved_us(one_of_two_groups(lone_end_us, elements)) == pytest.approx(0.0, abs=5)


def test_the_replay_of_the_unchanged_run_ends_as_recorded() -> None:
    assert unchanged(one_of_two_groups(LATE_US + TRANSFER_US + 20)).missed_ms == pytest.approx(0.0, abs=1e-3)

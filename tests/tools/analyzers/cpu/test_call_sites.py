"""Where forward operators note who called them, shown by the operators that do nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.synthetic import RankBuilder, profile_of, to_ns
from tools.analyzers.cpu.environment import noting_spans
from tools.intervals import length
from tools.views.rank_profile import RankProfile


def forward(views: int) -> RankProfile:
    """A step with a multiplication inside a linear layer, views of 80 us, and their gradients."""
    rank = RankBuilder(0, device=None)
    rank.operator("aten::linear", 10, 900, sequence=7)  # its number is that of the node made inside
    rank.operator("aten::addmm", 20, 880, sequence=7)
    for place in range(views):
        at = 1_000 + 100 * place
        rank.operator("aten::view", at, 80, sequence=8 + place)
        rank.operator("ViewBackward0", 5_000 + at, 50, sequence=8 + place, forward_thread=1)
    rank.operator("aten::view", 9_000, 3)  # of the update, which makes no nodes
    rank.step(0, 0, 10_000)
    return profile_of(rank).ranks[0]


def test_every_operator_that_made_a_node_noted_its_call_for_as_long_as_a_view_takes() -> None:
    view = forward(views=9)
    spans = noting_spans(view, int(view.training_tracks[0]))
    assert length(spans) == pytest.approx(to_ns(10 * 80), abs=10)
    assert np.array_equal(spans[0], [view.start.min() + to_ns(820), view.start.min() + to_ns(900)])


def test_too_few_views_show_nothing() -> None:
    view = forward(views=4)
    assert length(noting_spans(view, int(view.training_tracks[0]))) == 0

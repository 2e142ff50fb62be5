"""Finding the operator and the Python line around a call."""

from __future__ import annotations

import numpy as np

from tests.synthetic import RankBuilder, profile_of
from tools.run.events import EventKind
from tools.views.work import commonest, outermost_operators, python_frames, surrounding_annotations


def test_the_outermost_operator_the_annotation_and_the_users_own_line_are_found() -> None:
    rank = RankBuilder()
    rank.event(EventKind.PYTHON, "train.py(40): train_step", 0, 100)
    rank.event(EventKind.PYTHON, "torch/_tensor.py(12): item", 5, 50)
    rank.annotation("## metrics ##", 2, 80)
    rank.operator("aten::item", 10, 30)
    rank.operator("aten::_local_scalar_dense", 12, 26)
    call = rank.runtime("cudaStreamSynchronize", 14, 20)
    outside = rank.runtime("cudaDeviceSynchronize", 90, 5)
    rank.step(0, 0, 100)
    view = profile_of(rank).rank(0)
    rows = rank.rows()[[call, outside]]
    weights = np.array([20, 5], dtype=np.int64)
    assert commonest(view, outermost_operators(view, rows), weights) == "aten::item"
    assert outermost_operators(view, rows)[1] == -1
    assert commonest(view, surrounding_annotations(view, rows), weights) == "## metrics ##"
    assert view.names(python_frames(view, rows)) == ["train.py(40): train_step"] * 2


def test_nothing_around_gives_an_empty_name() -> None:
    rank = RankBuilder()
    call = rank.runtime("cudaDeviceSynchronize", 10, 5)
    rank.step(0, 0, 100)
    view = profile_of(rank).rank(0)
    rows = rank.rows()[[call]]
    assert commonest(view, outermost_operators(view, rows), np.array([1], dtype=np.int64)) == ""

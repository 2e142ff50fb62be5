"""Time per name: kernels by duration, operators by their own time, and how alike two runs are."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.errors import UsageError
from tools.findings import Argument
from tools.metrics.registry import measure
from tools.views.work import backward_nodes, kernel_work, operator_work, similarity


def test_an_operator_is_charged_only_for_what_runs_outside_the_operators_inside_it() -> None:
    rank = RankBuilder(0)
    rank.operator("aten::linear", 10, 100)
    rank.operator("aten::addmm", 20, 60)
    rank.operator("aten::copy_", 30, 10)
    rank.operator("aten::copy_", 50, 10)
    rank.step(0, 0, 200)
    own = operator_work(profile_of(rank))["ms"]
    assert own.to_dict() == pytest.approx({"aten::linear": 0.04, "aten::addmm": 0.04, "aten::copy_": 0.02})


def test_work_is_the_mean_over_steps_and_ranks_and_leaves_out_what_is_outside_steps() -> None:
    builders = []
    for number, duration in enumerate((100.0, 300.0)):
        rank = RankBuilder(number)
        rank.kernel("sgemm", 10, duration)
        rank.kernel("sgemm", 2500, 999)
        rank.step(0, 0, 1000)
        rank.step(1, 1000, 2000)
        builders.append(rank)
    profile = profile_of(*builders)
    table = kernel_work(profile)
    assert table["ms"].tolist() == pytest.approx([0.1])
    assert table["count"].tolist() == pytest.approx([0.5])
    assert measure(profile, "kernel_name_ms", name="sgemm").value == pytest.approx(0.1)
    assert measure(profile, "kernel_name_ms", name="absent", compared=1).value == 0.0


@pytest.mark.parametrize(
    ("metric", "scope"),
    [
        ("kernel_name_ms", {}),
        ("rank_kernel_ms", {"rank": 0}),
        ("rank_kernel_count", {"rank": 0}),
        ("step_name_longest_ms", {"rank": 0, "step": 0, "place": "device"}),
    ],
)
def test_a_kernel_that_no_rank_runs_is_an_error_with_the_nearest_names(metric: str, scope: dict[str, Argument]) -> None:
    first, second = RankBuilder(0), RankBuilder(1)
    for rank in (first, second):
        rank.kernel("sgemm_128x64", 10, 100)
        rank.step(0, 0, 1000)
    second.kernel("softmax", 200, 100)
    profile = profile_of(first, second)
    with pytest.raises(UsageError, match=r"there is no .* 'sgem'; .* sgemm_128x64"):
        measure(profile, metric, name="sgem", **scope)
    assert measure(profile, metric, name="softmax", **scope).value == pytest.approx(0.05 if not scope else 0.0)


def test_likeness_is_what_two_multisets_share_of_what_either_has() -> None:
    a = pd.Series({"x": 4.0, "y": 2.0})
    assert similarity(a, a) == 1.0
    assert similarity(a, pd.Series({"x": 2.0, "z": 2.0})) == pytest.approx(2.0 / 8.0)
    assert similarity(a, pd.Series({"z": 1.0})) == 0.0
    assert similarity(pd.Series(dtype="float64"), pd.Series(dtype="float64")) == 0.0


def test_backward_nodes_are_told_by_the_autograd_engines_spans() -> None:
    rank = RankBuilder(0)
    rank.operator("autograd::engine::evaluate_function: MmBackward0", 10, 50)
    rank.operator("aten::mm", 20, 10)
    rank.step(0, 0, 100)
    assert backward_nodes(operator_work(profile_of(rank))).tolist() == [1.0]

"""The layers of a run."""

from __future__ import annotations

from tests.synthetic import RankBuilder, profile_of
from tools.comparison.comparability import layers


def test_layers_are_distinct_parameter_shapes_whatever_the_batch_and_the_number_of_calls() -> None:
    rank = RankBuilder(0)
    rank.operator("aten::convolution", 10, 5, dims=[[24, 3, 48, 48], [32, 3, 3, 3], [32], [], []])
    for start, batch in ((20, 8), (30, 16)):
        rank.operator("aten::addmm", start, 5, dims=[[16], [batch, 256], [256, 16], [], []])
    rank.operator("aten::mm", 40, 5, dims=[[8, 256], [256, 16]])
    rank.operator("aten::embedding", 50, 5, dims=[[512, 160], [8, 96]])
    rank.operator("aten::linear", 500, 5, dims=[[8, 4], [2, 4]])
    rank.step(0, 0, 100)
    assert layers(profile_of(rank)).to_dict() == {
        "aten::addmm [256, 16]": 1.0,
        "aten::convolution [32, 3, 3, 3]": 1.0,
        "aten::embedding [512, 160]": 1.0,
    }


def test_stages_on_different_ranks_are_one_model() -> None:
    builders = []
    for number, width in enumerate((64, 128)):
        rank = RankBuilder(number)
        rank.operator("aten::linear", 10, 5, dims=[[8, width], [16, width]])
        rank.step(0, 0, 100)
        builders.append(rank)
    assert list(layers(profile_of(*builders)).index) == ["aten::linear [16, 128]", "aten::linear [16, 64]"]


def test_without_recorded_shapes_no_layer_is_known() -> None:
    rank = RankBuilder(0)
    rank.operator("aten::linear", 10, 5)
    rank.operator("aten::linear", 20, 5, dims=["odd", {}])
    rank.step(0, 0, 100)
    assert len(layers(profile_of(rank))) == 0

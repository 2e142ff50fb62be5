"""What traces tell about the job's layout; what they do not tell stays unknown."""

from __future__ import annotations

import pytest

from tools.run.layout import JobFacts, describe, ranks_of
from tools.run.model import Layout, ProcessGroup


def group(name: str, description: str, ranks: list[int]) -> dict[str, object]:
    return {
        "pg_name": name,
        "pg_desc": description,
        "backend_config": "cuda:nccl",
        "pg_size": len(ranks),
        "ranks": ranks,
    }


def test_groups_named_after_dimensions_give_their_sizes() -> None:
    groups = [
        group("0", "default_pg", list(range(16))),
        group("1", "DATA_PARALLEL_GROUP", [0, 8]),
        group("2", "TENSOR_MODEL_PARALLEL_GROUP", [0, 1, 2, 3]),
        group("3", "PIPELINE_MODEL_PARALLEL_GROUP", [0, 4]),
        group("4", "EXPERT_MODEL_PARALLEL_GROUP", [0, 1]),
        group("5", "DATA_PARALLEL_GROUP_WITH_CP", [0, 4, 8, 12]),
        group("6", "EXPERT_DATA_PARALLEL_GROUP", [0, 4, 8]),
    ]

    layout = describe([JobFacts(16, "nccl", groups, {})])

    assert (layout.world_size, layout.backend) == (16, "nccl")
    assert layout.data_parallel == 2
    assert layout.tensor_parallel == 4
    assert layout.pipeline_parallel == 2
    assert layout.expert_parallel == 2
    assert layout.groups[2] == ProcessGroup("2", "TENSOR_MODEL_PARALLEL_GROUP", "cuda:nccl", (0, 1, 2, 3), 4)


@pytest.mark.parametrize(
    ("description", "field"), [("mesh_dp", "data_parallel"), ("tp", "tensor_parallel"), ("pp_1", "pipeline_parallel")]
)
def test_short_names_of_device_meshes_are_known(description: str, field: str) -> None:
    layout = describe([JobFacts(8, "nccl", [group("1", description, [0, 1])], {})])

    assert getattr(layout, field) == 2


def test_sizes_that_contradict_each_other_are_unknown() -> None:
    facts = [
        JobFacts(4, "nccl", [group("1", "tp", [0, 1])], {}),
        JobFacts(8, "nccl", [group("2", "tp", [0, 1, 2])], {}),
    ]

    layout = describe(facts)

    assert layout.world_size is None
    assert layout.tensor_parallel is None
    assert layout.backend == "nccl"


def test_nothing_said_is_nothing_known() -> None:
    assert describe([JobFacts(None, None, [], {})]) == Layout()
    assert describe([JobFacts(8, None, [group("0", "default_pg", list(range(8)))], {})]).data_parallel is None


def test_groups_seen_only_in_collectives_are_listed() -> None:
    layout = describe([JobFacts(4, "nccl", [group("0", "default_pg", [0, 1, 2, 3])], {"7": ("tp", "[2, 3]", 2)})])

    assert [found.name for found in layout.groups] == ["0", "7"]
    assert layout.groups[1].ranks == (2, 3)
    assert layout.tensor_parallel == 2


def test_ranks_that_were_cut_short_are_unknown() -> None:
    assert ranks_of("[0, 1, 2]") == (0, 1, 2)
    assert ranks_of("[0, 1, ...]") == ()
    assert ranks_of(["a"]) == ()
    assert ranks_of(None) == ()

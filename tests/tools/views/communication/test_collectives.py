"""The table of collectives: where their attributes come from, and how ranks are matched."""

from __future__ import annotations

import pytest

from tests.collective_runs import RING, all_reduce, late_run
from tests.synthetic import RankBuilder, profile_of
from tools.knowledge.name_patterns import collective_kind
from tools.run.model import Layout
from tools.views.communication.collectives import (
    UNKNOWN,
    bus_factor,
    collectives,
    element_bytes_of,
    elements_of,
    unmatched,
)
from tools.views.device.operator_cost import element_bytes


def test_a_kernel_that_carries_its_parameters_is_read_from_them() -> None:
    rank = RankBuilder(0)
    handle = rank.kernel("ncclDevKernel_Generic(args)", 100, 50, call_us=10)
    rank.detail(
        "collectives",
        handle,
        collective="allgather",
        group="dp",
        group_size=4,
        ranks="[0, 1, 2, 3]",
        dtype="BFloat16",
        in_elements=1000,
        out_elements=4000,
    )
    rank.step(7, 0, 200)
    row = collectives(profile_of(rank)).iloc[0]
    assert (row["kind"], row["group"], row["members"], row["group_size"]) == ("all_gather", "dp", "[0, 1, 2, 3]", 4)
    assert (row["bytes"], row["step"], row["sequence"], row["match"]) == (8000, 7, 0, -1)


def test_parameters_recorded_around_the_launch_reach_the_kernel_and_waits_do_not() -> None:
    rank = RankBuilder(0)
    for name, start, elements in (("reduce_scatter", 10.0, 64), ("wait", 40.0, 0)):
        record = rank.operator("record_param_comms", start, 20)
        rank.detail(
            "collectives",
            record,
            collective=name,
            group="1",
            group_size=2,
            ranks="",
            dtype="Float",
            in_elements=elements,
            out_elements=elements // 2,
        )
    rank.kernel("ncclKernel_ReduceScatter_RING_LL_Sum_float(a)", 100, 50, call_us=15)
    rank.kernel(RING, 160, 20, call_us=45)
    rank.step(0, 0, 300)
    table = collectives(profile_of(rank, layout=Layout(world_size=8)))
    assert table["kind"].tolist() == ["reduce_scatter", "all_reduce"]
    assert table["bytes"].tolist() == [256, -1]
    assert table["group_size"].tolist() == [2, 8]


def test_a_span_around_the_launch_names_kind_and_size_of_a_send_receive_kernel() -> None:
    rank = RankBuilder(0)
    span = rank.annotation("nccl:all_to_all", 10, 20)
    rank.detail("operators", span, dims="[[6144]]", types='["float"]')
    rank.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(a)", 100, 50, call_us=15)
    rank.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(a)", 160, 50, call_us=60)
    rank.step(0, 0, 300)
    table = collectives(profile_of(rank))
    assert table["kind"].tolist() == ["all_to_all", "send_recv"]
    assert table["bytes"].tolist() == [24576, -1]


def test_without_a_device_the_library_spans_of_any_thread_are_the_collectives() -> None:
    rank = RankBuilder(0, device=None)
    rank.operator("aten::mm", 10, 20)
    span = rank.annotation("gloo:all_reduce", 30, 40, track=rank.host_thread("gloo"))
    rank.detail("operators", span, dims="[[100]]", types='["float"]')
    rank.step(3, 0, 100)
    row = collectives(profile_of(rank, layout=Layout(world_size=2))).iloc[0]
    assert (row["kind"], row["bytes"], row["group_size"], row["step"]) == ("all_reduce", 400, 2, 3)


def test_a_collective_belongs_to_the_step_that_asked_for_it() -> None:
    rank = RankBuilder(0)
    all_reduce(rank, 150, 20, call_us=50)
    rank.step(0, 0, 100)
    rank.step(1, 100, 200)
    assert collectives(profile_of(rank))["step"].tolist() == [0]


def test_the_nth_collective_of_a_step_is_matched_across_ranks() -> None:
    profile = late_run(lambda rank, step: 100.0 * rank, ranks=3, steps=2)
    table = collectives(profile)
    assert table.groupby("match")["rank"].apply(list).tolist() == [[0, 1, 2], [0, 1, 2]]
    assert table.groupby("match")["step"].nunique().tolist() == [1, 1]
    assert unmatched(profile) == 0


def _pair(first: list[tuple[float, float, int]], second: list[tuple[float, float, int]]) -> list[int]:
    builders = []
    for number, messages in enumerate((first, second)):
        rank = RankBuilder(number)
        for start, duration, elements in messages:
            all_reduce(rank, start, duration, call_us=start - 5, elements=elements)
        rank.step(0, 0, 1000)
        builders.append(rank)
    profile = profile_of(*builders)
    assert unmatched(profile) == int((collectives(profile)["match"] < 0).sum())
    return [int(match) for match in collectives(profile)["match"]]


def test_collectives_of_unequal_size_are_not_matched_and_are_counted() -> None:
    matches = _pair([(10, 20, 64), (50, 20, 128)], [(10, 20, 64), (50, 20, 256)])
    assert matches[0] == matches[2] >= 0
    assert matches[1] == matches[3] == -1


def test_ranks_with_unequal_numbers_of_collectives_are_not_matched() -> None:
    assert _pair([(10, 20, 64), (50, 20, 64)], [(10, 20, 64)]) == [-1, -1, -1]


def test_collectives_that_never_overlap_in_time_are_not_matched() -> None:
    matches = _pair([(10, 20, 64), (50, 20, 64), (100, 20, 64)], [(10, 20, 64), (50, 20, 64), (300, 20, 64)])
    assert matches[0] == matches[3] >= 0
    assert matches[2] == matches[5] == -1


def test_clocks_that_are_apart_do_not_undo_all_matches() -> None:
    matches = _pair([(10, 20, 64), (50, 20, 64)], [(510, 20, 64), (550, 20, 64)])
    assert matches[0] == matches[2] >= 0
    assert matches[1] == matches[3] >= 0


def test_point_to_point_transfers_are_listed_and_never_matched_nor_counted_as_lonely() -> None:
    builders = []
    for number in range(2):
        rank = RankBuilder(number)
        rank.annotation("nccl:send 0->1", 5, 20)
        rank.kernel("ncclDevKernel_SendRecv(a)", 30, 20, call_us=10)
        rank.step(0, 0, 100)
        builders.append(rank)
    profile = profile_of(*builders)
    assert collectives(profile)["kind"].tolist() == ["send_recv", "send_recv"]
    assert collectives(profile)["match"].tolist() == [-1, -1]
    assert unmatched(profile) == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nccl:_all_gather_base", "all_gather"),
        ("allreduce_coalesced", "all_reduce"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32(a)", "reduce"),
        ("nccl:recv 0<-1", "send_recv"),
        ("ncclDevKernel_Generic(a)", ""),
    ],
)
def test_names_of_libraries_lead_to_one_kind(name: str, kind: str) -> None:
    assert collective_kind(name) == kind


def test_recorded_shapes_and_types_give_sizes_and_damaged_ones_nothing() -> None:
    assert elements_of("[[8, 1024, 10], []]") == 81920
    assert elements_of("[[[100], [20, 2]], []]") == 140
    for damaged in ("", "[", "[[]]", "[]", "null", "[[-1]]", '[["x"]]', "[[1e3]]", "[" * 5000, f"[[{1 << 60}]]"):
        assert elements_of(damaged) == UNKNOWN
    assert (element_bytes("c10::BFloat16"), element_bytes("Long"), element_bytes("odd")) == (2, 8, UNKNOWN)
    assert (element_bytes_of('["float", ""]'), element_bytes_of("[]")) == (4, UNKNOWN)


def test_bus_factors_are_those_of_the_nccl_tests() -> None:
    assert bus_factor("all_reduce", 8) == pytest.approx(1.75)
    assert bus_factor("all_gather", 4) == pytest.approx(0.75)
    assert bus_factor("broadcast", 4) == 1.0
    assert bus_factor("all_reduce", 1) == 1.0

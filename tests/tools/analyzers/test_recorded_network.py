"""Whose losses, bytes and interfaces the machine's network counters speak of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from tests.asked import NETWORK, asking
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder
from tools.findings import Check
from tools.metrics.registry import measure
from tools.run.recorded.records import Interface, RankEnvironment
from tools.views.profile import Profile

retransmission = asking(*NETWORK)

STEPS = [50.0] * 40
LOSING = {"tcp_sent_segments": 2_000.0, "tcp_retransmitted_segments": 100.0}


def on_cpu(rank: int, steps_with: Sequence[int] = (0, 1, 2), sized: bool = True) -> RankBuilder:
    """All-reduces of 4 MB, exposed for two fifths of the steps named."""
    builder = RankBuilder(rank=rank, device=None)
    gloo = builder.host_thread("gloo")
    for step in range(3):
        begin = step * 50_000
        builder.operator("aten::mm", begin + 10, 29_900)
        builder.step(1000 + step, begin, begin + 50_000)
        if step not in steps_with:
            continue
        moved = builder.annotation("gloo:all_reduce", begin + 30_000, 19_900, track=gloo)
        if sized:
            sizes = {"group_size": 2, "in_elements": 1_000_000, "out_elements": 1_000_000}
            builder.detail("collectives", moved, collective="allreduce", group="0", dtype="Float", **sizes)
    return builder


def on_device(rank: int) -> RankBuilder:
    """The same with NCCL."""
    builder = RankBuilder(rank=rank)
    for step in range(3):
        begin = step * 50_000
        builder.kernel("gemm", begin + 10, 29_900, call_us=begin + 1)
        moved = builder.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin + 30_000, 19_900, call_us=begin + 20)
        sizes = {"group_size": 2, "in_elements": 1_000_000, "out_elements": 1_000_000}
        builder.detail("collectives", moved, collective="allreduce", group="0", dtype="Float", **sizes)
        builder.step(1000 + step, begin, begin + 50_000)
    return builder


def recorded(
    rates: Mapping[str, float],
    build: Callable[[int], RankBuilder] = on_cpu,
    environment: Callable[[int], RankEnvironment] = environment_of,
    walls: Sequence[float] = STEPS,
) -> Profile:
    """Two ranks on a machine each."""
    steps = [step_rows(rank, walls) for rank in (0, 1)]
    records = records_of(steps, dict.fromkeys((0, 1), rates), None, [environment(rank) for rank in (0, 1)])
    hosts = tuple(replace(each, host=f"node-{each.rank}") for each in records.ranks)
    return recorded_profile(replace(records, ranks=hosts), build)


def losses(profile: Profile) -> Check:
    return retransmission(profile)[0]


@pytest.mark.parametrize(
    ("build", "bytes_per_s", "status"),
    [
        pytest.param(on_cpu, 85e6, "found", id="gloo, and its bytes are counted"),
        pytest.param(on_cpu, 1e6, "cannot_answer", id="gloo over something else"),
        pytest.param(on_device, 85e6, "found", id="NCCL over sockets"),
        pytest.param(on_device, 1e6, "cannot_answer", id="NCCL over InfiniBand"),
    ],
)
def test_lost_segments_are_the_runs_only_where_sockets_carry_its_collectives(
    build: Callable[[int], RankBuilder], bytes_per_s: float, status: str
) -> None:
    assert losses(recorded({**LOSING, "net_sent_bytes": bytes_per_s}, build)).status == status


def test_a_variable_that_turns_infiniband_off_means_sockets_and_a_single_rank_has_no_peers() -> None:
    def without(rank: int) -> RankEnvironment:
        return environment_of(rank, variables={"NCCL_IB_DISABLE": "1"})

    assert losses(recorded(LOSING, on_device)).status == "cannot_answer"
    assert losses(recorded(LOSING, on_device, without)).status == "found"
    alone = recorded_profile(records_of([step_rows(0, STEPS)], {0: LOSING}))
    assert losses(alone).status == "cannot_answer"


def test_what_stalls_of_a_rhythm_and_collections_cost_is_not_the_links() -> None:
    walls = [50.0 + (200.0 if step % 10 == 9 else 0.0) for step in range(60)]
    (finding,) = losses(recorded({**LOSING, "net_sent_bytes": 85e6}, walls=walls)).findings
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(0.5 * 19.9, rel=0.05)


@pytest.mark.parametrize(
    ("per_s", "status"),
    [
        pytest.param(100.0, "found", id="many"),
        pytest.param(0.5, "clean", id="one"),
        pytest.param(8.0, "clean", id="a dozen in all"),
    ],
)
def test_an_adapter_must_send_more_than_a_few_packets_again(per_s: float, status: str) -> None:
    check = losses(recorded({"rdma_retransmits": per_s}, on_device))
    assert check.status == status
    assert {each.cause for each in check.findings} == ({"rdma_retransmission"} if status == "found" else set())


def test_steps_without_collectives_count_in_what_a_step_sends() -> None:
    profile = recorded({"net_sent_bytes": 85e6}, lambda rank: on_cpu(rank, steps_with=(0,)))
    assert measure(profile, "collective_wire_bytes").value == pytest.approx(4e6 / 3)


@pytest.mark.parametrize(
    ("build", "bytes_per_s", "status"),
    [
        pytest.param(on_cpu, 400e6, "found", id="much more than its own"),
        pytest.param(on_cpu, 85e6, "clean", id="its own"),
        pytest.param(on_cpu, 20e6, "cannot_answer", id="less than its own: they go another way"),
        pytest.param(lambda rank: on_cpu(rank, sized=False), 400e6, "cannot_answer", id="its own are not known"),
        pytest.param(on_device, 5e6, "cannot_answer", id="over InfiniBand"),
    ],
)
def test_bytes_are_others_only_where_the_runs_own_are_among_the_counted(
    build: Callable[[int], RankBuilder], bytes_per_s: float, status: str
) -> None:
    profile = recorded({"net_sent_bytes": bytes_per_s, "net_received_bytes": bytes_per_s}, build)
    assert retransmission(profile)[1].status == status


@pytest.mark.parametrize(
    ("variables", "bytes_per_s", "status"),
    [
        pytest.param({}, 1e6, "clean", id="the bootstrap's interface next to InfiniBand"),
        pytest.param({}, 85e6, "found", id="its bytes go over sockets"),
        pytest.param({"NCCL_IB_DISABLE": "1"}, 1e6, "found", id="InfiniBand is turned off"),
    ],
)
def test_the_interface_of_nccl_matters_only_where_sockets_carry_its_bytes(
    variables: dict[str, str], bytes_per_s: float, status: str
) -> None:
    there = {"eth0": Interface(1500, 10_000), "ib0": Interface(2044, 200_000)}

    def environment(rank: int) -> RankEnvironment:
        return environment_of(rank, variables={"NCCL_SOCKET_IFNAME": "eth0", **variables}, interfaces=there)

    profile = recorded({"net_sent_bytes": bytes_per_s, "net_received_bytes": bytes_per_s}, on_device, environment)
    assert retransmission(profile)[2].status == status


def test_on_a_better_interface_most_of_the_transfer_goes_where_messages_have_no_size() -> None:
    there = {"eth0": Interface(1500, 25_000), "eth1": Interface(1500, 1_000)}
    environment = partial(environment_of, variables={"GLOO_SOCKET_IFNAME": "eth1"}, interfaces=there)
    for sized in (True, False):
        profile = recorded({}, partial(on_cpu, sized=sized), environment)
        (finding,) = retransmission(profile)[2].findings
        assert (bool(finding.change), finding.saving is None) == (sized, sized)
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(0.7 * 19.9)

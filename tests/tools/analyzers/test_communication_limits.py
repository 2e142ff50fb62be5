"""Slow link, poor overlap or neither: what could be hidden on the link as it is decides, and who was traced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.asked import ask
from tests.collective_runs import late_run
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.knowledge.thresholds import Thresholds
from tools.metrics.registry import measure
from tools.run.model import Layout
from tools.views.profile import Profile
from tools.whatif.predict import predict

MB = 1_000_000 // 4  # elements of a megabyte of floats


RDMA = {"rdma_retransmits": 0.0}  # counted, so there is an adapter


def check(profile: Profile, name: str) -> Check:
    return ask(profile, f"communication.{name}")


def on_hosts(compute_us: float, transfer_us: float, megabytes: float, kind: str = "all_reduce") -> Profile:
    """Two ranks without a device that compute, and then exchange one message while nothing is computed."""
    builders = [_rank(number, compute_us, transfer_us, megabytes, kind) for number in (0, 1)]
    return profile_of(*builders)


def with_idle_cores(
    compute_us: float,
    transfer_us: float,
    megabytes: float,
    idle_pct: float = 80.0,
    *,
    cores: int = 2,
    kind: str = "all_reduce",
    waiting_us: float = 0.0,
) -> Profile:
    """The same with records of the machine's cores, and of the wait for one in each second."""
    steps = [step_rows(rank, [(compute_us + transfer_us) / 1e3] * 40) for rank in (0, 1)]
    ticks = {"cpu_total_ticks": 100.0 * cores, "cpu_idle_ticks": idle_pct * cores}
    rates = {rank: {**ticks, "run_delay_us": waiting_us} for rank in (0, 1)}
    return recorded_profile(
        records_of(steps, rates), lambda rank: _rank(rank, compute_us, transfer_us, megabytes, kind)
    )


def _rank(
    number: int, compute_us: float, transfer_us: float, megabytes: float, kind: str = "all_reduce"
) -> RankBuilder:
    rank = RankBuilder(number, device=None)
    gloo = rank.host_thread("gloo")
    length = compute_us + transfer_us
    for step in range(4):
        begin = step * length
        rank.operator("aten::mm", begin, compute_us)
        moved = rank.annotation(f"gloo:{kind}", begin + compute_us, transfer_us, track=gloo)
        rank.detail("collectives", moved, collective=kind, group="0", dtype="Float", **_sizes(megabytes))
        rank.step(step, begin, begin + length)
    return rank


def _sizes(megabytes: float) -> dict[str, int]:
    elements = int(MB * megabytes)
    return {"group_size": 2, "in_elements": elements, "out_elements": elements}


def test_a_transfer_that_cores_make_promises_no_overlap_where_no_core_is_known_to_be_idle() -> None:
    fast = check(on_hosts(60_000, 15_000, 15.0), "exposed")  # 1 GB/s
    assert (fast.status, fast.findings) == ("cannot_answer", ())
    assert "cores transfer the data" in fast.reason
    (limited,) = check(on_hosts(60_000, 15_000, 1.5), "exposed").findings  # 0.1 GB/s: a link is the limit
    assert limited.cause == "poor_overlap"
    assert limited.confidence < 0.5
    assert check(with_idle_cores(60_000, 15_000, 15.0), "exposed").findings[0].cause == "poor_overlap"


def test_a_slow_transfer_that_the_backward_pass_could_hide_is_poor_overlap_before_it_is_a_slow_link() -> None:
    profile = with_idle_cores(60_000.0, 30_000.0, 1.8)  # 60 MB/s, and 40 ms of backward pass
    assert measure(profile, "left_exposed_pct").value == pytest.approx(0.0)
    order, link = check(profile, "exposed").findings[0], check(profile, "transfer").findings[0]
    assert (order.cause, link.cause) == ("poor_overlap", "slow_link")
    assert "poor_overlap" in link.symptom_of
    assert "slow_link" not in order.symptom_of
    assert ranking(profile).causes[0].finding.cause == "poor_overlap"


def test_a_transfer_longer_than_all_that_could_hide_it_is_a_slow_link_first() -> None:
    profile = with_idle_cores(60_000.0, 120_000.0, 3.0)  # 25 MB/s
    hidden_ms = 60.0 * 2.0 / 3.0
    left_pct = 100.0 * (120.0 - hidden_ms) / (180.0 - hidden_ms)
    assert measure(profile, "left_exposed_pct").value == pytest.approx(left_pct)
    assert "slow_link" in check(profile, "exposed").findings[0].symptom_of
    assert ranking(profile).causes[0].finding.cause == "slow_link"


def test_a_bandwidth_that_some_network_has_is_shown_and_not_judged() -> None:
    answer = check(on_hosts(40_000.0, 8_000.0, 3.0), "transfer")  # 375 MB/s
    assert (answer.status, answer.findings) == ("cannot_answer", ())
    assert answer.support[0].facts[0].value == pytest.approx(375e6)


def test_a_rate_below_usual_networks_that_no_transfer_leaves_is_the_links() -> None:
    steady = check(on_hosts(40_000.0, 13_000.0, 3.0), "transfer")  # 231 MB/s
    assert steady.findings[0].cause == "slow_link"
    assert steady.findings[0].confidence == pytest.approx(1.0 - 0.5 / (0.3 * 13.0 / 3.0), abs=1e-3)
    uneven = [_rank(number, 40_000.0, 13_000.0, 3.0) for number in (0, 1)]
    for rank in uneven:
        begin = 4 * 53_000.0
        moved = rank.annotation("gloo:all_reduce", begin, 19_000.0, track=1)
        rank.detail("collectives", moved, collective="all_reduce", group="0", dtype="Float", **_sizes(3.0))
        rank.step(4, begin, begin + 53_000.0)
    assert check(profile_of(*uneven), "transfer").status == "cannot_answer"


@pytest.mark.parametrize(
    ("variables", "counters", "cause", "mechanism"),
    [
        pytest.param({}, RDMA, "slow_link", None, id="nothing set"),
        pytest.param({"NCCL_IB_DISABLE": "1"}, RDMA, "network_configuration", "socket_fallback", id="InfiniBand off"),
        pytest.param({"NCCL_IB_DISABLE": "1"}, {}, "slow_link", None, id="off, and none is seen"),
        pytest.param({"NCCL_NET": "IB"}, RDMA, "slow_link", None, id="InfiniBand asked for"),
    ],
)
def test_a_busy_link_between_devices_is_a_matter_of_settings_only_where_one_closes_a_way_that_is_there(
    variables: dict[str, str], counters: dict[str, float], cause: str, mechanism: str | None
) -> None:
    steps = [step_rows(rank, [50.0] * 40) for rank in (0, 1)]
    environments = [environment_of(rank, variables=variables) for rank in (0, 1)]
    records = records_of(steps, levels={rank: counters for rank in (0, 1)}, environments=environments)
    finding = check(recorded_profile(records, _busy_link), "transfer").findings[0]
    assert (finding.cause, finding.mechanism) == (cause, mechanism)
    named = [sentence.template for sentence in finding.details if sentence.names == ("NCCL_IB_DISABLE",)]
    assert ["if there is any" in text for text in named] == [not counters] * ("NCCL_IB_DISABLE" in variables)


def _busy_link(number: int) -> RankBuilder:
    """Two messages without a pause between them, the first next to computation."""
    rank = RankBuilder(number)
    stream = rank.device_stream(20)
    for step in range(3):
        begin = step * 50_000
        rank.kernel("gemm", begin + 20, 20_000, call_us=begin + 1)
        for place in (0, 1):
            at = begin + 10_020 + place * 19_900
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            moved = rank.kernel(name, at, 19_900, call_us=begin + 5 + place, stream=stream)
            rank.detail("collectives", moved, collective="allreduce", group="0", dtype="Float", **_sizes(200.0))
        rank.step(1000 + step, begin, begin + 50_000)
    return rank


def test_a_slow_transfer_is_not_separated_from_waiting_while_a_rank_of_the_group_is_untraced() -> None:
    whole = late_run(lambda rank, step: 0.0, ranks=2, elements=1 << 18)
    part = Profile(replace(whole.run, layout=Layout(world_size=4)), whole.thresholds)
    assert check(whole, "transfer").reason == "what the links between these ranks can carry is not known"
    assert "would look like slow transfer" in check(part, "transfer").reason


@pytest.mark.parametrize(("idle_pct", "status"), [(5.0, "clean"), (60.0, "found")])
def test_without_a_device_transfer_next_to_busy_cores_is_not_called_badly_overlapped(
    idle_pct: float, status: str
) -> None:
    profile = with_idle_cores(40_000.0, 8_000.0, 3.0, idle_pct)
    assert check(profile, "exposed").status == status
    assert measure(profile, "movable_transfer_ms").value == pytest.approx(min(8.0, 0.48 * idle_pct), rel=0.01)


def test_without_records_of_the_cores_overlap_is_a_hypothesis_and_a_slow_link_comes_first() -> None:
    profile = on_hosts(60_000.0, 30_000.0, 1.8)
    order = check(profile, "exposed").findings[0]
    assert order.confidence < Thresholds()["confidence"]
    assert any("was not recorded" in sentence.template for sentence in order.against)
    assert ranking(profile).causes[0].finding.cause == "slow_link"


def test_an_all_to_all_is_no_matter_of_order_and_shards_of_the_batch_are_a_hypothesis() -> None:
    profile = on_hosts(60_000.0, 30_000.0, 12.0, kind="all_to_all")
    assert measure(profile, "movable_transfer_ms").value == pytest.approx(0.0)
    (finding,) = check(profile, "exposed").findings
    share, hidden = finding.claim.facts
    assert share.value == pytest.approx(100.0 / 3.0)
    assert hidden.value == pytest.approx(30.0 * 3.0 / 4.0)  # four shards: all but the first
    assert finding.confidence < Thresholds()["confidence"]


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("idle_pct", [15.0, 80.0])
def test_what_is_predicted_is_no_more_than_what_the_idle_cores_let_be_hidden(kind: str, idle_pct: float) -> None:
    profile = with_idle_cores(60_000.0, 30_000.0, 1.8, idle_pct, kind=kind)
    (finding,) = check(profile, "exposed").findings
    # All-reduces lose a quarter to library threads, all-to-alls the first of four shards.
    assert predict(profile, finding.change).saving_ms == pytest.approx(0.75 * min(30.0, 0.9 * idle_pct), rel=0.01)


def test_three_idle_cores_of_sixty_four_are_enough_for_two_ranks() -> None:
    assert measure(
        with_idle_cores(60_000.0, 30_000.0, 36.0, 100.0 * 3 / 64, cores=64), "movable_transfer_ms"
    ).value == pytest.approx(30.0)
    one_for_two = with_idle_cores(60_000.0, 30_000.0, 36.0, 100.0 / 256, cores=64)  # a quarter of a core
    assert measure(one_for_two, "movable_transfer_ms").value == pytest.approx(0.125 * 90.0, rel=0.01)


@pytest.mark.parametrize(("idle_pct", "status"), [(2.0, "cannot_answer"), (80.0, "found")])
def test_a_low_bandwidth_next_to_busy_cores_is_not_put_down_to_the_link(idle_pct: float, status: str) -> None:
    answer = check(with_idle_cores(60_000.0, 30_000.0, 1.8, idle_pct, waiting_us=400_000.0), "transfer")
    assert answer.status == status
    assert ("no core was free" in answer.reason) == (status == "cannot_answer")


def test_threads_that_hardly_waited_for_a_core_waited_for_the_link() -> None:
    assert check(with_idle_cores(60_000.0, 30_000.0, 1.8, 2.0, waiting_us=20_000.0), "transfer").status == "found"


def test_the_link_is_not_blamed_between_ranks_of_one_machine() -> None:
    together = with_idle_cores(60_000.0, 30_000.0, 1.8)
    assert together.run.records is not None
    hosts = tuple(replace(each, host=f"node-{each.rank}") for each in together.run.records.ranks)
    apart = Profile(replace(together.run, records=replace(together.run.records, ranks=hosts)))
    texts = [check(profile, "transfer").findings[0].claim.template for profile in (together, apart)]
    assert [text.split(":")[0] for text in texts] == [
        "The bandwidth between the ranks of one machine is low",
        "The link is slow",
    ]


@pytest.mark.parametrize(
    ("kind", "broadcast_at_us", "hideable_ms"),
    [
        pytest.param("all_reduce", None, 40.0, id="reductions alone"),
        pytest.param("all_reduce", 600_000.0, 40.0, id="a broadcast after the last step"),
        pytest.param("all_reduce", 119_900.0, 40.0, id="a broadcast next to a reduction"),
        pytest.param("all_gather", None, 60.0, id="parameters"),
    ],
)
def test_reductions_hide_behind_the_backward_pass_only_whatever_else_is_exchanged(
    kind: str, broadcast_at_us: float | None, hideable_ms: float
) -> None:
    def build(number: int) -> RankBuilder:
        rank = _rank(number, 60_000.0, 60_000.0, 3.0, kind)
        if broadcast_at_us is not None:
            sent = rank.annotation("gloo:broadcast", broadcast_at_us, 50, track=rank.host_thread("other"))
            sizes = {"group_size": 2, "in_elements": 64, "out_elements": 64}
            rank.detail("collectives", sent, collective="broadcast", group="0", dtype="Float", **sizes)
        return rank

    hideable = measure(profile_of(build(0), build(1)), "hideable_communication_ms").value
    assert hideable == pytest.approx(hideable_ms)


def exchanges(count: int) -> Callable[[int], RankBuilder]:
    """All-to-alls of two sizes whose start is most of their cost, between short operators."""

    def build(number: int) -> RankBuilder:
        rank = RankBuilder(number)
        for step in range(3):
            begin = step * 50_000
            for place in range(count):
                at, kilobytes = begin + place * 1_000, 4 * (1 + place % 2)
                rank.kernel("gemm", at + 20, 800, call_us=at + 1)
                moved = rank.kernel("ncclDevKernel_SendRecv", at + 820, 100 + kilobytes, call_us=at + 2)
                sizes = {"group_size": 2, "in_elements": 256 * kilobytes, "out_elements": 256 * kilobytes}
                rank.detail("collectives", moved, collective="all_to_all", group="0", dtype="Float", **sizes)
            rank.step(step, begin, begin + count * 1_000)
        return rank

    return build


def test_exchanges_that_need_each_others_result_cannot_be_merged() -> None:
    build = exchanges(40)
    profile = profile_of(build(0), build(1))
    assert measure(profile, "collective_fixed_pct", kind="all_to_all", group="0").value > 90.0
    assert check(profile, "small_packet").status == "clean"

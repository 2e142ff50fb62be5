"""What many small messages cost ranks without a device, where they run between the operators and next to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.asked import COMMUNICATION, ask, asking
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.knowledge.taxonomy import optimizations
from tools.metrics.registry import measure
from tools.views.communication.gradient_sync import exchanged_by
from tools.views.profile import Profile

analyze = asking(*COMMUNICATION)

STEP_MS = 60.0
ALONE_MS = 0.5  # of each message while nothing is computed
OVERLAP_MS = 0.3  # of each message next to computation


def sending(
    count: int, kind: str = "all_reduce", late_ms: float = 0.0, apart: bool = False
) -> Callable[[int], RankBuilder]:
    """Ranks that compute and send messages of 4 KB, whose first part runs next to computation.

    Rank 0 waits ``late_ms`` longer in the last one of a step than rank 1, which computes meanwhile.
    Messages ``apart`` begin where computation ends.
    """

    def build(number: int) -> RankBuilder:
        rank = RankBuilder(number, device=None)
        gloo = rank.host_thread("gloo")
        for step in range(3):
            begin = step * 1_000 * STEP_MS
            for place in range(count):
                at = begin + 1_000 * place
                rank.operator("aten::mm", at, 500)
                lasts = 1_000 * (ALONE_MS if apart else OVERLAP_MS + ALONE_MS)
                if place == count - 1 and number == 0:
                    lasts += 1_000 * late_ms
                sent = rank.annotation(f"gloo:{kind}", at + (500 if apart else 200), lasts, track=gloo)
                sizes = {"group_size": 2, "in_elements": 1_024, "out_elements": 1_024}
                rank.detail("collectives", sent, collective=kind, group="0", dtype="Float", **sizes)
            rank.operator("aten::mm", begin + 1_000 * (count + 9), 1_000 * (STEP_MS - count - 9) - 10)
            rank.step(step, begin, begin + 1_000 * STEP_MS)
        return rank

    return build


def small_packet(profile: Profile) -> Check:
    return ask(profile, "communication.small_packet")


def saved_ms(profile: Profile) -> float:
    (finding,) = small_packet(profile).findings
    assert (finding.cause, finding.saving is not None) == ("small_packet", True)
    return finding.saving.saved_ms if finding.saving is not None else 0.0


def test_what_ranks_do_in_nothing_but_small_messages_goes_and_half_of_what_they_compute_next_to_them() -> None:
    profile = profile_of(sending(40)(0), sending(40)(1))
    assert measure(profile, "small_message_exposed_ms").value == pytest.approx(40 * ALONE_MS)
    assert measure(profile, "small_message_beside_ms").value == pytest.approx(40 * OVERLAP_MS)
    one = ALONE_MS + OVERLAP_MS
    assert saved_ms(profile) == pytest.approx(40 * ALONE_MS + 0.5 * 40 * OVERLAP_MS - one)


@pytest.mark.parametrize("overlaps", [True, False])
def test_that_a_part_costs_less_is_said_only_where_a_part_overlaps(overlaps: bool) -> None:
    build = sending(40, apart=not overlaps)
    profile = profile_of(build(0), build(1))
    assert (measure(profile, "small_message_beside_ms").value > 0) is overlaps
    (finding,) = small_packet(profile).findings
    assert bool(finding.against) is overlaps


@pytest.mark.parametrize("idle_pct", [0.0, 50.0])
def test_computation_loses_less_to_messages_where_cores_are_idle(idle_pct: float) -> None:
    steps = [step_rows(rank, [STEP_MS] * 40) for rank in (0, 1)]
    rates = {rank: {"cpu_total_ticks": 200.0, "cpu_idle_ticks": 2.0 * idle_pct} for rank in (0, 1)}
    profile = recorded_profile(records_of(steps, rates), sending(40))
    lost = 0.5 * (1.0 - idle_pct / 100.0) * 40 * OVERLAP_MS
    assert saved_ms(profile) == pytest.approx(40 * ALONE_MS + lost - ALONE_MS - OVERLAP_MS)


def test_waiting_for_a_rank_that_has_more_to_do_is_no_cost_of_the_messages() -> None:
    even, late = (profile_of(build(0), build(1)) for build in (sending(40), sending(40, late_ms=8.0)))
    shown = [float(profile.breakdown["exposed_communication_ns"].max()) / 1e6 for profile in (even, late)]
    assert shown[1] == pytest.approx(shown[0] + 8.0)
    assert saved_ms(late) == pytest.approx(saved_ms(even))


def test_a_few_messages_and_exchanges_needed_at_once_are_not_too_many() -> None:
    few = profile_of(sending(15)(0), sending(15)(1))
    exchanges = profile_of(sending(40, "all_to_all")(0), sending(40, "all_to_all")(1))
    assert measure(exchanges, "small_message_count").value == 40
    assert measure(exchanges, "small_message_exposed_ms").value == 0.0
    assert [small_packet(each).findings for each in (few, exchanges)] == [(), ()]


def test_messages_by_which_a_debugging_level_compares_the_ranks_are_not_too_many() -> None:
    steps = [step_rows(rank, [STEP_MS] * 40) for rank in (0, 1)]
    texts = [environment_of(rank, variables={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) for rank in (0, 1)]
    assert small_packet(recorded_profile(records_of(steps), sending(40))).findings
    assert not small_packet(recorded_profile(records_of(steps, environments=texts), sending(40))).findings


def test_larger_buckets_are_advised_only_where_buckets_exchange_the_gradients() -> None:
    def wrapped(number: int) -> RankBuilder:
        rank = sending(40)(number)
        rank.annotation("DistributedDataParallel.forward", 10, 100)
        return rank

    def advised(profile: Profile) -> tuple[str, ...]:
        return tuple(row.how for row in optimizations("small_packet", None, exchanged_by=exchanged_by(profile)))

    (of_script,) = advised(profile_of(sending(40)(0), sending(40)(1)))
    (of_buckets,) = advised(profile_of(wrapped(0), wrapped(1)))
    assert "bucket_cap_mb" in of_buckets
    assert "bucket_cap_mb" not in of_script
    assert "flatten" in of_script


def test_what_exchanges_gradients_is_unknown_where_no_operators_are_recorded() -> None:
    rank = RankBuilder(0)
    rank.kernel("kernel", start_us=10, duration_us=500, call_us=5)
    rank.step(0, 0, 1_000)
    assert exchanged_by(profile_of(rank)) is None

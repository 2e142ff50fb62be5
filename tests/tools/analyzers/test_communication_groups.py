"""Collectives of one group among those of others: an untraced rank that one waits for, small messages in one."""

from __future__ import annotations

import pytest

from tests.asked import COMMUNICATION, ask, asking
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.intervals import length
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Layout
from tools.views.profile import Profile
from tools.whatif.change import Scale
from tools.whatif.predict import predict

analyze = asking(*COMMUNICATION)

MB = 1_000_000 // 4  # elements of a megabyte of floats


def check(profile: Profile, name: str) -> Check:
    return ask(profile, f"communication.{name}")


def waiting_run(world_size: int, steps: int = 3, other_group: bool = False) -> Profile:
    """Two ranks whose all-reduces of two sizes last nearly as long; perhaps another group's, long by their size."""
    builders = []
    for number in (0, 1):
        rank, at = RankBuilder(number), 0.0
        for step in range(steps):
            begin, at = at, at + 20_020
            rank.kernel("gemm", begin + 20, 20_000, call_us=begin + 1)
            messages = [("dp", world_size, 1 + place, 9_000 + place * 500) for place in (0, 1)]
            messages += [("tp", 2, 40 * place, 10_000 * place - 200) for place in (1, 2)] if other_group else []
            for place, (group, size, megabytes, lasting) in enumerate(messages):
                moved = rank.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, lasting, call_us=begin + 5 + place)
                sizes = {"in_elements": megabytes * MB, "out_elements": megabytes * MB, "group_size": size}
                rank.detail("collectives", moved, collective="allreduce", group=group, dtype="Float", **sizes)
                at += lasting + 1
            rank.runtime("cudaDeviceSynchronize", begin + 15, at + 5 - begin - 15)
            at += 20
            rank.step(step, begin, at)
        builders.append(rank)
    return profile_of(*builders, layout=Layout(world_size=world_size))


@pytest.mark.parametrize(("world_size", "status"), [(2, "clean"), (4, "found")])
def test_collectives_of_which_most_time_does_not_depend_on_size_wait_for_an_untraced_rank(
    world_size: int, status: str
) -> None:
    answer = check(waiting_run(world_size), "arrival_skew")
    assert answer.status == status
    for finding in answer.findings:
        assert (finding.cause, finding.ranks) == ("straggler", ())
        assert finding.claim.facts[0].value == pytest.approx(8.5)  # 9 ms for one megabyte, 9.5 ms for two
        assert finding.confidence < Thresholds()["confidence"]


def test_an_untraced_rank_is_waited_for_in_its_own_group_only() -> None:
    for other_group in (False, True):
        profile = waiting_run(4, other_group=other_group)
        (finding,) = check(profile, "arrival_skew").findings
        assert finding.claim.facts[0].value == pytest.approx(8.5)
        assert predict(profile, finding.change).saving_ms == pytest.approx(2 * 8.5, rel=0.01)


def test_a_line_through_two_collectives_of_one_step_shows_nothing_of_an_untraced_rank() -> None:
    assert check(waiting_run(4, steps=1), "arrival_skew").status != "found"


def test_only_the_messages_that_are_too_small_are_merged_and_not_those_of_another_group() -> None:
    rank, at = RankBuilder(0), 0.0
    small = [("dp", elements, 40 + elements * 4 / 10_000) for elements in (1000, 2000, 4000, 8000) * 5]
    large = [("tp", elements, 40 + elements * 4 / 10_000) for elements in (10 * MB, 20 * MB)]
    for step in range(4):
        begin, at = at, at + 1_020
        rank.kernel("gemm", begin + 20, 1_000, call_us=begin + 10)
        for group, elements, lasting in (*small, *large):
            moved = rank.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, lasting, call_us=begin + 15)
            sizes = {"in_elements": elements, "out_elements": elements, "group_size": 2}
            rank.detail("collectives", moved, collective="allreduce", group=group, dtype="Float", **sizes)
            at += lasting + 1
        rank.step(step, begin, at)
    (finding,) = check(profile_of(rank, layout=Layout(world_size=2)), "small_packet").findings
    scaled_us = sum(length(part.intervals) for part in finding.change if isinstance(part, Scale)) / 1e3
    assert scaled_us == pytest.approx(4 * sum(lasting for _, _, lasting in small), rel=0.01)

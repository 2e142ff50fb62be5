"""Ranks that differ from their peers, and the ranks that are read in full."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tools.knowledge.thresholds import Thresholds
from tools.run.model import Layout, ProcessGroup
from tools.summaries.choice import OWN_PARTS, Choice, choose
from tools.summaries.instances import Instances
from tools.summaries.join import Joined

STEP_MS = 100.0
LIMITS = Thresholds()
ALL = {0: tuple(range(64))}


def joined_of(
    ranks: int = 64,
    compute_ms: Mapping[int, float] | None = None,
    data_wait_ms: Mapping[int, float] | None = None,
    caused_ms: Mapping[int, float] | None = None,
    groups: Mapping[int, tuple[int, ...]] | None = None,
    noise_ms: float = 0.2,
) -> Joined:
    """Ranks of one step that compute 60 ms of 100 and wait for the rest; what is given is added."""
    rng = np.random.default_rng(5)
    own = {f"{part}_ns": np.zeros(ranks) for part in OWN_PARTS}
    own["compute_ns"] += 60e6 + rng.normal(0.0, noise_ms * 1e6, ranks)
    own["data_wait_ns"] += 0.5e6 + rng.normal(0.0, noise_ms * 1e5, ranks)
    caused = np.zeros(ranks)
    for column, added in (
        (own["compute_ns"], compute_ms),
        (own["data_wait_ns"], data_wait_ms),
        (caused, caused_ms),
    ):
        for rank, more in (added or {}).items():
            column[rank] += more * 1e6
    table = pd.DataFrame(own)
    known = dict(groups or {0: tuple(range(ranks))})
    rows = [(rank, number, caused[rank]) for number, own in known.items() for rank in own if caused[rank] > 0]
    table = table.assign(
        wall_ns=STEP_MS * 1e6,
        exposed_communication_ns=STEP_MS * 1e6 - table[[f"{part}_ns" for part in OWN_PARTS]].sum(axis=1),
        steps=1,
        caused_ns=caused,
        share=caused / max(float(caused.sum()), 1.0),
        first_steps=0,
        waited_ns=0.0,
    )
    waited = pd.DataFrame(rows, columns=["rank", "group", "caused_ns"])
    return Joined(table, pd.DataFrame(), waited, known, 1, Instances())


def different(choice: Choice) -> list[tuple[int, ...]]:
    """The groups of ranks that differ from their peers."""
    return [group.ranks for group in choice.groups if group.differs]


def test_ranks_that_differ_by_chance_alone_are_one_group() -> None:
    for ranks in (33, 64, 1024, 10_000):
        choice = choose(joined_of(ranks), Layout(), LIMITS)
        assert [group.ranks for group in choice.groups] == [tuple(range(ranks))]
        assert 0 in choice.why
        assert len(choice.why) <= 16


def test_a_slow_rank_and_a_slow_host_are_two_groups_with_what_they_take_longer() -> None:
    host = tuple(range(40, 48))
    joined = joined_of(compute_ms={13: 20.0}, data_wait_ms=dict.fromkeys(host, 8.0), caused_ms={13: 10.0})
    choice = choose(joined, Layout(), LIMITS)
    usual, slow, waiting = choice.groups
    assert (slow.ranks, waiting.ranks) == ((13,), host)
    assert len(usual.ranks) == 55
    assert not usual.differs
    [compute], [data] = slow.differs, waiting.differs
    assert (compute.part, data.part) == ("compute", "data_wait")
    assert abs(compute.median_ms - compute.peers_ms - 20.0) < 1.0
    assert abs(data.median_ms - data.peers_ms - 8.0) < 0.2
    assert slow.read == (13,)
    assert len(waiting.read) == 2
    assert len(usual.read) > len(slow.read) + len(waiting.read)
    assert choice.why[13] == "other ranks wait for it"


def test_half_of_the_ranks_on_slower_devices_are_a_group_although_no_rank_is_far_from_the_median() -> None:
    slow = tuple(range(32, 64))
    choice = choose(joined_of(compute_ms=dict.fromkeys(slow, 6.0)), Layout(), LIMITS)
    assert {group.ranks for group in choice.groups} == {tuple(range(32)), slow}
    assert all(group.read for group in choice.groups)


def test_a_rank_of_a_long_tail_differs_without_a_gap() -> None:
    tail = {rank: 0.3 * (rank - 47) for rank in range(48, 64)}
    choice = choose(joined_of(compute_ms=tail), Layout(), LIMITS)
    [found] = different(choice)
    assert found == tuple(range(found[0], 64))
    assert 50 < found[0] < 60


def test_less_than_a_noted_share_of_the_step_is_no_difference() -> None:
    choice = choose(joined_of(compute_ms={7: 0.9}, noise_ms=0.001), Layout(), LIMITS)
    assert not different(choice)


def test_pipeline_stages_are_compared_with_their_own_peers() -> None:
    stages, ranks = 4, 64
    groups = tuple(
        ProcessGroup(f"pp{first}", "pipeline_parallel", "nccl", tuple(range(first, ranks, 16)), stages)
        for first in range(16)
    )
    uneven = {rank: 10.0 * (rank // 16) for rank in range(ranks)}
    choice = choose(joined_of(ranks, compute_ms=uneven | {20: 18.0}), Layout(groups=groups), LIMITS)
    assert different(choice) == [(20,)]
    assert [group.stage for group in choice.groups if not group.differs] == [0, 1, 2, 3]
    assert all(group.read for group in choice.groups)


def test_a_late_rank_is_connected_with_the_lowest_one_over_groups_that_they_share() -> None:
    tensor = {host: tuple(range(8 * host, 8 * host + 8)) for host in range(8)}
    data = {8 + shard: tuple(range(shard, 64, 8)) for shard in range(8)}
    joined = joined_of(compute_ms={29: 20.0}, caused_ms={29: 10.0}, groups=tensor | data)
    read = set(choose(joined, Layout(), LIMITS).why)
    assert {0, 29} <= read
    assert read & {24, 5}  # of the group of 29 and of the group of 0
    assert all(any(len(read & set(ranks)) > 1 for ranks in joined.groups.values() if rank in ranks) for rank in read)


def test_no_more_ranks_than_the_limit_are_read_and_most_of_them_are_typical() -> None:
    odd = {rank: 5.0 * (rank + 1) for rank in range(10, 40, 3)}
    choice = choose(joined_of(compute_ms=odd, caused_ms=odd), Layout(), LIMITS)
    usual = {rank for group in choice.groups if not group.differs for rank in group.ranks}
    assert len(choice.why) <= 16
    assert 2 * len(set(choice.why) & usual) > len(choice.why)
    assert 37 in choice.why  # the slowest
    few = choose(joined_of(compute_ms=odd), Layout(), Thresholds({"most_ranks_in_full": 5}))
    assert len(few.why) == 5

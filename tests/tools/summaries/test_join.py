"""The join of summaries says of all ranks what the views of the whole run say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evals.synthetic.generate import generate
from evals.synthetic.spec import FaultSpec, SyntheticSpec
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.sources.registry import trace_format
from tools.summaries.instances import Instances
from tools.summaries.join import MEANS, Joined, SummarizedTrace, join
from tools.summaries.record import RankSummary, TableName
from tools.summaries.summarize import summarize
from tools.views.communication.arrivals import arrivals, blame
from tools.views.profile import Profile

ALONE = LoadOptions(workers=1)
SLOW = FaultSpec(kind="slow_device", strength=0.5, ranks=(5,))


def summaries_of(profile: Profile) -> list[SummarizedTrace]:
    """The summaries of a run's traces, each with its rank."""
    found = []
    for source in profile.run.sources:
        summary = summarize(trace_format(source.path).read(source.path, "digest", ALONE, None))
        found.append(SummarizedTrace(source.ranks[0], summary.facts.trace.origin_ns, partial(_given, summary)))
    return found


def _given(summary: RankSummary, _: Sequence[TableName]) -> RankSummary:
    return summary


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight ranks, two of which share each layer; rank 5 computes slowly."""
    folder = tmp_path_factory.mktemp("eight")
    generate(SyntheticSpec(ranks=8, tensor=2, steps=3, layers=1, faults=(SLOW,)), folder)
    return folder


@pytest.mark.parametrize("run", ["generated", "recorded"])
def test_who_is_waited_for_is_as_in_the_view_of_the_whole_run(
    run: str, generated: Path, request: pytest.FixtureRequest
) -> None:
    folder = generated if run == "generated" else request.getfixturevalue("traces") / "param" / "dlrm_8rank"
    profile = Profile(load_run([folder], ALONE))
    joined, expected = join(summaries_of(profile)), blame(profile)
    ranks = joined.ranks
    np.testing.assert_allclose(ranks["caused_ns"], expected["caused_ns"], rtol=1e-9)
    np.testing.assert_allclose(ranks["share"], expected["share"], rtol=1e-9)
    assert ranks["first_steps"].tolist() == expected["steps"].tolist()
    assert ranks["waited_ns"].tolist() == expected["waited_ns"].tolist()
    assert joined.collectives == len(arrivals(profile)) > 0
    assert float(ranks["caused_ns"].sum()) > 0
    means = profile.breakdown.groupby("rank")[list(MEANS)].mean()
    np.testing.assert_allclose(ranks[list(MEANS)], means)
    slowest = profile.breakdown.groupby("number")["wall_ns"].max()
    assert joined.slowest["wall_ns"].tolist() == slowest.tolist()


def test_the_slow_rank_is_waited_for_in_the_groups_it_belongs_to(generated: Path) -> None:
    profile = Profile(load_run([generated], ALONE))
    joined = join(summaries_of(profile))
    assert joined.ranks["caused_ns"].idxmax() == 5
    own = joined.caused[joined.caused["rank"] == 5]
    waiting = {rank for group in own["group"] for rank in joined.groups[int(group)]}
    assert waiting == {4, 5, 1, 3, 7}  # its tensor group, and the ranks with the same shard


def test_the_order_of_the_summaries_changes_nothing(generated: Path) -> None:
    traces = summaries_of(Profile(load_run([generated], ALONE)))
    forth, back = join(traces), join(traces[::-1])
    pd.testing.assert_frame_equal(forth.ranks, back.ranks)
    assert sorted(forth.groups.values()) == sorted(back.groups.values())


def test_only_the_chosen_steps_are_compared(generated: Path) -> None:
    profile = Profile(load_run([generated], ALONE))
    number = profile.run.ranks[0].steps[1].number
    chosen = Profile(profile.run.select(steps=(number, number)))
    joined = join(summaries_of(profile), (number, number))
    assert joined.slowest.index.tolist() == [number]
    np.testing.assert_allclose(joined.ranks["wall_ns"], chosen.breakdown.groupby("rank")["wall_ns"].mean())


def table_of(durations: Sequence[int], *, bytes_: int = 8, step: int = 0, kind: str = "all_reduce") -> pd.DataFrame:
    """Collectives of one group, one after the other, as in a summary."""
    start = np.arange(len(durations), dtype=np.int64) * 1000
    texts = {"kind": kind, "group": "0", "members": ""}
    return pd.DataFrame(
        {
            **{name: pd.Categorical([text] * len(durations)) for name, text in texts.items()},
            "group_size": 3,
            "bytes": bytes_,
            "step": step,
            "sequence": np.arange(len(durations)),
            "start_ns": start,
            "end_ns": start + np.asarray(durations, dtype=np.int64),
            "exposed_ns": 0,
        }
    )


def test_of_each_instance_the_shortest_duration_and_its_rank_are_kept() -> None:
    instances = Instances()
    for rank, durations in enumerate([[100, 30], [40, 90], [70, 60]]):
        instances.add(rank, table_of(durations))
    everything = np.array([[0, 5000]])
    waited = [instances.exposed_waits(table_of(each), everything) for each in ([100, 30], [40, 90], [70, 60])]
    table = instances.table()
    assert waited == [60, 60, 60]
    assert table["last_rank"].tolist() == [1, 0]
    assert table["shortest_ns"].tolist() == [40, 30]
    assert table["mean_ns"].tolist() == [70.0, 60.0]
    assert table["caused_ns"].tolist() == [45.0, 45.0]
    assert table["ranks"].tolist() == [3, 3]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(table_of([100]), id="another number of them"),
        pytest.param(table_of([100, 30], bytes_=16), id="other bytes"),
        pytest.param(table_of([100, 30], step=1), id="another step"),
        pytest.param(table_of([100, 30], step=-1), id="outside of steps"),
    ],
)
def test_what_ranks_do_not_agree_on_is_not_matched(other: pd.DataFrame) -> None:
    instances = Instances()
    instances.add(0, table_of([10, 20]))
    instances.add(1, other)
    assert instances.table().empty


def test_bytes_may_differ_where_each_rank_has_its_own_part() -> None:
    instances = Instances()
    instances.add(0, table_of([10], kind="all_to_all"))
    instances.add(1, table_of([20], kind="all_to_all", bytes_=16))
    assert len(instances.table()) == 1


def test_transfers_between_two_ranks_are_not_matched() -> None:
    instances = Instances()
    for rank in range(2):
        instances.add(rank, table_of([10 + rank], kind="send_recv"))
    assert instances.table().empty


def test_memory_does_not_grow_with_the_ranks() -> None:
    few, many = Instances(), Instances()
    for rank in range(400):
        for instances in (few, many)[rank >= 4 :]:
            instances.add(rank, table_of([rank + 1] * 50))
    assert few.size == many.size == 50
    assert many.table()["ranks"].tolist() == [400] * 50


def test_a_rank_in_two_traces_counts_as_one(generated: Path) -> None:
    traces = summaries_of(Profile(load_run([generated], ALONE)))
    halves: list[SummarizedTrace] = []
    for trace in traces:
        summary = trace.read(())
        middle = int(summary.steps["number"].iloc[1])
        for first, last in ((0, middle), (middle + 1, 1 << 40)):
            halves.append(replace(trace, read=partial(_given, _part(summary, first, last))))
    whole, joined = join(traces), join(halves)
    pd.testing.assert_frame_equal(whole.ranks, joined.ranks)


def _part(summary: RankSummary, first: int, last: int) -> RankSummary:
    steps, collectives = summary.steps, summary.collectives
    own_steps = steps[steps["number"].between(first, last)]
    return replace(summary, steps=own_steps, collectives=collectives[collectives["step"].between(first, last)])


def test_captures_that_count_their_steps_anew_are_told_apart(generated: Path) -> None:
    once = summaries_of(Profile(load_run([generated], ALONE)))
    twice = sorted((*once, *once), key=lambda trace: trace.rank)
    one, two = join(once), join(twice)
    assert two.collectives == 2 * one.collectives
    np.testing.assert_allclose(two.ranks["caused_ns"], 2 * one.ranks["caused_ns"])
    np.testing.assert_allclose(two.ranks["waited_ns"], 2 * one.ranks["waited_ns"])
    np.testing.assert_allclose(two.ranks["first_steps"], 2 * one.ranks["first_steps"])


def test_no_summaries_give_no_ranks() -> None:
    joined: Joined = join([])
    assert joined.ranks.empty
    assert joined.collectives == 0

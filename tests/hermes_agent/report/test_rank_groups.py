"""Ten thousand ranks are named as groups, never one by one."""

from __future__ import annotations

import pandas as pd
import pytest

from hermes_agent.model.display import on_ranks, rank_list, span_list, spans
from hermes_agent.report.records import MOST_GROUPS, MOST_UNREAD, screening_record
from hermes_agent.report.sections import rank_groups
from tools.run.screening import Difference, RankGroup, Screening, Unread

RANKS = 10_000


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([0, 1, 4], "ranks 0, 1 and 4"),
        (range(8), "ranks 0 to 7"),
        ([*range(13), *range(14, 64)], "ranks 0 to 12 and 14 to 63"),
        ([*range(9), 20, *range(40, 48)], "ranks 0 to 8, 20 and 40 to 47"),
        (range(0, RANKS, 2), "5,000 ranks between 0 and 9998"),
    ],
)
def test_a_list_of_ranks_stays_short(ranks: range | list[int], text: str) -> None:
    assert rank_list(ranks) == text


def test_a_rank_that_stands_for_a_group_is_named_by_the_group() -> None:
    assert on_ranks([64, 65], [0, 1, 64, 65], [(64, 71)]) == " on ranks 64 to 71"
    assert on_ranks([64], [0, 1, 64]) == " on rank 64"
    assert on_ranks([0, 1], [0, 1]) == ""


def test_rows_of_ranks_are_unbroken() -> None:
    assert spans([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)]
    assert span_list(spans([5])) == "rank 5"


def screening(groups: int, unread: int) -> Screening:
    """Ranks of which so many differ, each in its own way."""
    different = [
        RankGroup((rank,), (), None, (Difference("host", 2.0 + rank, 1.0),), MEDIANS) for rank in range(groups)
    ]
    usual = RankGroup(tuple(range(groups, RANKS)), (groups,), None, (), MEDIANS)
    waiting = pd.DataFrame({"caused_ns": 1.0, "share": 1.0 / RANKS, "steps": 0, "waited_ns": 0}, index=range(RANKS))
    lost = tuple(Unread(f"rank{RANKS + place}.json", "it is empty") for place in range(unread))
    return Screening(RANKS + unread, (usual, *different), waiting, pd.DataFrame(), {groups: "typical"}, lost)


PARTS = ("compute", "exposed_communication", "exposed_memcpy", "data_wait", "host", "idle")
MEDIANS = {"wall": 10.0, **dict.fromkeys(PARTS, 1.0)}


def test_neither_groups_nor_unread_traces_are_listed_without_end() -> None:
    record = screening_record(screening(groups=500, unread=300))
    assert (record.found, record.summarized) == (10_300, RANKS)
    assert (len(record.groups), record.more_groups) == (MOST_GROUPS, 501 - MOST_GROUPS)
    assert len(record.unread) == MOST_UNREAD
    section = rank_groups(record)
    assert len(section.items) == 10
    assert section.items[0].title == "ranks 500 to 9999"
    assert "and 491 more groups" in section.after
    assert "and 290 more traces that could not be read" in section.after


def test_ranks_stand_for_a_group_only_where_all_that_were_read_of_it_are_among_them() -> None:
    found = Screening(
        found=6,
        groups=(RankGroup((0, 1, 2), (0, 1), None, (), MEDIANS), RankGroup((3, 4, 5), (4,), None, (), MEDIANS)),
        waiting=pd.DataFrame(index=range(6)),
        collectives=pd.DataFrame(),
        why={},
    )
    read = (0, 1, 4)
    assert found.standing_for((4,), read) == (3, 4, 5)
    assert found.standing_for((0,), read) == (0,)
    assert found.standing_for((0, 1), read) == (0, 1, 2)

"""Rows that fit a picture: groups and outliers of many ranks, bins of many steps."""

from __future__ import annotations

import pytest

from hermes_agent.model.diagnosis import BreakdownRow, Diagnosis
from hermes_agent.model.run_record import RankGroupRecord, ScreeningRecord
from hermes_agent.report.pictures.data import Heat, chosen_ranks, part_ms, rank_figures, recorded_times
from hermes_agent.report.pictures.palette import HEAT_LEVELS, PARTS
from hermes_agent.report.pictures.registry import breakdown
from hermes_agent.report.pictures.rows import bars, columns, grid


def row(rank: int, compute_ms: float, data_wait_ms: float = 0.0) -> BreakdownRow:
    parts = {f"{part}_ms": 0.0 for part in PARTS} | {"compute_ms": compute_ms, "data_wait_ms": data_wait_ms}
    return BreakdownRow(
        rank=rank, step=None, wall_ms=compute_ms + data_wait_ms, overlapped_communication_ms=0.0, **parts
    )


def test_few_ranks_have_a_bar_each_whose_parts_add_up_to_the_step(demo: Diagnosis) -> None:
    found = bars(demo)
    assert [bar.label for bar in found] == ["rank 0", "rank 1"]
    for bar in found:
        assert sum(bar.parts) == pytest.approx(bar.step_ms, rel=1e-9)


def test_of_a_thousand_ranks_the_outliers_are_shown_and_one_bar_for_the_others(demo: Diagnosis) -> None:
    rows = [row(rank, 50.0 + rank / 1e4, 30.0 if rank in (7, 900) else 0.0) for rank in range(1024)]
    found = bars(demo.model_copy(update={"breakdown": rows}))
    outliers = chosen_ranks({each.rank: part_ms(each) for each in rows}).outliers
    assert [bar.label for bar in found[:-1]] == [f"rank {rank}" for rank in outliers]  # those of the chat
    assert {"rank 7", "rank 900"} <= {bar.label for bar in found}
    others = found[-1]
    assert others.label.startswith("1,011 other ranks")
    assert others.parts in {part_ms(each) for each in rows if each.rank not in (7, 900)}


def test_ranks_compared_by_summary_have_a_bar_per_group(demo: Diagnosis) -> None:
    medians = {"wall": 80.0, "compute": 50.0, "data_wait": 30.0} | {
        part: 0.0 for part in PARTS if part not in ("compute", "data_wait")
    }
    usual = RankGroupRecord(ranks=[(0, 6), (8, 1023)], count=1023, read=[0], stage=None, differs=[], medians_ms=medians)
    late = usual.model_copy(update={"ranks": [(7, 7)], "count": 1, "read": [7]})
    screening = ScreeningRecord(found=1024, summarized=1024, read_in_full=[], groups=[usual, late], waited_for=[])
    run = demo.run.model_copy(update={"screening": screening})
    found = bars(demo.model_copy(update={"run": run}))
    assert [bar.label for bar in found] == ["ranks 0 to 6 and 8 to 1023", "rank 7"]
    assert sum(found[0].parts) == pytest.approx(80.0)


def test_groups_that_are_named_alike_keep_a_bar_each(demo: Diagnosis) -> None:
    medians = {"wall": 50.0} | {part: 50.0 if part == "compute" else 0.0 for part in PARTS}
    scattered = [(rank, rank) for rank in range(0, 40, 4)]
    group = RankGroupRecord(ranks=scattered, count=10, read=[], stage=None, differs=[], medians_ms=medians)
    screening = ScreeningRecord(found=20, summarized=20, read_in_full=[], groups=[group, group], waited_for=[])
    run = demo.run.model_copy(update={"screening": screening})
    found = bars(demo.model_copy(update={"run": run}))
    assert [bar.label for bar in found] == ["10 ranks between 0 and 36, group 1", "10 ranks between 0 and 36, group 2"]


def test_a_heatmap_of_many_ranks_and_steps_shows_the_longest_of_each_cell() -> None:
    values = {(rank, step): 10.0 for rank in range(100) for step in range(500)} | {(42, 333): 99.0, (3, 0): 60.0}
    heat = Heat("own", tuple(range(100)), tuple(range(500)), values)
    found = grid(heat, 40)
    outliers = chosen_ranks(rank_figures(heat)).outliers
    assert found.rows == (*(f"rank {rank}" for rank in outliers), "87 others")
    assert max(found.values[found.rows.index("rank 3")]) == 60.0
    assert len(found.columns) == 40
    assert found.binned
    assert max(max(each) for each in found.values) == 99.0
    assert max(found.values[found.rows.index("rank 42")]) == 99.0
    assert found.level(99.0, HEAT_LEVELS) == HEAT_LEVELS - 1
    assert found.level(10.0, HEAT_LEVELS) == 0
    assert found.limit_ms(0, HEAT_LEVELS) == 10.0


def test_a_step_that_a_rank_lacks_stays_empty_and_equal_values_have_one_shade() -> None:
    found = grid(Heat("own", (0, 1), (5, 6), {(0, 5): 10.0, (0, 6): 10.0, (1, 5): 10.0}), 40)
    assert found.values[1][1] != found.values[1][1]
    assert {found.level(value, HEAT_LEVELS) for each in found.values for value in each if value == value} == {0}


def test_a_column_of_several_steps_names_the_longest() -> None:
    times = recorded_times(0, [(step, 10.0 if step != 70 else 44.0) for step in range(100)], 10.0)
    found = columns(times, 10)
    assert len(found) == 10
    assert found[7].label == "70-79"
    assert (found[7].longest.step, found[7].longest.ms, found[7].longest.long) == (70, 44.0, True)
    assert sum(each.longest.long for each in found) == 1


def test_groups_without_a_bar_and_what_bars_of_groups_show_are_said(demo: Diagnosis) -> None:
    medians = {"wall": 80.0, "compute": 50.0, "data_wait": 30.0} | {
        part: 0.0 for part in PARTS if part not in ("compute", "data_wait")
    }
    groups = [
        RankGroupRecord(ranks=[(rank, rank)], count=1, read=[rank], stage=None, differs=[], medians_ms=medians)
        for rank in range(18)
    ]
    screening = ScreeningRecord(found=18, summarized=18, read_in_full=[], groups=groups, waited_for=[], more_groups=3)
    drawn = breakdown(demo.model_copy(update={"run": demo.run.model_copy(update={"screening": screening})}), None)
    assert "30.0 ms of the step (37.5 %) on rank 0 and 15 more." in drawn.finding
    assert "5 further groups without a bar." in drawn.finding

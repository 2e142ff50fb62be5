"""``hermes-dx ranks``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hermes_agent.cli.commands import ranks
from hermes_agent.cli.commands.ranks import rank_rows
from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli.execution import execute
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.run.model import ClockOffset, Layout, ProcessGroup
from tools.views.profile import Profile

DEMO = str(demo_run())


def rank(number: int, length_us: float) -> RankBuilder:
    builder = RankBuilder(number)
    builder.kernel("sgemm", 10, length_us - 20, call_us=5)
    builder.step(0, 0, length_us)
    return builder


def grouped() -> Profile:
    """Four ranks of 1, 2, 4 and 3 ms; ranks 0 and 1 are a tensor-parallel pair, 2 and 3 another."""
    pairs = tuple(ProcessGroup(f"{n}", f"tp {n}", "nccl", members, 2) for n, members in enumerate([(0, 1), (2, 3)]))
    everyone = ProcessGroup("all", "default", "nccl", (0, 1, 2, 3), 4)
    layout = Layout(world_size=4, groups=(everyone, *pairs))
    return profile_of(rank(0, 1000), rank(1, 2000), rank(2, 4000), rank(3, 3000), layout=layout)


def test_the_slowest_rank_of_the_run_and_of_every_group_is_marked() -> None:
    rows = rank_rows(grouped())
    assert [row["slowest_of"] for row in rows] == [[], ["tp 0"], ["all ranks", "tp 1"], []]
    assert [row["own_ms"] for row in rows] == [1.0, 2.0, 4.0, 3.0]


def test_one_rank_is_not_called_the_slowest() -> None:
    assert rank_rows(profile_of(rank(0, 1000)))[0]["slowest_of"] == []


def test_the_clock_offset_is_given_with_its_uncertainty() -> None:
    profile = grouped()
    run = profile.run
    aligned = replace(run.ranks[1], clock=ClockOffset(12_500, 900, "collectives"))
    unknown = replace(run.ranks[2], clock=ClockOffset(3_000, None, "origin"))
    rows = rank_rows(Profile(replace(run, ranks=(run.ranks[0], aligned, unknown, run.ranks[3]))))
    assert [row["clock_uncertainty_ns"] for row in rows] == [None, 900, None, None]
    assert "+12.5 ± 0.9 us" in ranks.table_text(rows)
    assert "+3.0 ± unknown us" in ranks.table_text(rows)
    assert "not aligned" in ranks.table_text(rows)


@pytest.mark.usefixtures("commands_cache")
def test_the_waiting_rank_of_the_bundled_run_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    execute(ranks, DEMO, "--json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["rank"] for row in rows if row["slowest_of"]] == [1]
    assert rows[1]["data_wait_ms"] > 10 * rows[0]["data_wait_ms"]


@pytest.mark.usefixtures("commands_cache")
def test_the_table_marks_the_slowest_at_the_end_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    execute(ranks, DEMO)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "slowest of" in line] == ["1"]


def test_steps_that_no_profiler_touched_are_told_beside_the_traced_ones() -> None:
    rows = rank_rows(recorded_profile(records_of([step_rows(0, [70.0] * 40), step_rows(1, [80.0] * 40)])))
    assert [(row["wall_ms"], row["unprofiled_ms"]) for row in rows] == [(50.0, 70.0), (50.0, 80.0)]
    assert "unprofiled: unprofiled steps, from the records" in ranks.table_text(rows)
    assert "unprofiled_ms" not in rank_rows(grouped())[0]

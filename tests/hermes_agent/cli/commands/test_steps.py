"""``hermes-dx steps``."""

from __future__ import annotations

import json

import pytest

from hermes_agent.cli.commands import steps
from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli.execution import execute
from tests.synthetic import RankBuilder, profile_of
from tools.views.parts import PARTS
from tools.views.steps.rows import step_rows

DEMO = str(demo_run())


def rank(number: int, lengths_us: list[float]) -> RankBuilder:
    builder = RankBuilder(number)
    start_us = 0.0
    for step, length_us in enumerate(lengths_us):
        builder.kernel("sgemm", start_us + 10, length_us - 20, call_us=start_us + 5)
        builder.step(step, start_us, start_us + length_us)
        start_us += length_us
    return builder


def test_each_step_is_shown_on_the_rank_that_took_longest() -> None:
    rows = step_rows(profile_of(rank(0, [1000, 3000]), rank(1, [2000, 2500])))
    assert [(row["step"], row["rank"], row["wall_ms"]) for row in rows] == [(0, 1, 2.0), (1, 0, 3.0)]
    assert rows[0]["compute_ms"] == pytest.approx(1.98)


def test_ranks_that_take_equally_long_are_told_apart_by_number() -> None:
    assert [row["rank"] for row in step_rows(profile_of(rank(1, [1000]), rank(0, [1000])))] == [0]


@pytest.mark.usefixtures("commands_cache")
def test_the_parts_of_every_step_add_up_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(steps, DEMO, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "hermes-dx/steps/1"
    assert [row["step"] for row in record["rows"]] == [39, 40, 41, 42, 43]
    for row in record["rows"]:
        assert sum(row[f"{part}_ms"] for part in PARTS) == pytest.approx(row["wall_ms"])


@pytest.mark.usefixtures("commands_cache")
def test_the_table_has_a_line_per_step_that_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    execute(steps, DEMO, "--steps", "40:42")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["step", "rank", "wall", "ms"]
    assert [line.split()[0] for line in lines[1:]] == ["40", "41", "42"]

"""What a diagnosis says of the run next to its traces."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from hermes_agent.model.display import recorded_count
from hermes_agent.report.records import MOST_SPANS, recorded_record, run_record
from tests.recorded_runs import records_of, step_rows, traced_rank
from tests.synthetic import run_of
from tools.run.model import Run


def traced() -> Run:
    return run_of(traced_rank(0))


def test_a_run_of_traces_alone_has_nothing_recorded() -> None:
    assert recorded_record(traced()) is None
    assert run_record(traced()).recorded is None


def test_ranks_steps_and_hosts_of_the_records_stand_next_to_the_traced_ones() -> None:
    records = records_of([step_rows(0, [10.0] * 30), step_rows(50, [10.0] * 40)])
    made = run_record(replace(traced(), records=records))
    assert made.ranks == [0]
    assert made.recorded is not None
    assert (made.recorded.ranks, made.recorded.steps, made.recorded.hosts) == ([0, 50], [(0, 39)], ["host"])


def test_steps_of_a_log_are_shown_as_unbroken_spans() -> None:
    log = pd.DataFrame({"rank": [0, 0, 0, 3, 3], "step": [1, 2, 7, 3, 9], "wall_ms": 1.0})
    made = recorded_record(replace(traced(), step_log=log))
    assert made is not None
    assert (made.ranks, made.steps, made.hosts) == ([0, 3], [(1, 3), (7, 7), (9, 9)], [])


def test_the_spans_of_a_log_with_gaps_everywhere_are_bounded() -> None:
    log = pd.DataFrame({"rank": 0, "step": range(0, 50_000, 10), "wall_ms": 1.0})
    made = recorded_record(replace(traced(), step_log=log))
    assert made is not None
    assert len(made.steps) == MOST_SPANS
    assert (made.steps[-2], made.steps[-1]) == ((9980, 9980), (49_990, 49_990))
    assert made.steps_not_listed == 5000 - MOST_SPANS
    assert recorded_count(made)[1] == "5,000 of steps 0 to 49990"

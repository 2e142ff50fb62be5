"""What a diagnosis says of the run beside its traces."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from hermes_agent.report.records import MOST_SPANS, recorded_record, run_record
from tests.recorded_runs import records_of, step_rows, traced_rank
from tests.synthetic import run_of
from tools.run.model import Run


def traced() -> Run:
    return run_of(traced_rank(0))


def test_a_run_of_traces_alone_has_nothing_recorded() -> None:
    assert recorded_record(traced()) is None
    assert run_record(traced()).recorded is None


def test_ranks_steps_and_hosts_of_the_records_are_told_beside_the_traced_ones() -> None:
    records = records_of([step_rows(0, [10.0] * 30), step_rows(50, [10.0] * 40)])
    told = run_record(replace(traced(), records=records))
    assert told.ranks == [0]
    assert told.recorded is not None
    assert (told.recorded.ranks, told.recorded.steps, told.recorded.hosts) == ([0, 50], [(0, 39)], ["host"])


def test_steps_of_a_log_are_told_as_unbroken_spans() -> None:
    log = pd.DataFrame({"rank": [0, 0, 0, 3, 3], "step": [1, 2, 7, 3, 9], "wall_ms": 1.0})
    told = recorded_record(replace(traced(), step_log=log))
    assert told is not None
    assert (told.ranks, told.steps, told.hosts) == ([0, 3], [(1, 3), (7, 7), (9, 9)], [])


def test_the_spans_of_a_log_with_gaps_everywhere_are_bounded() -> None:
    log = pd.DataFrame({"rank": 0, "step": range(0, 50_000, 10), "wall_ms": 1.0})
    told = recorded_record(replace(traced(), step_log=log))
    assert told is not None
    assert len(told.steps) == MOST_SPANS
    assert told.steps[-1] == (9990, 9990)

"""The first sentences on tables without a timeline: how the step splits, and whom their rows stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.report.opening import opening
from tools.findings import Sentence
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile


def said(path: Path) -> list[Sentence]:
    profile = Profile(load_run([path]))
    return opening(profile, ranking(profile))


def test_an_ascend_step_without_a_timeline_states_its_parts(traces: Path) -> None:
    (split,) = (
        each for each in said(traces / "ascend/cluster_analysis_output") if "communicates exposed" in each.template
    )
    computing, exposed, free, stage = (fact.value for fact in split.facts)
    assert computing + exposed + free == pytest.approx(stage, rel=0.001)


def test_a_table_of_kernels_alone_speaks_of_no_steps(traces: Path) -> None:
    found = [each.template for each in said(traces / "ascend/kernel_details_591.csv")]
    assert any("Conversions of formats and types" in text and "in the whole table" in text for text in found)
    assert not any("per step" in text for text in found)


def test_rows_of_a_straggler_study_stand_for_their_tensor_parallel_devices(traces: Path) -> None:
    found = [each.template for each in said(traces / "straggler_analysis/trace-AR.parquet")]
    assert any("all devices that share its work by tensor parallelism" in text for text in found)

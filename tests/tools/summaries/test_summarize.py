"""A summary of one trace says what the views of the whole run say of that rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tools.run.events import EventKind
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.sources.registry import trace_format
from tools.summaries.record import MOST_OPERATORS, MOST_STALLS, TABLES, RankSummary
from tools.summaries.summarize import summarize
from tools.views.communication.collectives import collectives
from tools.views.parts import PARTS
from tools.views.profile import Profile

ALONE = LoadOptions(workers=1)


@pytest.fixture(scope="module")
def eight_ranks(traces: Path) -> Path:
    """A recorded run of eight ranks."""
    return traces / "param" / "dlrm_8rank"


def summary_of(path: Path) -> RankSummary:
    """The summary of the trace in that file."""
    return summarize(trace_format(path).read(path, "digest", ALONE, None))


def test_steps_and_collectives_are_those_of_the_run_on_the_traces_own_axis(eight_ranks: Path) -> None:
    profile = Profile(load_run([eight_ranks], ALONE))
    everything = collectives(profile)
    for source in profile.run.sources:
        summary, rank = summary_of(source.path), profile.rank(source.ranks[0])
        own = everything[(everything["rank"] == source.ranks[0]) & (everything["step"] >= 0)].reset_index(drop=True)
        shift = int(rank.steps["start_ns"].iloc[0] - summary.steps["start_ns"].iloc[0])
        pd.testing.assert_frame_equal(summary.steps[rank.breakdown.columns.tolist()], rank.breakdown)
        assert summary.steps["start_ns"].tolist() == (rank.steps["start_ns"] - shift).tolist()
        for column in ("kind", "group", "members", "bytes", "step", "sequence"):
            assert summary.collectives[column].tolist() == own[column].tolist()
        assert summary.collectives["start_ns"].tolist() == (own["start_ns"] - shift).tolist()
        assert len(summary.collectives) == 8


def test_parts_of_a_step_add_up_and_no_collective_is_exposed_longer_than_it_lasts(eight_ranks: Path) -> None:
    summary = summary_of(eight_ranks / "worker2.pt.trace.json.gz")
    assert summary.steps[[f"{part}_ns" for part in PARTS]].sum(axis=1).tolist() == summary.steps["wall_ns"].tolist()
    exposed_ns = int((summary.exposed["end_ns"] - summary.exposed["start_ns"]).sum())
    assert exposed_ns == int(summary.steps["exposed_communication_ns"].sum())
    lasting = summary.collectives["end_ns"] - summary.collectives["start_ns"]
    assert (summary.collectives["exposed_ns"] <= lasting).all()
    assert 0 < int(summary.collectives["exposed_ns"].sum()) <= exposed_ns


def test_the_largest_operators_and_kernels_are_counted_in_steps(eight_ranks: Path) -> None:
    path = eight_ranks / "worker2.pt.trace.json.gz"
    summary, frame = summary_of(path), trace_format(path).read(path, "digest", ALONE, None).table.frame
    first, last = int(summary.steps["start_ns"].min()), int(summary.steps["end_ns"].max())
    inside = frame[(frame["start_ns"] >= first) & (frame["start_ns"] < last) & (frame["kind"] == EventKind.KERNEL)]
    lasting = (inside["end_ns"] - inside["start_ns"]).groupby(inside["name"].astype("str")).agg(["size", "sum"])
    kernels = summary.operators[(summary.operators["kind"] == "kernel").to_numpy()]
    expected = lasting.reindex(pd.Index(kernels["name"].astype("str")))
    assert kernels["count"].tolist() == expected["size"].tolist()
    assert kernels["total_ns"].tolist() == expected["sum"].tolist()
    assert kernels["total_ns"].iloc[0] == lasting["sum"].max()
    assert np.unique(summary.operators["kind"], return_counts=True)[1].max() <= MOST_OPERATORS


def test_columns_have_the_documented_types_also_where_a_table_is_empty(traces: Path) -> None:
    for name in ("hta/cpu_only.json.gz", "kineto/resnet50_workers0.pt.trace.json.gz"):
        summary = summary_of(traces / name)
        for table, columns in TABLES.items():
            assert {key: str(dtype) for key, dtype in summary.table(table).dtypes.items()} == columns, (name, table)
        lasting = summary.stalls["end_ns"] - summary.stalls["start_ns"]
        assert lasting.is_monotonic_decreasing
        assert len(lasting) <= MOST_STALLS

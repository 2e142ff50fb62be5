"""Tools on recorded traces of public origin, against plain pandas over the JSON of the files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.real_runs import real_profile
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import BY_NAME

RESNET = "kineto/resnet50_workers0.pt.trace.json.gz"
DLRM = "param/dlrm_8rank"


def raw(path: Path) -> pd.DataFrame:
    """Complete events of one file: name, cat, ts, dur (us), tid and external id as they stand in it."""
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    table = pd.DataFrame([each for each in events if each.get("ph") == "X"])
    arguments = table["args"].map(lambda each: each if isinstance(each, dict) else {})
    return table.assign(
        cat=table["cat"].str.lower(),
        external=arguments.map(lambda each: each.get("External id", each.get("external id"))),
        correlation=arguments.map(lambda each: each.get("correlation")),
        dims=arguments.map(lambda each: json.dumps(each.get("Input Dims", each.get("Input dims")))),
    )


def rows(tool: str, traces: Path, name: str, /, **arguments: object) -> list[dict[str, Any]]:
    context = RunContext(real_profile(traces / name))
    found, cursor = [], None
    while True:
        result = BY_NAME[tool].call(context, {**arguments, "cursor": cursor} if cursor else arguments)
        found += [row.model_dump() for row in result.rows]
        cursor = result.cursor
        if cursor is None:
            return found


def test_the_slowest_kernels_of_a_step_are_those_of_the_file(traces: Path) -> None:
    table = raw(traces / RESNET)
    marks = table[table["name"].str.startswith("ProfilerStep#")].sort_values("ts")
    begin, end = marks[marks["name"].isin(["ProfilerStep#7", "ProfilerStep#8"])]["ts"]  # a step ends at the next mark
    kernels = table[(table["cat"] == "kernel") & (table["ts"] >= begin) & (table["ts"] < end)]
    found = rows("find_events", traces, RESNET, rank=0, kind="kernel", step=7, limit=500)
    assert len(found) == len(kernels)
    longest = kernels.nlargest(10, "dur")
    assert [row["duration_ms"] for row in found[:10]] == pytest.approx([us / 1e3 for us in longest["dur"]])
    assert {row["name"] for row in found[:10]} == set(longest["name"])


def test_kernels_by_name_add_up_to_those_of_the_file(traces: Path) -> None:
    table = raw(traces / RESNET)
    kernels = table[table["cat"] == "kernel"].groupby("name")["dur"].agg(["sum", "size"])
    found = rows("find_events", traces, RESNET, rank=0, kind="kernel", group_by="name", limit=500)
    assert {row["name"]: row["count"] for row in found} == kernels["size"].to_dict()
    assert {row["name"]: row["total_ms"] for row in found} == pytest.approx((kernels["sum"] / 1e3).to_dict())


def test_matrix_multiplications_by_shape_have_the_time_of_the_kernels_that_they_launch(traces: Path) -> None:
    table = raw(traces / RESNET)
    operators = table[table["name"].isin(["aten::mm", "aten::addmm"])].set_index("external")
    launched = table[(table["cat"] == "kernel") & table["external"].isin(operators.index)]
    times = launched.groupby(launched["external"].map(operators["dims"]))["dur"].sum() / 1e3
    found = rows("find_events", traces, RESNET, rank=0, kind="kernel", group_by="shape", sort="rate", limit=500)
    by_shape = {row["name"]: row for row in found if row["name"].startswith(("aten::mm ", "aten::addmm "))}
    assert sorted(row["own_ms"] for row in by_shape.values()) == pytest.approx(sorted(times))
    worst = found[0]
    assert worst["name"].startswith("aten::addmm [[1000], [32, 2048], [2048, 1000]")
    assert worst["tflop_per_s"] == pytest.approx(2 * 32 * 2048 * 1000 * 6 / (worst["own_ms"] / 1e3) / 1e12)


def test_two_ranks_compared_by_kernel_differ_as_their_files_do(traces: Path) -> None:
    files = sorted((traces / DLRM).iterdir())
    profile = real_profile(traces / DLRM)
    sums = {}
    for rank in (0, 3):
        path = next(each.path for each in profile.run.sources if each.ranks == (rank,))
        table = raw(path)
        step = profile.rank(rank).rank.steps
        assert len(step) == 1
        sums[rank] = table[table["cat"] == "kernel"].groupby("name")["dur"].sum() / 1e3
    assert len(files) == 8
    difference = sums[3].sub(sums[0], fill_value=0.0)
    found = rows("compare", traces, DLRM, between="ranks", a=0, b=3, by="name", limit=500)
    assert {row["name"]: row["delta_ms"] for row in found} == pytest.approx(difference.to_dict())
    sizes = [abs(row["delta_ms"]) for row in found]
    assert sizes == sorted(sizes, reverse=True)


def test_utilization_of_a_known_model(traces: Path) -> None:
    """ResNet-50 needs 4.09 G multiply-adds per image forward and twice that backward, 32 images a step."""
    result = BY_NAME["mfu"].call(RunContext(real_profile(traces / RESNET)), {})
    found = {fact.label: fact.value for fact in result.facts}
    assert found["operations per step"] == pytest.approx(3 * 2 * 4.09e9 * 32, rel=0.02)
    assert found["MFU"] == pytest.approx(100 * found["operations per step"] / (0.177592 * 15.7e12), rel=0.01)

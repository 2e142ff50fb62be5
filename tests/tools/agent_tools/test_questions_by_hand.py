"""Questions of an engineer, answered by tools and worked out a second way: by plain pandas over the events, or by hand
from the durations that the run was made of."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from tests.synthetic import RankBuilder, profile_of
from tests.tools.agent_tools.questions_run import COPY, GEMM, LINE, REDUCE, SMALL_GEMM, STEPS, questions_profile
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import BY_NAME
from tools.agent_tools.result import Result
from tools.errors import UsageError
from tools.run.events import EventKind

CONTEXT = RunContext(questions_profile())


def ask(tool: str, /, **arguments: object) -> Result:
    return BY_NAME[tool].call(CONTEXT, json.dumps(arguments))


def rows(result: Result) -> list[dict[str, Any]]:
    return [row.model_dump() for row in result.rows]


def values(result: Result) -> dict[str, float]:
    return {fact.label: fact.value for fact in result.facts}


def raw(rank: int = 0) -> pd.DataFrame:
    """The events of a rank as a reader of the trace sees them, times in ms, without any link between them."""
    frame = questions_profile().rank(rank).events.frame
    kinds = [EventKind(kind).name.lower() for kind in frame["kind"]]
    start = frame["start_ns"] / 1e6
    table = pd.DataFrame({"name": frame["name"].astype(str), "kind": kinds, "start": start, "step": start // 10})
    return table.assign(ms=(frame["end_ns"] - frame["start_ns"]) / 1e6)


def test_which_layer_is_slow() -> None:
    first, second = rows(ask("find_events", rank=0, group_by="module", contains="gemm"))[:2]
    assert [first["name"], second["name"]] == ["Net_0/Linear_0", "Net_0/Linear_1"]
    table = raw()
    for row, kernel in (
        (first, GEMM),
        (second, SMALL_GEMM),
    ):  # forward and backward: the backward is the forward's layer
        assert row["own_ms"] == pytest.approx(table[table["name"] == kernel]["ms"].sum())
        assert row["count"] == 2 * STEPS


def test_the_slowest_kernels_of_a_rank_in_a_step() -> None:
    found = rows(ask("find_events", rank=1, kind="kernel", step=3, limit=10))
    table = raw(1)
    expected = table[(table["kind"] == "kernel") & (table["step"] == 3)].nlargest(10, "ms", keep="first")
    assert [(row["name"], row["duration_ms"]) for row in found] == list(
        zip(expected["name"], [pytest.approx(ms) for ms in expected["ms"]], strict=True)
    )


def test_is_the_second_all_reduce_overlapped_with_backward() -> None:
    (second,) = rows(ask("collective_instances", rank=0, step=1, kind="all_reduce", index=2))
    (first,) = rows(ask("collective_instances", rank=0, step=1, kind="all_reduce", index=1))
    assert (first["start_ms"], second["start_ms"]) == (pytest.approx(15.35), pytest.approx(16.35))
    # The first one runs from 15.35 to 15.80 ms, the backward of the other layer from 15.5 to 16.5 ms.
    assert first["overlaps_ms"] == {"backward": pytest.approx(0.30)}
    assert second["overlaps_ms"] == {"backward": pytest.approx(0.15)}
    assert second["overlapped_ms"] + second["exposed_ms"] == pytest.approx(second["duration_ms"]) == pytest.approx(0.45)
    assert (second["group"], second["bytes"]) == ("data_parallel of 2 ranks", 16384)


def test_two_steps_compared() -> None:
    result = ask("compare", between="steps", a=1, b=2, rank=0, by="name", kind="device")
    (difference,) = [row for row in rows(result) if row["delta_ms"]]
    assert (difference["name"], difference["a_ms"], difference["b_ms"]) == (COPY, 0.0, pytest.approx(0.05))
    wall = values(result)
    assert wall["a, step 1, whole step"] == wall["b, step 2, whole step"] == pytest.approx(10.0)


def test_what_is_copied_at_a_moment_and_who_calls_it() -> None:
    (copy,) = rows(ask("find_events", rank=0, name="aten::copy_", from_ms=21.0, to_ms=22.0))
    related = rows(ask("event", id=copy["id"]))
    parents = [row["name"] for row in related if row["relation"] == "parent"]
    assert parents == ["nn.Module: Net_0", LINE, "ProfilerStep#2"]
    (call,) = [row for row in related if row["relation"] == "child"]
    (launched,) = [row for row in rows(ask("event", id=call["id"])) if row["relation"] == "launches"]
    assert (launched["name"], launched["details"]["bytes"]) == (COPY, 256)


def test_which_python_line_launches_a_kernel() -> None:
    found = rows(ask("find_events", rank=0, kind="kernel", contains="sgemm_128", group_by="stack"))
    assert {row["name"]: row["count"] for row in found} == {LINE: STEPS, "(no stack recorded)": STEPS}
    (kernel, *_) = rows(ask("find_events", rank=0, name=GEMM, sort="start"))
    opened = ask("event", id=kernel["id"])
    assert "`train.py(42): forward`" in "".join(opened.notes)
    launch = [row["name"] for row in rows(opened) if row["relation"] == "parent of the launch"]
    assert launch[:2] == ["aten::mm", "nn.Module: Linear_0"]
    assert "[[256, 512], [512, 1024]]" in "".join(opened.notes)


def test_forward_against_backward() -> None:
    found = {row["name"]: row["device_ms"] for row in rows(ask("phases", rank=0, step=1))}
    assert found["forward"] == pytest.approx(0.8 + 0.2)
    assert found["backward"] == pytest.approx(0.3 + 1.0)
    assert found["optimizer"] == pytest.approx(0.1)
    host = {row["name"]: row["host_ms"] for row in rows(ask("phases", rank=0, step=1))}
    assert host["data"] == pytest.approx(1.5)
    assert host["backward"] == pytest.approx(0.6)


def test_phases_are_not_separated_without_nodes_of_the_backward() -> None:
    rank = RankBuilder()
    rank.operator("aten::mm", 1, 20)
    rank.kernel("gemm", 50, 30, call_us=5)
    rank.step(0, 0, 100)
    result = BY_NAME["phases"].call(RunContext(profile_of(rank)), {"rank": 0})
    assert "not separable" in result.notes[0]
    assert {row.model_dump()["name"]: row.model_dump()["device_ms"] for row in result.rows}["forward"] == 0.0


def test_a_closure_inside_of_the_optimizers_step_is_no_optimizer() -> None:
    """As Lightning calls it: the step's loss and gradients are computed within `Optimizer.step`."""
    rank = RankBuilder(device=None)
    rank.annotation("Optimizer.step#AdamW.step", 10, 80)
    rank.annotation("Optimizer.zero_grad#AdamW.zero_grad", 12, 3)
    rank.operator("aten::zero_", 13, 1)
    rank.operator("aten::mm", 20, 15)
    rank.operator("autograd::engine::evaluate_function: MmBackward0", 40, 25)
    rank.operator("aten::mm", 42, 20)
    rank.operator("aten::_foreach_addcmul_", 70, 9)
    rank.step(0, 0, 100)
    rank.annotation("Optimizer.step#AdamW.step", 160, 20)
    rank.operator("aten::mm", 110, 12)
    rank.operator("autograd::engine::evaluate_function: MmBackward0", 130, 25)
    rank.operator("aten::_foreach_addcmul_", 170, 6)
    rank.step(1, 100, 200)
    context = RunContext(profile_of(rank))
    for step, expected in ((0, (15, 25, 9)), (1, (12, 25, 20))):
        result = BY_NAME["phases"].call(context, {"rank": 0, "step": step})
        host_us = {row.model_dump()["name"]: 1e3 * row.model_dump()["host_ms"] for row in result.rows}
        forward, backward, optimizer = expected
        assert host_us["forward"] == pytest.approx(forward)
        assert host_us["backward"] == pytest.approx(backward)
        assert host_us["optimizer"] == pytest.approx(optimizer + (3 if step == 0 else 0))


def test_the_worst_shape_of_a_matrix_multiplication() -> None:
    worst, best = rows(ask("find_events", rank=0, group_by="shape", sort="rate"))[:2]
    assert worst["name"].startswith("aten::mm [[8, 16], [16, 32]]")
    assert best["name"].startswith("aten::mm [[256, 512], [512, 1024]]")
    operations, seconds = 2 * 2 * 256 * 512 * 1024, (800 + 1000) / 1e6
    assert best["tflop_per_s"] == pytest.approx(operations / seconds / 1e12)
    assert best["peak_pct"] == pytest.approx(100 * operations / seconds / 15.7e12)
    assert worst["tflop_per_s"] == pytest.approx(2 * 2 * 8 * 16 * 32 / (500 / 1e6) / 1e12)


def test_the_cost_of_tensor_against_data_parallelism() -> None:
    found = {row["name"]: row for row in rows(ask("find_events", rank=0, group_by="group"))}
    table = raw()
    reductions = table[table["name"] == REDUCE].reset_index(drop=True)
    for group, parity in (("tensor_parallel of 2 ranks", 0), ("data_parallel of 2 ranks", 1)):  # they take turns
        own = reductions[reductions.index % 2 == parity]
        assert found[group]["total_ms"] == pytest.approx(own["ms"].sum())
    # Per step 0.3 of the first one's 0.45 ms lie under the backward kernel, 0.15 of the second one's.
    assert found["tensor_parallel of 2 ranks"]["exposed_ms"] == pytest.approx(STEPS * 0.15)
    assert found["data_parallel of 2 ranks"]["exposed_ms"] == pytest.approx(STEPS * 0.30)


def test_gaps_over_a_millisecond_and_what_the_host_did() -> None:
    found = rows(ask("gaps", rank=0, step=1, min_us=1000))
    table = raw()
    device = table[table["kind"].isin(["kernel", "memcpy"]) & (table["step"] == 1)].sort_values("start")
    reach = [10.0, *(device["start"] + device["ms"]).cummax()]
    lengths = [start - end for start, end in zip([*device["start"], 20.0], reach, strict=True)]
    assert [row["duration_ms"] for row in found] == pytest.approx(
        sorted((ms for ms in lengths if ms >= 1), reverse=True)
    )
    (loading,) = [row for row in found if row["start_ms"] == pytest.approx(10.0)]
    assert (loading["reason"], loading["reasons_ms"]["data"]) == ("data", pytest.approx(1.5))
    assert loading["host"][0]["name"].startswith("enumerate(DataLoader)")
    assert loading["host"][0]["own_ms"] == pytest.approx(1.5)


def test_a_rank_against_another_by_kernel() -> None:
    found = rows(ask("compare", between="ranks", a=0, b=1, by="name"))
    means = [raw(rank)[raw(rank)["kind"] == "kernel"].groupby("name")["ms"].sum() / STEPS for rank in (0, 1)]
    assert {row["name"]: row["delta_ms"] for row in found} == pytest.approx((means[1] - means[0]).to_dict())
    assert found[0]["name"] == GEMM
    assert (found[0]["a_ms"], found[0]["b_ms"]) == (pytest.approx(1.8), pytest.approx(3.6))


def test_both_fixes_together_or_the_reason_against_it() -> None:
    result = ask("what_if", changes=[{"cause": "slow_data_processing"}, {"cause": "straggler"}])
    said = {note.split(" was not found")[0] for note in result.notes if "was not found" in note}
    predicted = {cause for fact in result.facts for cause in str(fact.arguments["causes"]).split(",")}
    assert said | {each.partition("/")[0] for each in predicted} >= {"slow_data_processing", "straggler"}
    assert not said & predicted


def test_a_setting_is_predicted_by_name_or_refused_with_what_it_needs() -> None:
    (step, *_) = ask("what_if", settings=[f'kernels "{GEMM}" 1.5x']).facts
    assert step.metric == "changed_step_ms"
    assert 0 < step.value <= CONTEXT.profile().mean_step_ms
    assert "What it needs" in ask("what_if", settings=["batch_size=8"]).notes[0]
    with pytest.raises(UsageError, match="did you mean num_workers=N"):
        ask("what_if", settings=["num_worker=8"])


def test_model_flop_utilization() -> None:
    found = values(ask("mfu", rank=0))
    operations = 2 * (2 * 256 * 512 * 1024 + 2 * 8 * 16 * 32)  # forward and backward of both layers
    assert found["operations per step"] == pytest.approx(operations)
    assert found["MFU"] == pytest.approx(100 * operations / (10e-3 * 15.7e12))


def test_mfu_is_refused_without_shapes() -> None:
    rank = RankBuilder()
    rank.operator("aten::mm", 1, 20)
    rank.kernel(GEMM, 50, 30, call_us=5)
    rank.step(0, 0, 100)
    result = BY_NAME["mfu"].call(RunContext(profile_of(rank)), {})
    assert result.facts == ()
    assert "record_shapes=True" in result.notes[0]


def test_settings_of_nccl_and_openmp() -> None:
    rank = RankBuilder(NCCL_DEBUG="INFO", OMP_NUM_THREADS="4", record_shapes="1")
    rank.kernel(GEMM, 50, 30, call_us=5)
    rank.step(0, 0, 100)
    context = RunContext(profile_of(rank))
    found = {}
    for text in ("NCCL", "omp", "MKL"):
        listed = rows(BY_NAME["environment"].call(context, {"contains": text}))
        found[text] = [(row["name"], row["value"]) for row in listed]
    assert found == {"NCCL": [("NCCL_DEBUG", "INFO")], "omp": [("OMP_NUM_THREADS", "4")], "MKL": []}
    assert "not set, or not recorded" in BY_NAME["environment"].call(context, {"contains": "MKL"}).notes[0]


def test_a_truncated_kernel_name_is_an_error_and_not_zero() -> None:
    with pytest.raises(UsageError, match=f"is called 'volta_sgemm_128'; the nearest names are '{GEMM}'"):
        ask("find_events", rank=0, kind="kernel", name="volta_sgemm_128")
    with pytest.raises(UsageError, match=f"there is no name .* choose one of .*{GEMM}"):
        ask("measure", metric="events_ms", arguments={"rank": 0, "by": "name", "name": GEMM[:-3]})

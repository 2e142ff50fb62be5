"""Stragglers: a made-up pipeline with a known answer, and the published results of real ones."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest

from tools.errors import InputError, UsageError
from tools.whatif.planners.record import Planned
from tools.whatif.planners.straggler import Input, StragglerPlan, plan, plan_parquet
from tools.whatif.planners.straggler_graph import Graph, Group, Operation


def step(slow_stage: int = 1, slow_dp: int = 0, factor: float = 3.0) -> list[dict[str, object]]:
    """Two stages, two data-parallel ranks, two micro-batches; forward 10 ms, backward 20 ms, sends 1 ms."""
    rows = []
    for dp in range(2):
        ends: dict[tuple[int, str, int], float] = {}
        slow = {stage: factor if (stage, dp) == (slow_stage, slow_dp) else 1.0 for stage in range(2)}

        def add(stage: int, kind: str, number: int, start: float, took: float, dp: int = dp, chunk: int = 0) -> float:
            rows.append(
                {
                    **{"dp_rank": dp, "stage": stage, "rank": stage * 2 + dp, "step": 0, "optype": kind},
                    **{"start_ms": start, "duration_ms": took, "seq_id": number, "mc": chunk, "gmc": stage},
                }
            )
            return start + took

        free = {0: 0.0, 1: 0.0}
        for number in range(2):
            done = free[0] = add(0, "forward-compute", number, free[0], 10.0 * slow[0])
            received = max(done, free[1])
            sent = add(0, "forward-send", number, done, received + 1.0 - done)
            add(1, "forward-recv", number, received, 1.0)
            ends[1, "forward", number] = add(1, "forward-compute", number, sent, 10.0 * slow[1])
            free[1] = add(1, "backward-compute", number, ends[1, "forward", number], 20.0 * slow[1])
            ends[1, "backward", number] = free[1]
        for number in range(2):
            ready = max(free[0], ends[1, "backward", number])
            sent = add(
                1, "backward-send", number, ends[1, "backward", number], ready + 1.0 - ends[1, "backward", number]
            )
            add(0, "backward-recv", number, ready, 1.0)
            free[0] = add(0, "backward-compute", number, sent, 20.0 * slow[0])
        for stage in range(2):
            reduced = add(stage, "grads-reduce-scatter", 0, free[stage], 2.0)
            clipped = add(stage, "optimizer-clip-main-grad", 0, reduced, 1.0)
            add(stage, "optimizer", 0, clipped, 1.0)
    return rows


def analysed(rows: list[dict[str, object]]) -> tuple[Planned, StragglerPlan]:
    made = plan(Input.model_validate({"operations": rows}))
    assert isinstance(made.plan, StragglerPlan)
    return made, made.plan


def test_the_slow_worker_is_found_by_rank_stage_and_type() -> None:
    made, found = analysed(step())
    assert found.slowdown > 1.2
    assert found.worst_workers == [2]
    assert next(iter(found.by_worker)) == "2"
    assert next(iter(found.by_stage)) == "1"
    assert next(iter(found.by_dp_rank)) == "0"
    assert found.share_of_worst_workers == pytest.approx(1.0, abs=0.25)
    assert made.before_ms == pytest.approx(found.slowdown * made.after_ms)


def test_equal_workers_are_no_stragglers() -> None:
    _, found = analysed(step(factor=1.0))
    assert found.slowdown == pytest.approx(1.0, abs=0.02)
    assert max(found.by_worker.values()) < 1.02


def test_the_order_of_the_rows_changes_nothing() -> None:
    rows = step()
    assert analysed(rows[::-1])[1] == analysed(rows)[1]


def test_a_missing_operation_is_named_by_its_step() -> None:
    rows = [row for row in step() if not (row["dp_rank"] == 1 and row["optype"] == "optimizer" and row["stage"] == 0)]
    with pytest.raises(UsageError, match="same operations"):
        analysed(rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optype": "magic"}, "operation type 'magic' is not known"),
        ({"optype": "x" * 5000}, r"operation type 'x{59}\.\.\. is not known"),
        ({"stage": 5}, "stage runs from 0 to 5"),
        ({"dp_rank": 9}, "dp_rank runs from 0 to 9"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_sentence(change: dict[str, object], message: str) -> None:
    rows = step()
    with pytest.raises(UsageError, match=message):
        analysed([{**rows[0], **change}, *rows[1:]])


def test_a_cycle_is_named() -> None:
    operations = [Operation(0.0, number, "gc", 0, 0, 0, 1.0, number) for number in range(3)]
    graph = Graph(operations, {0: [1], 1: [0], 2: [0]}, [Group((2,), across_data_parallel=False)])
    with pytest.raises(UsageError, match=r"in a cycle: gc [01] on stage 0, gc [01] on stage 0$"):
        graph.order()


def test_a_table_without_its_columns_is_refused() -> None:
    content = BytesIO()
    pd.DataFrame({"stage": [0]}).to_parquet(content)
    with pytest.raises(InputError, match="lacks the columns dp_rank, duration"):
        plan_parquet(content.getvalue())
    with pytest.raises(InputError, match="cannot be read"):
        plan_parquet(b"PAR1 not really")


@pytest.mark.parametrize("name", ["AR", "ST"])
def test_published_results_are_reproduced(name: str, traces: Path) -> None:
    folder = traces / "straggler_analysis"

    def published(kind: str) -> dict[str, object]:
        loaded = json.loads(Path(folder, f"{kind}-{name}.json").read_text())
        assert isinstance(loaded, dict)
        return loaded

    made = plan_parquet(Path(folder, f"trace-{name}.parquet").read_bytes())
    assert isinstance(made.plan, StragglerPlan)
    found, expected = made.plan, published("result")
    assert found.slowdown == pytest.approx(expected["blocking_slowdown"], abs=5e-6)
    for mine, theirs in (
        (found.by_dp_rank, "dp_rank"),
        (found.by_stage, "stage"),
        (found.by_operation_type, "optype"),
    ):
        assert mine == pytest.approx(expected[f"blocking_decompose_by_{theirs}"], abs=5e-6)
    assert found.share_of_worst_workers == pytest.approx(published("mw")["Mw"], abs=5e-5)
    assert found.share_of_last_stage == pytest.approx(published("ms")["Ms"], abs=5e-5)

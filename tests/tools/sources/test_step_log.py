"""Step logs as scripts write them, and as crashes leave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.sources.formats import Anchor
from tools.sources.inventory import take_inventory
from tools.sources.load import load_run
from tools.sources.options import Limits
from tools.sources.step_log import STEP_LOG


def lines(*numbers: int) -> str:
    return "".join(f'{{"step": {number}, "wall_ms": {50 + place}}}\n' for place, number in enumerate(numbers))


@pytest.mark.parametrize("damage", ["", "no step\n"])
def test_a_last_line_without_its_end_counts_whether_or_not_another_line_is_damaged(tmp_path: Path, damage: str) -> None:
    (tmp_path / "steps_rank0.jsonl").write_text(damage + lines(0, 1, 2).rstrip("\n"), encoding="utf-8")
    logs = STEP_LOG.read(take_inventory([tmp_path], Limits()).of(STEP_LOG), Anchor())
    assert logs.step_log is not None
    assert logs.step_log["step"].tolist() == [0, 1, 2]
    assert len(logs.notes) == bool(damage)


def test_steps_of_every_epoch_are_kept_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "steps_rank0.jsonl").write_text(lines(0, 1, 2, 0, 1, 2), encoding="utf-8")
    logs = STEP_LOG.read(take_inventory([tmp_path], Limits()).of(STEP_LOG), Anchor())
    assert logs.step_log is not None
    assert logs.step_log["wall_ms"].tolist() == [50, 51, 52, 53, 54, 55]


def test_the_table_of_steps_of_mindspores_profiler_is_a_step_log(tmp_path: Path) -> None:
    """Its counter ticks every 10 ns, its last line is a mean."""
    rows = [(1, 28_400_000), (2, 20_600_000), ("-", 24_500_000)]
    lines = [f"{number},43806850547,43835277665,{total},43806850547,43826228662,0,9,8" for number, total in rows]
    head = "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail"
    (tmp_path / "step_trace_raw_3_detail_time.csv").write_text("\n".join([head, *lines]) + "\n")
    run = load_run([tmp_path])
    assert run.step_log is not None
    assert run.step_log[["rank", "step", "wall_ms"]].to_numpy().tolist() == [[3, 1, 284.0], [3, 2, 206.0]]
    assert run.sources[0].note == ""

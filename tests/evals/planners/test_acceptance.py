"""The acceptance table of the planners in small."""

from __future__ import annotations

import sys
from pathlib import Path

from evals.planners import exhaustive, solvers
from evals.planners.__main__ import main
from evals.planners.row import Row, judged
from tools.whatif.planners.supernet_schedule import draw, stage_cuts


def test_the_small_table_has_every_planner_and_no_failure(tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    assert main(["--small", "--out", str(out), "--traces", str(tmp_path / "none")]) == 0
    text = out.read_text()
    assert text.startswith("# Planners: acceptance")
    for planner in ("gradient-buckets", "pipeline-memory", "supernet", "expert-degree", "expert-schedule", "layout"):
        assert f"| `{planner}` |" in text
    assert "| not run |" in text
    assert "| fail |" not in text


def test_a_figure_that_is_not_good_enough_fails() -> None:
    assert judged("layout", "?", "1", "2", False, "simulation") == Row("layout", "?", "1", "2", "fail", "simulation")


def test_the_order_sensitive_update_notices_a_swap() -> None:
    subnets, cuts = draw(2, 4, 1, 0), stage_cuts(4, 2)
    order = list(exhaustive.in_sequence(2, 2))
    swapped = [(kind, stage, 1 - subnet) for kind, stage, subnet in order]
    assert exhaustive.trained(subnets, cuts, order) != exhaustive.trained(subnets, cuts, swapped)


def test_events_of_one_chunk_are_a_sum() -> None:
    assert exhaustive.degree_events_ms(2.0, 3.0, 1) == 7.0


def test_a_schedule_below_the_work_of_a_chunk_does_not_exist() -> None:
    assert not exhaustive.schedule_exists(1, [1.0] * 7, 7.0)
    assert exhaustive.schedule_exists(1, [1.0] * 7, 7.1)


def test_a_solver_that_fails_is_one_row_with_its_own_last_line(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text("def solve_k(*sizes):\n    raise TypeError('only 0-d arrays')\n")
    (row,) = solvers.pipemoe(tmp_path, sys.executable)
    assert (row.verdict, row.found) == ("not run", "the solver fails: TypeError: only 0-d arrays")
    (row,) = solvers.fsmoe(tmp_path, str(tmp_path / "no_python"))
    assert row.verdict == "not run"
    assert row.found.startswith("the solver does not answer: ")

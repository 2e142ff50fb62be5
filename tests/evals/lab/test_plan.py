"""The plan of one launch."""

from __future__ import annotations

from pathlib import Path

from evals.lab.job import every_job
from evals.lab.scenarios import Plan, Training, read_plan, write_plan


def test_every_world_survives_being_written(tmp_path: Path) -> None:
    for job in every_job():
        for scenario in job.scenarios.values():
            plan = Plan(scenario.training, tmp_path, scenario.ranks, profile=True, measured_steps=3)
            write_plan(plan, tmp_path / "plan.json")
            assert read_plan(tmp_path / "plan.json") == plan


def test_no_measured_step_is_warm_up_or_profiled(tmp_path: Path) -> None:
    plan = Plan(Training(), tmp_path, 2, profile=True, measured_steps=10)
    assert list(plan.measured) == list(range(4, 14))
    assert list(plan.profiled) == [15, 16, 17]
    assert plan.steps == 18


def test_without_a_profiler_the_launch_ends_with_the_measured_steps(tmp_path: Path) -> None:
    plan = Plan(Training(), tmp_path, 2, profile=False, measured_steps=10)
    assert len(plan.profiled) == 0
    assert plan.steps == 14

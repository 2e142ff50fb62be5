"""Trainings without a fault: every answer but "healthy" is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evals.lab.fault import SPLITS, Split, healthy
from evals.lab.launch import Launch, launch
from evals.lab.measure import CONFIDENCE, compare
from evals.lab.plan import MEASURED_STEPS, WARMUP_STEPS
from evals.lab.record import one_launch, write
from evals.lab.scenarios import Data, Scenario, ScriptOptions, with_options


@dataclass(frozen=True)
class Healthy:
    """One healthy run."""

    name: str
    scenario: Scenario
    split: Split


def _run(workload: str, kind: str, scenario: Scenario) -> Healthy:
    return Healthy(f"{workload}-{kind}", scenario, SPLITS[workload])


def _alone(scenario: Scenario) -> Scenario:
    return replace(scenario, ranks=1)


ALIKE = ("images", "tokens", "sounds")
RUNS: tuple[Healthy, ...] = (
    *(_run(name, "usual", with_options(healthy(name))) for name in SPLITS),
    *(_run(name, "alone", _alone(with_options(healthy(name)))) for name in ALIKE),
    *(_run(name, "worker", _alone(with_options(healthy(name), data=Data(workers=1)))) for name in ALIKE),
    *(
        _run(
            name,
            "heap",
            with_options(
                healthy(name), script_options=ScriptOptions(heap_on=(0, 1), heap_objects=200_000, heap_frozen=True)
            ),
        )
        for name in ALIKE
    ),
    *(_run(name, "log", with_options(healthy(name), script_options=ScriptOptions(log_lines=1))) for name in ALIKE),
)


def record_healthy(
    run: Healthy, out: Path, notify: Callable[[str], None], measured_steps: int = MEASURED_STEPS, by: Launch = launch
) -> Path:
    """Record into ``out/healthy/<name>/run`` with ``label.json`` and ``measured.json`` next to it."""
    folder = out / "healthy" / run.name
    notify(f"healthy {run.name}: one launch")
    launched = one_launch(run.scenario, folder / "run", measured_steps, by)
    steps = [launched.steps_ms[WARMUP_STEPS : WARMUP_STEPS + measured_steps]]
    write(folder / "label.json", label(run))
    measured = {"step_ms": asdict(compare(steps, steps).before_ms), "confidence": CONFIDENCE, "steps": len(steps[0])}
    write(folder / "measured.json", {"schema": "hermes-dx/lab-healthy/1", **measured})
    return folder


def label(run: Healthy) -> dict[str, Any]:
    """What a right answer is, as saved next to the run."""
    workload = run.name.partition("-")[0]
    return {"schema": "hermes-dx/lab-label/1", "verdict": "healthy", "workload": workload, "split": run.split}

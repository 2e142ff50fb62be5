"""Record a fault and its mended twin: traces, step logs, what ran, what was measured, and the label beside them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evals.lab.faults import Fault, World
from evals.lab.launch import Launched, launch
from evals.lab.measure import CONFIDENCE, Comparison, Interval, compare
from evals.lab.plan import MEASURED_STEPS, RANKS, WARMUP_STEPS, Plan
from evals.lab.scrub import scrub_trace

LAUNCHES = 2  # of each world, in turn: slow, fixed, slow, fixed
WORKLOAD = {
    "model": "convolutional image classifier, 4 convolutions and 2 linear layers",
    "parallel": "DistributedDataParallel, gradient buckets of 1 MB",
    "data": "made from seeded patterns, 48 images per rank, DataLoader with num_workers=0",
    "batch_per_rank": 24,
    "optimizer": "SGD with momentum",
}


@dataclass(frozen=True)
class Recorded:
    """Where a pair was put and what it measured."""

    folder: Path
    comparison: Comparison


def record(fault: Fault, out: Path, tell: Callable[[str], None], measured_steps: int = MEASURED_STEPS) -> Recorded:
    """Record ``fault`` into ``out/<fault id>/{slow,fixed}`` with ``label.json`` and ``measured.json`` beside them."""
    folder = out / fault.id
    worlds = {"slow": fault.slow, "fixed": fault.fixed}
    launched: dict[str, list[Launched]] = {side: [] for side in worlds}
    for turn in range(LAUNCHES):
        for side, world in worlds.items():
            tell(f"{fault.id}: launch {turn + 1} of {LAUNCHES}, {side}")
            launched[side].append(_one_launch(world, folder / side, turn == 0, measured_steps))
    measured = Plan(fault.fixed, folder, profile=False, measured_steps=measured_steps).measured
    before, after = ([one.steps_ms[measured.start : measured.stop] for one in launched[side]] for side in worlds)
    comparison = compare(before, after)
    _write(folder / "slow" / "measured.json", _measured(comparison.before_ms, before))
    _write(folder / "fixed" / "measured.json", _measured(comparison.after_ms, after))
    losses = {side: launched[side][0].loss for side in worlds}
    _write(folder / "measured.json", _pair(comparison, losses))
    _write(folder / "label.json", label(fault))
    return Recorded(folder, comparison)


def label(fault: Fault) -> dict[str, Any]:
    """What a right answer to the recorded fault is, as saved beside the pair."""
    fields = asdict(fault)
    return {"verdict": "problem", **{key: fields[key] for key in fields if key not in ("slow", "fixed")}}


def _one_launch(world: World, target: Path, keep: bool, measured_steps: int) -> Launched:
    """Run one launch in a folder of its own; with ``keep``, profile it and keep its records in ``target``."""
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        plan = Plan(world, Path(name), profile=keep, measured_steps=measured_steps)
        launched = launch(plan)
        if keep:
            _keep(plan, target, launched)
    return launched


def _keep(plan: Plan, target: Path, launched: Launched) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for rank in range(RANKS):
        scrub_trace(plan.trace(rank), target / f"{plan.trace(rank).name}.gz")
        shutil.copyfile(plan.step_log(rank), target / plan.step_log(rank).name)
    _write(target / "run.json", _run(plan, launched))


def _run(plan: Plan, launched: Launched) -> dict[str, Any]:
    return {
        "schema": "hermes-dx/lab-run/1",
        "versions": launched.versions,
        "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()}), no accelerator",
        "system": platform.system(),
        "workload": {**WORKLOAD, "image_side": plan.world.image_side},
        "backend": "gloo",
        "world_size": RANKS,
        "threads_per_rank": 1,
        "steps": plan.steps,
        "warmup_steps": WARMUP_STEPS,
        "profiled_steps": [plan.profiled.start, plan.profiled.stop - 1],
    }


def _measured(step_ms: Interval, launches: list[tuple[float, ...]]) -> dict[str, Any]:
    return {
        "schema": "hermes-dx/lab-measured/1",
        "step_ms": asdict(step_ms),
        "confidence": CONFIDENCE,
        "launches": len(launches),
        "steps": sum(len(steps) for steps in launches),
        "method": "median over steps without a profiler, mean over ranks; bootstrap over the steps of each launch; "
        "launches of the two runs of the pair in turn",
    }


def _pair(comparison: Comparison, losses: dict[str, float]) -> dict[str, Any]:
    return {
        "schema": "hermes-dx/lab-pair/1",
        **asdict(comparison),
        "confidence": CONFIDENCE,
        "last_loss": losses,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

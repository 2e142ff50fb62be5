"""Records the runs of a job, measures what the fix saves, and keeps nothing that names a host, a path or a user."""

from __future__ import annotations

import gzip
import json
import math
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.lab.job import LABEL, Job, Statistic, write
from evals.lab.launch import Launch, Launched, launch
from evals.lab.scenarios import MEASURED_STEPS, PERIODIC_STEPS, WARMUP_STEPS, Plan, Scenario
from hermes_agent.monitor.format import PREAMBLE

MEASURED, HEALTHY_SCHEMA = "measured.json", "hermes-dx/lab-healthy/1"
PRIVATE_KEYS = frozenset({"host_name", "traceName", "trace_id"})
# The profiler's own count of events, by which nothing joins, and arguments of operators that no question reads: a sixth
# of a trace. External ids join operators with work of a device.
LEFT_OUT = ("Ev Idx", "Record function id", "Concrete Inputs", "Input Strides")
JOINS_DEVICE = "External id"
GZIP = b"\x1f\x8b"
PACKED_KINDS = frozenset({".jsonl", ".steps"})
REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARIES = re.compile(r"/[^\s\"'(;]*/(?:site-packages|lib/python3\.\d+)/")


def scrub_trace(recorded: Path, target: Path) -> None:
    """Write the Kineto trace ``recorded`` (JSON, also gzipped) as gzip without what names the machine.

    Every event is kept; ``recorded`` and ``target`` may be the same file.
    """
    content = recorded.read_bytes()
    trace: dict[str, Any] = json.loads(gzip.decompress(content) if content.startswith(GZIP) else content)
    kept = {key: value for key, value in trace.items() if key not in PRIVATE_KEYS}
    left_out = LEFT_OUT if kept.get("deviceProperties") else (*LEFT_OUT, JOINS_DEVICE)
    for event in kept["traceEvents"]:
        for key in left_out:
            event.get("args", {}).pop(key, None)
    text = without_paths(json.dumps(kept, separators=(",", ":")))
    target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def scrub_steps(recorded: Sequence[Path], folder: Path) -> None:
    """Write the monitor's step files to ``folder``, machines named host0, host1 and on, and no place of a ring."""
    hosts: dict[str, str] = {}
    for file in sorted(recorded):
        content = file.read_bytes()
        magic, length = PREAMBLE.unpack_from(content)
        end = PREAMBLE.size + length
        head = json.loads(content[PREAMBLE.size : end])
        head |= {"host": hosts.setdefault(head["host"], f"host{len(hosts)}"), "ring": ""}
        text = json.dumps(head).encode()
        write_packed(folder / file.name, PREAMBLE.pack(magic, len(text)) + text + content[end:])


def write_packed(path: Path, content: bytes) -> None:
    """Write what grows with the steps as gzip, under its name and ``.gz``; the rest as it is, for people to read."""
    if path.suffix in PACKED_KINDS:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))
    else:
        path.write_bytes(content)


def without_paths(text: str) -> str:
    """The text with paths of libraries and of this repository cut to what follows their root."""
    for root in (f"{REPOSITORY}/", f"{sys.prefix}/", f"{sys.base_prefix}/"):
        text = text.replace(root, "")
    return LIBRARIES.sub("", text)


RESAMPLES = 4000
CONFIDENCE = 0.95
LAUNCHES = 2  # of each scenario, in turn: slow, fixed, slow, fixed
LEAST_SAVING_PCT = 8.0  # a label that says "problem" has to be true
LOSS_TOLERANCE = 1e-3  # sums in another order; a different mathematics is further off
Notify = Callable[[str], None]


@dataclass(frozen=True)
class Interval:
    """An estimate (median or mean over steps, as asked) and the bounds of its bootstrap percentile interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Comparison:
    """Step time before and after a fix, in ms, the speedup (before over after), and the share of the step saved."""

    before_ms: Interval
    after_ms: Interval
    speedup: Interval
    saving_pct: Interval


def compare(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], statistic: Statistic = "median"
) -> Comparison:
    """Over all steps of all launches; each launch is resampled by itself, so launches keep their weight.

    The mean is for what hits some steps only. The interval covers the scatter of steps within these launches, not
    another machine or another day.
    """
    rng = np.random.default_rng(0)
    over = np.median if statistic == "median" else np.mean

    def drawn(launches: Sequence[Sequence[float]]) -> NDArray[np.float64]:
        chosen = [rng.choice(np.asarray(steps, dtype=float), (RESAMPLES, len(steps))) for steps in launches]
        return np.asarray(over(np.concatenate(chosen, axis=1), axis=1))

    drawn_before, drawn_after = drawn(before), drawn(after)
    step_before, step_after = (float(over([ms for steps in side for ms in steps])) for side in (before, after))
    return Comparison(
        before_ms=_interval(step_before, drawn_before),
        after_ms=_interval(step_after, drawn_after),
        speedup=_interval(step_before / step_after, drawn_before / drawn_after),
        saving_pct=_interval(100 * (1 - step_after / step_before), 100 * (1 - drawn_after / drawn_before)),
    )


def _interval(estimate: float, drawn: NDArray[np.float64]) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(median=round(estimate, 3), low=round(float(low), 3), high=round(float(high), 3))


@dataclass(frozen=True)
class Recorded:
    """Measurement of a pair; its label holds where both runs compute the same where they should, and differ."""

    comparison: Comparison
    losses_agree: bool
    label_holds: bool


def record(
    job: Job, out: Path, notify: Notify, measured_steps: int | None = None, run: Launch = launch
) -> Recorded | None:
    """Record into ``out/<job>/<scenario>`` with ``label.json`` and ``measured.json``; None for a healthy run."""
    fault = job.fault
    count = measured_steps or (PERIODIC_STEPS if fault is not None and fault.statistic == "mean" else MEASURED_STEPS)
    launches = 1 if fault is None else LAUNCHES
    launched: dict[str, list[Launched]] = {side: [] for side in job.scenarios}
    for turn in range(launches):
        for side, scenario in job.scenarios.items():
            notify(f"{job.name}: launch {turn + 1} of {launches}, {side}")
            target = out / job.name / side if turn == 0 else None
            launched[side].append(one_launch(scenario, target, count, run))
    times = [[one.steps_ms[WARMUP_STEPS : WARMUP_STEPS + count] for one in launched[side]] for side in job.scenarios]
    write(out / job.name / LABEL, job.label)
    if fault is None:
        step_ms = asdict(compare(times[0], times[0]).before_ms)
        measured = {"schema": HEALTHY_SCHEMA, "step_ms": step_ms, "confidence": CONFIDENCE, "steps": len(times[0][0])}
        write(out / job.name / MEASURED, measured)
        return None
    comparison = compare(times[0], times[1], fault.statistic)
    losses = {side: launched[side][0].loss for side in job.scenarios}
    agree = not fault.same_loss or math.isclose(losses["slow"], losses["fixed"], rel_tol=LOSS_TOLERANCE)
    saves = comparison.saving_pct.median >= LEAST_SAVING_PCT and comparison.saving_pct.low > 0  # more than the noise
    recorded = Recorded(comparison, agree, saves and agree)
    measured = {
        "schema": "hermes-dx/lab-pair/2",
        **asdict(comparison),
        "statistic": fault.statistic,
        "confidence": CONFIDENCE,
        "launches": LAUNCHES,
        "steps_per_launch": count,
        "method": f"{fault.statistic} over steps without the lab's profiler, mean over ranks; bootstrap over the steps "
        "of each launch; launches of both scenarios in turn",
        "label_holds": recorded.label_holds,
        "last_loss": losses,
        "same_loss_expected": fault.same_loss,
    }
    write(out / job.name / MEASURED, measured)
    return recorded


def complete(folder: Path) -> bool:
    """Return whether a recording ended: its last file is there, its runs are, and its label holds."""
    try:
        measured: dict[str, Any] = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    runs = ("run",) if measured.get("schema") == HEALTHY_SCHEMA else ("slow", "fixed")
    whole = all((folder / run / "run.json").is_file() for run in runs) and (folder / LABEL).is_file()
    return whole and bool(measured.get("label_holds", True))


def one_launch(scenario: Scenario, target: Path | None, measured_steps: int, run: Launch) -> Launched:
    """Run one launch in a folder of its own; with ``target``, profile it and keep its records there."""
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        plan = Plan(scenario.training, Path(name), scenario.ranks, target is not None, measured_steps)
        launched = run(scenario, plan)
        if target is not None:
            keep(plan, target, launched)
    return launched


def keep(plan: Plan, target: Path, launched: Launched) -> None:
    """Copy what a launch recorded, scrubbed, in the place of an earlier recording."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "monitor").mkdir(parents=True)
    for file in sorted(plan.run.rglob("*")):
        place = target / file.relative_to(plan.run)
        if file.name.endswith(".trace.json"):
            scrub_trace(file, place.with_name(f"{file.name}.gz"))
        elif file.is_file() and file.suffix != ".steps":
            write_packed(place, without_paths(file.read_text(encoding="utf-8")).encode())
    scrub_steps(list((plan.run / "monitor").glob("*.steps")), target / "monitor")
    write(target / "run.json", _run(plan, launched))


def _run(plan: Plan, launched: Launched) -> dict[str, Any]:
    training = plan.training
    return {
        "schema": "hermes-dx/lab-run/2",
        "versions": launched.versions,
        "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()}), "
        + ("no accelerator" if training.device == "cpu" else "with an accelerator"),
        "system": platform.system(),
        "workload": training.workload,
        "backend": "gloo",
        "world_size": plan.ranks,
        "steps": plan.steps,
        "warmup_steps": WARMUP_STEPS,
        "profiled_steps": [plan.profiled.start, plan.profiled.stop - 1],
    }

"""Make a recorded run fit to be given away: no host, no path, no user; the same bytes for the same run."""

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

from evals.lab.fault import Fault, Statistic, Variant, label
from evals.lab.launch import Launch, Launched, launch
from evals.lab.measure import CONFIDENCE, Comparison, compare
from evals.lab.plan import MEASURED_STEPS, PERIODIC_STEPS, WARMUP_STEPS, Plan
from evals.lab.scenarios import Scenario
from hermes_agent.monitor.format import PREAMBLE

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


LAUNCHES = 2  # of each scenario, in turn: slow, fixed, slow, fixed
LEAST_SAVING_PCT = 8.0  # a label that says "problem" has to be true
LOSS_TOLERANCE = 1e-3  # sums in another order; a different mathematics is further off
Notify = Callable[[str], None]


@dataclass(frozen=True)
class Recorded:
    """Where a pair was put and what it measured."""

    folder: Path
    comparison: Comparison
    losses_agree: bool
    label_holds: bool


def record(
    fault: Fault,
    variant: Variant,
    out: Path,
    notify: Notify,
    measured_steps: int | None = None,
    run: Launch = launch,
) -> Recorded:
    """Record into ``out/<fault id>/<variant>/{slow,fixed}`` with ``label.json`` and ``measured.json`` next to them."""
    folder = out / fault.id / variant.name
    count = measured_steps or (PERIODIC_STEPS if fault.statistic == "mean" else MEASURED_STEPS)
    scenarios = {"slow": variant.slow, "fixed": variant.fixed}
    launched: dict[str, list[Launched]] = {side: [] for side in scenarios}
    for turn in range(LAUNCHES):
        for side, scenario in scenarios.items():
            notify(f"{fault.id} {variant.name}: launch {turn + 1} of {LAUNCHES}, {side}")
            launched[side].append(one_launch(scenario, folder / side if turn == 0 else None, count, run))
    before, after = (_measured_steps(launched[side], count) for side in scenarios)
    comparison = compare(before, after, fault.statistic)
    losses = {side: launched[side][0].loss for side in scenarios}
    write(folder / "label.json", label(fault, variant))
    agree = not fault.same_loss or math.isclose(losses["slow"], losses["fixed"], rel_tol=LOSS_TOLERANCE)
    measured = _pair(comparison, fault.statistic, count) | {
        "label_holds": holds(comparison) and agree,
        "last_loss": losses,
        "same_loss_expected": fault.same_loss,
    }
    write(folder / "measured.json", measured)
    return Recorded(folder, comparison, agree, holds(comparison) and agree)


def holds(comparison: Comparison) -> bool:
    """Whether fixing saves what a problem has to cost, and more than the noise."""
    return comparison.saving_pct.median >= LEAST_SAVING_PCT and comparison.saving_pct.low > 0


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


def _measured_steps(launches: list[Launched], count: int) -> list[tuple[float, ...]]:
    return [one.steps_ms[WARMUP_STEPS : WARMUP_STEPS + count] for one in launches]


def _pair(comparison: Comparison, statistic: Statistic, steps: int) -> dict[str, Any]:
    return {
        "schema": "hermes-dx/lab-pair/2",
        **asdict(comparison),
        "statistic": statistic,
        "confidence": CONFIDENCE,
        "launches": LAUNCHES,
        "steps_per_launch": steps,
        "method": f"{statistic} over steps without the lab's profiler, mean over ranks; bootstrap over the steps of "
        "each launch; launches of both scenarios in turn",
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write JSON to be read by people too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

"""What is to be recorded, variants of faults and trainings without one, and the labels of what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evals.lab.fault import SPLITS, Fault, Split, Variant, fault, faults, healthy, label, variant
from evals.lab.launch import Launch, launch
from evals.lab.measure import CONFIDENCE, compare
from evals.lab.plan import MEASURED_STEPS, WARMUP_STEPS
from evals.lab.record import one_launch, write
from evals.lab.scenarios import Data, Scenario, ScriptOptions, with_options
from tools.errors import InputError, UsageError


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
    write(folder / "label.json", healthy_label(run))
    measured = {"step_ms": asdict(compare(steps, steps).before_ms), "confidence": CONFIDENCE, "steps": len(steps[0])}
    write(folder / "measured.json", {"schema": "hermes-dx/lab-healthy/1", **measured})
    return folder


def healthy_label(run: Healthy) -> dict[str, Any]:
    """What a right answer is, as saved next to the run."""
    workload = run.name.partition("-")[0]
    return {"schema": "hermes-dx/lab-label/1", "verdict": "healthy", "workload": workload, "split": run.split}


HEALTHY = "healthy"


@dataclass(frozen=True)
class Pair:
    """One variant of a fault and its fixed twin."""

    fault: Fault
    variant: Variant

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{self.fault.id}/{self.variant.name}"

    @property
    def split(self) -> Split:
        """Development or test."""
        return self.variant.split


@dataclass(frozen=True)
class Control:
    """One healthy run."""

    run: Healthy

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{HEALTHY}/{self.run.name}"

    @property
    def split(self) -> Split:
        """Development or test."""
        return self.run.split


Job = Pair | Control


def every_job() -> list[Job]:
    """The whole lab."""
    return [*(Pair(each, one) for each in faults() for one in each.variants), *(Control(run) for run in RUNS)]


def jobs(split: Split | None, names_file: Path | None = None) -> list[Job]:
    """The jobs of a split, or those that a file names one a line; raises UsageError for a name without a job."""
    known = {job.name: job for job in every_job()}
    if names_file is not None:
        try:
            names = [line.strip() for line in names_file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InputError(f"{names_file} cannot be read ({error.strerror}); name a file of jobs") from error
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UsageError(f"the lab has no job {unknown[0]!r}; a job is FAULT/VARIANT, see the command list")
        known = {name: known[name] for name in names}
    found = [job for job in known.values() if split in (None, job.split)]
    if not found:
        raise UsageError("nothing is to be recorded; name at least one job")
    return found


def jobs_of_faults(fault_ids: Sequence[str], variant_name: str | None) -> list[Job]:
    """All variants of these faults or the named one; ``healthy`` stands for the healthy runs."""
    found: list[Job] = []
    for fault_id in fault_ids:
        if fault_id == HEALTHY:
            found += [Control(run) for run in RUNS if variant_name in (None, run.name)]
            continue
        known = fault(fault_id)
        chosen = known.variants if variant_name is None else (variant(known, variant_name),)
        found += [Pair(known, each) for each in chosen]
    if not found:
        raise UsageError(f"no healthy run is called {variant_name!r}")
    return found


LABEL = "label.json"


@dataclass(frozen=True)
class Relabelled:
    """Names of recordings (``fault/variant``) by what became of their labels."""

    changed: tuple[str, ...]
    same: tuple[str, ...]
    unknown: tuple[str, ...]  # recorded, but not in the registry: left as they are


def relabel(known: Sequence[Job], out: Path) -> Relabelled:
    """Write the label of every recording below ``out`` again; raises InputError where there is none."""
    recorded = sorted(file.parent.relative_to(out).as_posix() for file in out.glob(f"*/*/{LABEL}"))
    if not recorded:
        raise InputError(f"{out} holds no recordings of the lab; name the folder that they were written to")
    jobs = {job.name: job for job in known}
    mine = [name for name in recorded if name in jobs]
    changed = tuple(name for name in mine if _written(jobs[name], out / name / LABEL))
    same = tuple(name for name in mine if name not in changed)
    return Relabelled(changed, same, tuple(name for name in recorded if name not in jobs))


def _written(job: Job, file: Path) -> bool:
    """Whether the label was another one, which it is no more."""
    new = healthy_label(job.run) if isinstance(job, Control) else label(job.fault, job.variant)
    if _read(file) == new:
        return False
    write(file, new)
    return True


def _read(file: Path) -> dict[str, Any] | None:
    """The label as it is; None where it cannot be read, as it is written again in any case."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found

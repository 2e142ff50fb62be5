"""Recordings to be made: pairs of a slow and a fixed run, healthy runs, and the labels of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals.lab.fault import SPLITS, Fault, Split, Variant, faults, healthy
from evals.lab.scenarios import Data, Scenario, ScriptOptions, with_options
from tools.errors import InputError, UsageError

HEALTHY = "healthy"
LABEL = "label.json"


@dataclass(frozen=True)
class Job:
    """One folder of recordings: a run of each scenario, and what a right answer to the first is."""

    kind: str  # the id of a fault, or ``healthy``
    variant: str
    split: Split
    scenarios: Mapping[str, Scenario]  # by folder: slow and fixed, or run
    label: Mapping[str, Any]  # as saved next to the runs
    fault: Fault | None = None

    @property
    def name(self) -> str:
        """The folder below the lab's."""
        return f"{self.kind}/{self.variant}"

    @property
    def needs(self) -> tuple[str, ...]:
        """What the machine must have, as faults name it."""
        return () if self.fault is None else self.fault.needs


def pair(fault: Fault, variant: Variant) -> Job:
    """Return the job of one variant of a fault and its fixed twin."""
    label = {
        "schema": "hermes-dx/lab-label/1",
        "verdict": "problem",
        "fixed_verdict": fault.fixed_verdict,
        "fault": fault.id,
        "cause": fault.cause,
        "mechanism": fault.mechanism,
        "also_right": [{"cause": cause, "reason": reason} for cause, reason in fault.also_right.items()],
        "ranks": list(fault.ranks),
        "steps": fault.steps,
        "symptoms": [{"cause": cause, "ranks": list(ranks)} for cause, ranks in fault.symptoms.items()],
        "not_causes": list(fault.not_causes),
        "must_name": list(fault.must_name),
        "sources": list(fault.sources),
        "injected": fault.injected,
        "fix": fault.fix,
        "workload": variant.workload,
        "strength": variant.strength,
        "split": variant.split,
    }
    sides = {"slow": variant.slow, "fixed": variant.fixed}
    return Job(fault.id, variant.name, variant.split, sides, label, fault)


def control(workload: str, kind: str, scenario: Scenario) -> Job:
    """Return the job of one healthy run."""
    split = SPLITS[workload]
    label = {"schema": "hermes-dx/lab-label/1", "verdict": "healthy", "workload": workload, "split": split}
    return Job(HEALTHY, f"{workload}-{kind}", split, {"run": scenario}, label)


def _controls() -> list[Job]:
    heap = ScriptOptions(heap_on=(0, 1), heap_objects=200_000, heap_frozen=True)
    alike: dict[str, tuple[int, dict[str, object]]] = {
        "alone": (1, {}),
        "worker": (1, {"data": Data(workers=1)}),
        "heap": (2, {"script_options": heap}),
        "log": (2, {"script_options": ScriptOptions(log_lines=1)}),
    }
    return [
        *(control(name, "usual", with_options(healthy(name))) for name in SPLITS),
        *(
            control(name, kind, replace(with_options(healthy(name), **options), ranks=ranks))
            for kind, (ranks, options) in alike.items()
            for name in ("images", "tokens", "sounds")
        ),
    ]


def every_job() -> list[Job]:
    """Return the whole lab."""
    return [*(pair(fault, variant) for fault in faults() for variant in fault.variants), *_controls()]


def jobs(split: Split | None, names_file: Path | None = None) -> list[Job]:
    """Return the jobs of a split, or those that a file names one a line; raises UsageError for an unknown name."""
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


def jobs_of_faults(fault_ids: Sequence[str], variant: str | None) -> list[Job]:
    """Return all variants of these faults or the named one; ``healthy`` stands for the healthy runs."""
    known = every_job()
    found: list[Job] = []
    for fault_id in fault_ids:
        own = [job for job in known if job.kind == fault_id]
        if not own:
            kinds = ", ".join(dict.fromkeys(job.kind for job in known))
            raise UsageError(f"the lab has no fault {fault_id!r}; it can record {kinds}")
        chosen = [job for job in own if variant in (None, job.variant)]
        if not chosen:
            raise UsageError(f"{fault_id} has no variant {variant!r}; it has {', '.join(job.variant for job in own)}")
        found += chosen
    return found


def relabel(out: Path) -> dict[str, str]:
    """Write the label of every recording below ``out`` again; return ``changed``, ``same`` or ``unknown`` by name.

    Unknown recordings, of no job of the lab, are left as they are. Raises InputError where there is no recording.
    """
    recorded = sorted(file.parent.relative_to(out).as_posix() for file in out.glob(f"*/*/{LABEL}"))
    if not recorded:
        raise InputError(f"{out} holds no recordings of the lab; name the folder that they were written to")
    known = {job.name: job for job in every_job()}
    return {name: _relabelled(known.get(name), out / name / LABEL) for name in recorded}


def _relabelled(job: Job | None, file: Path) -> str:
    if job is None:
        return "unknown"
    try:
        old = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        old = None  # written again in any case
    if old == job.label:
        return "same"
    write(file, job.label)
    return "changed"


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON to be read by people too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

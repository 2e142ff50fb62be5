"""Recordings to be made: each fault of ``faults.yaml`` with its fixed twin, healthy runs, and the labels of both.

To add a fault, append an entry there. Where no field carries it yet, give ``scenarios.py`` a field whose default is the
healthy choice and let the program obey it, or write an environment fault in ``environment_faults``. Then
``python -m evals.lab record FAULT`` says whether fixing saves enough for the label to be true.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

import yaml
from pydantic import TypeAdapter

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.environment_faults.placement import EnvironmentFault
from evals.lab.environment_faults.processor import BoundCores, CpuQuota, ForeignLoad, PausedRank
from evals.lab.environment_faults.store import SlowStore
from evals.lab.scenarios import Data, Scenario, ScriptOptions, Training, WorkloadName, with_options
from tools.errors import InputError, UsageError

TABLE = Path(__file__).with_name("faults.yaml")
ENVIRONMENT_FAULTS = (LinkedHosts, BoundCores, CpuQuota, ForeignLoad, PausedRank, SlowStore)
GROUPS = ("data", "program", "parallel", "script_options")
HEALTHY = "healthy"
LABEL = "label.json"
Split = Literal["dev", "test"]
Statistic = Literal["median", "mean"]

# Thresholds and rules are made with the development split only.
SPLITS: dict[str, Split] = {
    "images": "dev",
    "tokens": "dev",
    "sounds": "test",
    "experts": "dev",
    "experts_wide": "dev",
    "experts_narrow": "test",
    "stages": "dev",
    "stages_wide": "dev",
    "stages_narrow": "test",
}
SHAPES = ("", "wide", "narrow")  # what follows the name of a workload, in the order of its shapes


@dataclass(frozen=True)
class Fault:
    """One fault. Causes and mechanisms are ids of the taxonomy; an empty mechanism means that none fits."""

    id: str
    cause: str
    ranks: tuple[int, ...]  # where the cause sits
    injected: str
    fix: str
    must_name: tuple[str, ...]
    sources: tuple[str, ...]  # where it leaves a mark: trace, steps, monitor, environment
    mechanism: str = ""
    steps: str | None = None  # the steps it hits, in words; None for every step
    statistic: Statistic = "median"  # the mean where the fault hits some steps only
    same_loss: bool = True  # whether both scenarios compute the same numbers
    also_right: Mapping[str, str] = field(default_factory=dict)  # other causes a careful engineer would accept, and why
    # may be named next to the cause, not instead of it
    symptoms: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    not_causes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # gpu, compiler
    # "unlabelled" where the fixed scenario keeps another loss of a tenth of the step or more, by how it is made.
    fixed_verdict: Literal["healthy", "unlabelled"] = "healthy"


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
        """Requirements of the machine: gpu, compiler."""
        return () if self.fault is None else self.fault.needs


def healthy(workload: str) -> Training:
    """Return the workload without any fault; what follows an underscore is another shape of the same model."""
    kind, _, shape = workload.partition("_")
    if kind not in get_args(WorkloadName) or shape not in SHAPES:
        raise ValueError(f"{workload!r} is no workload of the lab")
    return Training(workload=cast("WorkloadName", kind), shape=SHAPES.index(shape))


@cache
def every_job() -> tuple[Job, ...]:
    """Return the whole lab, in the order of the table."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: list[dict[str, Any]] = yaml.load(TABLE.read_text(encoding="utf-8"), Loader=loader)
    return (*(job for entry in entries for job in _pairs(entry)), *_controls())


def _pairs(entry: dict[str, Any]) -> Iterator[Job]:
    templates = {side: entry.pop(side) for side in ("slow", "fixed")}
    amounts = entry.pop("variants")
    fault = _checked(Fault, entry)
    for name, amount in (amounts if isinstance(amounts, dict) else dict.fromkeys(amounts)).items():
        workload, _, strength = name.partition("-")
        sides = {
            side: _scenario(workload, cast("dict[str, Any]", _filled(template, amount)))
            for side, template in templates.items()
        }
        yield Job(fault.id, name, SPLITS[workload], sides, _label(fault, workload, strength), fault)


def _label(fault: Fault, workload: str, strength: str) -> dict[str, Any]:
    return {
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
        "workload": workload,
        "strength": strength,
        "split": SPLITS[workload],
    }


def _control(workload: str, kind: str, scenario: Scenario) -> Job:
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
        *(_control(name, "usual", with_options(healthy(name))) for name in SPLITS),
        *(
            _control(name, kind, replace(with_options(healthy(name), **options), ranks=ranks))
            for kind, (ranks, options) in alike.items()
            for name in ("images", "tokens", "sounds")
        ),
    ]


def _filled(template: object, amount: object) -> object:
    """The template with the amount, or its fields, in the place of ``$``; as a key, its fields are merged in."""
    match template:
        case str() if template.startswith("$"):
            return cast("dict[str, object]", amount)[template[1:]] if template[1:] else amount
        case list():
            return [_filled(each, amount) for each in template]
        case dict():
            filled: dict[str, object] = {}
            for key, value in template.items():
                merged = _filled(key, amount) if key.startswith("$") else {key: _filled(value, amount)}
                filled |= cast("dict[str, object]", merged)
            return filled
    return template


def _scenario(workload: str, difference: dict[str, Any]) -> Scenario:
    """The workload's healthy scenario with a difference applied; raises ValueError where it does not fit."""
    training = healthy(workload)
    for group in GROUPS:
        known = getattr(training, group)
        training = replace(training, **{group: _checked(type(known), difference.pop(group, {}))})
    environment = difference.pop("environment", {})
    return Scenario(
        replace(training, device=difference.pop("device", "cpu")),
        environment=tuple((name, str(value)) for name, value in environment.items()),
        environment_faults=tuple(environment_fault(each) for each in difference.pop("environment_faults", ())),
        **difference,
    )


def environment_fault(entry: Mapping[str, dict[str, Any]]) -> EnvironmentFault:
    """The environment fault that an entry of a table names, as in ``{BoundCores: {ranks: [0], cores: [0]}}``."""
    ((name, fields),) = entry.items()
    kinds = {kind.__name__: kind for kind in ENVIRONMENT_FAULTS}
    return cast("EnvironmentFault", _checked(kinds[name], fields))


Checked = TypeVar("Checked")


def _checked(kind: type[Checked], fields: dict[str, Any]) -> Checked:
    """A dataclass with its fields checked by their annotations; a field that it does not have is an error."""
    kind(**fields)  # raises TypeError for an unknown field, which validation would ignore
    if kind not in _ADAPTERS:  # making one takes long
        _ADAPTERS[kind] = TypeAdapter(kind)
    checked: Checked = _ADAPTERS[kind].validate_python(fields)
    return checked


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


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

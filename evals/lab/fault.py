"""The faults of the lab: labels, and the scenarios with and without each fault, from ``faults.yaml``.

To add one, append an entry there. Where no field carries it yet, give ``scenarios.py`` a field whose default is the
healthy choice and let the program obey it, or write an environment fault in ``environment_faults``. Then
``python -m evals.lab record FAULT`` says whether fixing saves enough for the label to be true.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from evals.lab.scenarios import Scenario, Training, WorkloadName

TABLE = Path(__file__).with_name("faults.yaml")
ENVIRONMENT_FAULTS = (LinkedHosts, BoundCores, CpuQuota, ForeignLoad, PausedRank, SlowStore)
GROUPS = ("data", "program", "parallel", "script_options")

Strength = Literal["mild", "strong"]
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
class Variant:
    """The fault in one workload and one strength."""

    workload: str
    strength: Strength
    split: Split
    slow: Scenario
    fixed: Scenario

    @property
    def name(self) -> str:
        """The folder of its recording and its name on the command line."""
        return f"{self.workload}-{self.strength}"


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
    variants: tuple[Variant, ...]
    mechanism: str = ""
    steps: str | None = None  # the steps it hits, in words; None for every step
    statistic: Statistic = "median"  # the mean where the fault hits some steps only
    same_loss: bool = True  # whether both scenarios compute the same numbers
    also_right: Mapping[str, str] = field(default_factory=dict)  # other causes a careful engineer would accept, and why
    symptoms: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # may be named next to the cause, not instead of it
    not_causes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # gpu, compiler
    # "unlabelled" where the fixed scenario keeps another loss of a tenth of the step or more, by how it is made.
    fixed_verdict: Literal["healthy", "unlabelled"] = "healthy"


@cache
def faults() -> tuple[Fault, ...]:
    """Return every fault that the lab can record, in the order of the table."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(_fault(entry) for entry in yaml.load(TABLE.read_text(encoding="utf-8"), Loader=loader))


def healthy(workload: str) -> Training:
    """Return the workload without any fault; what follows an underscore is another shape of the same model."""
    kind, _, shape = workload.partition("_")
    if kind not in get_args(WorkloadName) or shape not in SHAPES:
        raise ValueError(f"{workload!r} is no workload of the lab")
    return Training(workload=cast("WorkloadName", kind), shape=SHAPES.index(shape))


def _fault(entry: dict[str, Any]) -> Fault:
    slow, fixed, amounts = entry["slow"], entry["fixed"], entry["variants"]
    named = amounts if isinstance(amounts, dict) else dict.fromkeys(amounts)
    made = []
    for name, amount in named.items():
        workload, _, strength = name.partition("-")
        pair = [_scenario(workload, cast("dict[str, Any]", _filled(template, amount))) for template in (slow, fixed)]
        made.append(Variant(workload, cast("Strength", strength), SPLITS[workload], *pair))
    rest: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    del rest["slow"], rest["fixed"]
    return Fault(**{**rest, "variants": tuple(made)})


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
        environment_faults=tuple(_environment_fault(each) for each in difference.pop("environment_faults", ())),
        **difference,
    )


def _environment_fault(entry: dict[str, dict[str, Any]]) -> EnvironmentFault:
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

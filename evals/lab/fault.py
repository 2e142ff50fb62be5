"""A fault of the lab: its label, and the worlds with and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evals.lab.scenarios import World

Strength = Literal["mild", "strong"]
Split = Literal["dev", "test"]
Statistic = Literal["median", "mean"]
FixedVerdict = Literal["healthy", "unlabelled"]


@dataclass(frozen=True)
class Symptom:
    """What the fault makes ranks look like; it may be named beside the cause, not instead of it."""

    cause: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Right:
    """Another cause that a careful engineer would accept, and why."""

    cause: str
    reason: str


@dataclass(frozen=True)
class Variant:
    """The fault in one workload and one strength."""

    workload: str
    strength: Strength
    split: Split
    slow: World
    fixed: World
    ranks: tuple[int, ...] | None = None  # where the fault sits here, when not where the fault says

    @property
    def name(self) -> str:
        """The folder of its recording and its name on the command line."""
        return f"{self.workload}-{self.strength}"


@dataclass(frozen=True)
class Fault:
    """One fault. Causes and mechanisms are ids of the taxonomy; an empty mechanism means that none fits."""

    id: str
    cause: str
    mechanism: str
    ranks: tuple[int, ...]  # where the cause sits
    injected: str
    fix: str
    must_name: tuple[str, ...]
    sources: tuple[str, ...]  # where it leaves a mark: trace, steps, monitor, environment
    variants: tuple[Variant, ...]
    steps: str | None = None  # which steps it hits, in words; None for every step
    statistic: Statistic = "median"  # the mean where the fault hits some steps only
    same_loss: bool = True  # whether both worlds compute the same numbers
    also_right: tuple[Right, ...] = ()
    symptoms: tuple[Symptom, ...] = ()
    not_causes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # gpu, compiler
    # "unlabelled" where the fixed world keeps another loss of a tenth of the step or more, by how it is made.
    fixed_verdict: FixedVerdict = "healthy"

    def variant(self, name: str) -> Variant | None:
        """The variant of that name."""
        return next((each for each in self.variants if each.name == name), None)


def label(fault: Fault, variant: Variant) -> dict[str, Any]:
    """What a right answer to the slow run is, as saved beside the pair."""
    return {
        "schema": "hermes-dx/lab-label/1",
        "verdict": "problem",
        "fixed_verdict": fault.fixed_verdict,
        "fault": fault.id,
        "cause": fault.cause,
        "mechanism": fault.mechanism,
        "also_right": [{"cause": each.cause, "reason": each.reason} for each in fault.also_right],
        "ranks": list(variant.ranks if variant.ranks is not None else fault.ranks),
        "steps": fault.steps,
        "symptoms": [{"cause": each.cause, "ranks": list(each.ranks)} for each in fault.symptoms],
        "not_causes": list(fault.not_causes),
        "must_name": list(fault.must_name),
        "sources": list(fault.sources),
        "injected": fault.injected,
        "fix": fault.fix,
        "workload": variant.workload,
        "strength": variant.strength,
        "split": variant.split,
    }

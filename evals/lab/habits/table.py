"""The runs of the tables: which script is started how, and the label of what is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from evals.lab.environment_faults.placement import EnvironmentFault, all_missing
from evals.lab.job import Split, Statistic, environment_fault
from tools.errors import InputError, UsageError

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "scripts"
TABLES = tuple(HERE / name for name in ("runs.yaml", "fresh.yaml"))
Strength = Literal["mild", "strong"]
STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Start:
    """The start of a script: what differs between two recordings of one entry."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    arguments: tuple[str | int | float, ...] = ()  # added to those of the entry
    environment: Mapping[str, str | int] = field(default_factory=dict)
    environment_faults: tuple[dict[str, dict[str, Any]], ...] = ()  # {class: its fields}, see environment_faults/

    def surroundings(self) -> tuple[EnvironmentFault, ...]:
        """The environment faults as objects."""
        return tuple(environment_fault(each) for each in self.environment_faults)


@dataclass(frozen=True)
class Label:
    """A right answer. Causes are ``cause`` or ``cause/mechanism`` of the taxonomy."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    cause: str = ""  # empty where nothing is wrong
    all_of: tuple[str, ...] = ()  # several causes at once, the largest first where measured; no ``cause``
    also_right: Mapping[str, str] = field(default_factory=dict)  # other right answers, and why
    ranks: tuple[int, ...] | None = None  # where the cause sits
    steps: str | None = None  # the steps it hits, in words; None for every step
    symptoms: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # may be named next to the cause, not first
    not_causes: tuple[str, ...] = ()
    only_causes: tuple[str, ...] = ()  # nothing is wrong but for these
    must_name: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # where it leaves a mark: trace, steps, monitor, environment
    injected: str = ""
    fix: str = ""

    @property
    def causes(self) -> tuple[str, ...]:
        """All causes, the largest first; none for a healthy run."""
        return self.all_of or ((self.cause,) if self.cause else ())


@dataclass(frozen=True)
class Entry:
    """One entry of a table: a pair of runs where something is wrong (slow, fixed), else one run."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    id: str
    script: str  # file name in scripts/
    style: str  # whose habits: hf, lightning, plain, ...
    label: Label
    split: Split = "dev"
    processes: int = 1
    arguments: tuple[str | int | float, ...] = ()
    environment: Mapping[str, str | int] = field(default_factory=dict)
    slow: Start | None = None
    fixed: Start | None = None
    run: Start | None = None
    one_fixed: Mapping[str, Start] = field(default_factory=dict)  # two causes: with only this one removed
    statistic: Statistic = "median"  # the mean where the fault hits some steps only
    skip: int = 5  # first steps that do not count
    profiled_steps_count: bool = False  # the profiler is the fault
    with_env: bool = False  # the user also kept `hermes-dx env`
    fixed_verdict: Literal["healthy", "unlabelled"] = "healthy"
    needs: tuple[str, ...] = ()  # compiler

    def __post_init__(self) -> None:
        wrong = bool(self.label.causes)
        if wrong != (self.slow is not None and self.fixed is not None) or wrong == (self.run is not None):
            raise ValueError(f"{self.id}: a cause needs slow and fixed, a healthy run needs run and no cause")
        if len(self.label.all_of) == 1 or (self.label.all_of and self.label.cause):
            raise ValueError(f"{self.id}: all_of holds two causes or more and takes the place of cause")

    @property
    def starts(self) -> Mapping[str, Start]:
        """The recordings by folder: slow and fixed, or run."""
        named = {"slow": self.slow, "fixed": self.fixed, "run": self.run}
        return {name: start for name, start in named.items() if start is not None}

    def missing(self) -> str:
        """Return why this machine cannot run it; nothing when it can."""
        every = [*self.starts.values(), *self.one_fixed.values()]
        return next(filter(None, (all_missing(start.surroundings()) for start in every)), "")


@cache
def entries(tables: tuple[Path, ...] = TABLES) -> tuple[Entry, ...]:
    """All entries of the tables that exist, in their order; raises InputError for a wrong entry or an id used twice."""
    adapter = TypeAdapter(Entry)
    found: dict[str, Entry] = {}
    for table in filter(Path.is_file, tables):
        for fields in yaml.safe_load(table.read_text(encoding="utf-8")) or ():
            try:
                entry = adapter.validate_python(fields)
            except ValidationError as error:
                first = error.errors()[0]
                raise InputError(f"{table.name}: {fields.get('id')!r}: {first['loc']}: {first['msg']}") from error
            if entry.id in found:
                raise InputError(f"{table.name}: the id {entry.id!r} is used twice")
            found[entry.id] = entry
    return tuple(found.values())


def chosen(ids: list[str], split: Split | None = None) -> list[Entry]:
    """The entries with these ids (all without any) of a split; raises UsageError for an unknown id."""
    known = {entry.id: entry for entry in entries()}
    for name in ids:
        if name not in known:
            raise UsageError(f"no entry {name!r}; it can record {', '.join(known)}")
    return [entry for entry in (map(known.__getitem__, ids) if ids else known.values()) if split in (None, entry.split)]


def label_json(entry: Entry, strength: Strength | None) -> dict[str, Any]:
    """The label as saved next to the runs, in the lab's form; ``strength`` as measured."""
    label = entry.label
    base: dict[str, Any] = {
        "schema": "hermes-dx/lab-label/1",
        "verdict": "problem" if label.causes else "healthy",
        "fault": entry.id,
        "workload": entry.script.removesuffix(".py"),
        "style": entry.style,
        "split": entry.split,
        "injected": label.injected,
        "not_causes": list(label.not_causes),
    }
    if not label.causes:
        return {**base, "only_causes": list(label.only_causes)}
    cause, _, mechanism = label.causes[0].partition("/")
    return {
        **base,
        "fixed_verdict": entry.fixed_verdict,
        "cause": cause,
        "mechanism": mechanism,
        "all_of": list(label.all_of),
        "also_right": [{"cause": name, "reason": reason} for name, reason in label.also_right.items()],
        "ranks": None if label.ranks is None else list(label.ranks),
        "steps": label.steps,
        "symptoms": [{"cause": name, "ranks": list(ranks)} for name, ranks in label.symptoms.items()],
        "only_causes": list(label.only_causes),
        "must_name": list(label.must_name),
        "sources": list(label.sources),
        "fix": label.fix,
        "strength": strength or "strong",
    }

"""Makes cases out of recorded runs with labels: what a right answer is, with all sources of a run and with some.

A pair of the lab gives its slow run, its fixed run (healthy where the label does not say otherwise) and the fixed run
held against the slow one. A healthy recording, and a run that others recorded, give one run each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from evals.suite.case_schema import Case, Measured, Sources, Split, Verdict
from evals.suite.run_sources import monitored, parts, selections, step_logged
from tools.documents import parse_yaml
from tools.errors import InputError
from tools.knowledge.taxonomy import causes

LABEL = "label.json"
MEASURED = "measured.json"
DEEPEST = 3  # folders between the lab folder and a label
LARGEST_BYTES = 1 << 20
LONGEST_FAULT = 300  # characters of what is wrong with a label
# Where a fault leaves its marks, in the words of the lab's labels.
MARKS: Mapping[Sources, frozenset[str]] = MappingProxyType(
    {
        "traces": frozenset({"trace"}),
        "log": frozenset({"steps", "log"}),
        "records": frozenset({"monitor", "environment"}),
    }
)
OTHERS_ERROR = 0.15  # of a slow-down in ``labels.yaml``: two shared cores, as its first lines say


class Named(BaseModel):
    """A cause that the label names next to its own: a symptom, or one that is right as well."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    cause: str


class Label(BaseModel):
    """The label of a recording; what the evaluation does not need is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    verdict: Literal["problem", "healthy"]
    cause: str | None = None
    mechanism: str | None = None
    all_of: tuple[str, ...] = ()  # two causes at once; the fixed run has neither
    also_right: tuple[Named, ...] = ()
    ranks: tuple[int, ...] | None = None
    steps: str | None = None
    symptoms: tuple[Named, ...] = ()
    split: Split = "dev"
    workload: str = ""
    strength: str = ""
    must_name: tuple[str, ...] = ()
    not_causes: tuple[str, ...] = ()
    only_causes: tuple[str, ...] = ()  # healthy but for these, and a faulty run may name them too
    sources: tuple[str, ...] = ()  # where the fault leaves a mark; () where nobody said so
    injected: str = ""
    fixed_verdict: Literal["healthy", "unlabelled"] = "healthy"

    @property
    def causes(self) -> tuple[str, ...]:
        """``cause`` or ``cause/mechanism``, of two at once both."""
        if self.all_of or self.cause is None:
            return self.all_of
        return (f"{self.cause}/{self.mechanism}" if self.mechanism else self.cause,)


class OthersLabel(BaseModel):
    """What ``labels.yaml`` says of one run that others recorded; what the evaluation does not need is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    verdict: Verdict | tuple[Verdict, ...]
    top1: tuple[str, ...] = ()
    top3: tuple[str, ...] = ()  # causes any of which may come first
    mechanism: str | None = None
    ranks: tuple[int, ...] | None = None
    only_causes: tuple[str, ...] = ()  # healthy but for these
    not_causes: tuple[str, ...] = ()
    slowdown: float | None = None
    note: str = ""


def recorded_cases(folders: Sequence[Path], origin: Literal["lab", "habits"]) -> tuple[Case, ...]:
    """The cases of all labels below the folders, by path.

    Raises InputError for a label that cannot be read, or names what is not in the taxonomy.
    """
    found: dict[str, Case] = {}
    for folder in folders:
        for file in _below(folder, MEASURED):
            if not file.with_name(LABEL).is_file():
                raise InputError(f"{file.parent} is a recording without {LABEL}; record it again, or take it away")
        for file in _below(folder, LABEL):
            for case in _of_label(file, folder, origin):
                found.setdefault(case.id, case)  # the same recording in two folders: the first one counts, as in locate
    return tuple(found.values())


def _below(folder: Path, name: str) -> list[Path]:
    patterns = ("/".join(["*"] * depth + [name]) for depth in range(1, DEEPEST + 1))
    return sorted(file for pattern in patterns for file in folder.glob(pattern))


def _of_label(file: Path, folder: Path, origin: Literal["lab", "habits"]) -> list[Case]:
    try:
        with file.open("rb") as stream:
            label = Label.model_validate_json(stream.read(LARGEST_BYTES))
        if label.verdict == "problem" and not label.causes:
            raise InputError(f"{file} labels a problem without its cause; record it again")
        return _made(label, file.parent, str(file.parent.relative_to(folder)), origin)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check the rights") from error
    except ValidationError as error:
        raise InputError(f"{file} is no valid label ({first_fault(error)}); fix it or record it again") from error


def first_fault(error: ValidationError) -> str:
    """The first field that is wrong, and why."""
    first = error.errors()[0]
    return " ".join(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}".split())[:LONGEST_FAULT]


def _made(label: Label, folder: Path, place: str, origin: str) -> list[Case]:
    name = f"{origin}-" + re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")
    tags = {"source": origin, "split": label.split, "fault": Path(place).parts[0], "workload": label.workload}
    tags |= {"strength": label.strength, "difficulty": "hard" if label.strength == "mild" else "medium"}
    if label.verdict == "healthy":
        what = label.injected or f"healthy run of the workload {label.workload or folder.name}"
        expected = {"verdict": ("healthy",), "only_causes": label.only_causes, "not_causes": label.not_causes}
        run = {origin: f"{place}/run"}
        return _by_sources(folder / "run", _fields(name, what, run, expected, {**tags, "kind": "healthy"}))
    slow, fixed = {origin: f"{place}/slow"}, {origin: f"{place}/fixed"}
    own = [each.partition("/")[0] for each in label.causes]
    known = causes().get(own[0])
    tags |= {"family": known.family if known else "none"}
    what = label.injected or " and ".join(label.causes)
    faulty = {
        "verdict": ("problem",),
        "all_of" if label.all_of else "any_of": label.causes,
        "also_right": [each.cause for each in label.also_right],
        "ranks": label.ranks,
        "also_allowed": (*(symptom.cause for symptom in label.symptoms), *label.only_causes),
        "not_causes": label.not_causes,
        "names": label.must_name,
        "some_steps": bool(label.steps) and not label.all_of,
    }
    kind = "two_causes" if label.all_of else "masked" if label.symptoms else "cause"
    gone: dict[str, Any] = {"not_causes": [cause for cause in own if cause not in label.only_causes]}
    healthy = label.fixed_verdict == "healthy"
    calm = {**gone, "verdict": ("healthy",), "only_causes": label.only_causes} if healthy else gone
    calm_tags = {**tags, "kind": "healthy" if healthy else "unlabelled", "family": "none"}
    against = _fields(
        f"{name}-compared", f"fixed and held against the slow run: {what}", fixed, gone, {**tags, "kind": "unlabelled"}
    )
    return [
        *_by_sources(folder / "slow", _fields(name, what, slow, faulty, {**tags, "kind": kind}), label.sources),
        *_by_sources(folder / "fixed", _fields(f"{name}-fixed", f"fixed: {what}", fixed, calm, calm_tags)),
        Case.model_validate({**against, "baseline": slow}),
    ]


def others_cases(folder: Path) -> tuple[Case, ...]:
    """The cases of the runs of others, with all that was recorded and with some of it; () without the folder.

    Raises InputError for a label file that is no such table.
    """
    file = folder / "labels.yaml"
    if not file.is_file():
        return ()
    try:
        entries = parse_yaml(file.read_text("utf-8"), aliases=True)
        labels = {str(name): OthersLabel.model_validate(entry) for name, entry in entries.items()}
        return tuple(case for name, label in labels.items() for case in _of_others(name, label, folder / name))
    except ValidationError as error:
        raise InputError(
            f"{file} is no table of labels ({first_fault(error)}); correct it or unset HERMES_RUNS"
        ) from error
    except (yaml.YAMLError, ValueError, AttributeError, OSError) as error:  # also of a name that no folder can have
        raise InputError(f"{file} is no table of labels; correct it or unset HERMES_RUNS") from error


def _of_others(name: str, label: OthersLabel, folder: Path) -> list[Case]:
    verdicts = (label.verdict,) if isinstance(label.verdict, str) else label.verdict
    healthy = "healthy" in verdicts
    expected: dict[str, Any] = {"not_causes": [each for each in label.not_causes if each not in label.only_causes]}
    if healthy:
        expected |= {"verdict": [each for each in verdicts if each != "problem"], "only_causes": label.only_causes}
    else:
        named = label.top1 or label.top3
        wanted = [f"{each}/{label.mechanism}" if _has(each, label.mechanism) else each for each in named]
        expected |= {"verdict": verdicts, "any_of": wanted, "ranks": label.ranks, "also_allowed": label.only_causes}
    tags = {"source": "others", "kind": "healthy" if healthy else "cause", "fault": name}
    fields = _fields(f"others-{name}".replace("_", "-"), label.note, {"others": name}, expected, tags)
    return _by_sources(folder, fields | {"measured": _slowdown(label)})


def _has(cause: str, mechanism: str | None) -> bool:
    known = causes().get(cause)
    return mechanism is not None and known is not None and mechanism in known.mechanisms


def _slowdown(label: OthersLabel) -> Measured | None:
    """The measured slow-down, as step times relative to those of the healthy twin."""
    if label.slowdown is None:
        return None
    low, high = label.slowdown * (1 - OTHERS_ERROR), label.slowdown * (1 + OTHERS_ERROR)
    return Measured(before_ms=label.slowdown, after_ms=1.0, speedup_low=low, speedup_high=high, statistic="mean")


def _fields(
    name: str, what: str, run: dict[str, Any], expected: dict[str, Any], tags: dict[str, str]
) -> dict[str, Any]:
    return {"id": name, "what": what, "run": run, "expected": expected, "tags": tags}


def _by_sources(folder: Path, fields: dict[str, Any], marks: Sequence[str] = ()) -> list[Case]:
    """The case with everything, and with some of the run's sources, where less can be asked."""
    name, expected = fields["id"], fields["expected"]
    if "healthy" in expected.get("verdict", ()) and not monitored(folder):  # nobody can say so of an unseen host
        expected = {**expected, "verdict": ("healthy", "inconclusive")}
    whole = {"expected": expected, "tags": {**fields["tags"], "run": name}}
    cases = [Case.model_validate(fields | whole)]
    for sources in selections(folder):
        part = {
            "id": f"{name}-{sources.replace('+', '-')}",
            "run": {**fields["run"], "edit": {"sources": sources}},
            "expected": _less(expected, sources, _shown(folder, sources, marks)),
            "tags": {**fields["tags"], "run": name, "sources": sources},
        }
        cases.append(Case.model_validate(fields | part))
    return cases


def _shown(folder: Path, sources: Sources, marks: Sequence[str]) -> bool | None:
    """Return whether the label says that these sources show the fault; None where nobody said so.

    A log in a form of its own shows nothing.
    """
    read = [each for each in parts(sources) if each != "log" or step_logged(folder)]
    if not read:
        return False
    return any(MARKS[each] & set(marks) for each in read) if marks else None


def _less(expected: Mapping[str, Any], sources: Sources, shown: bool | None) -> dict[str, Any]:
    """What is right by some of the sources: ``inconclusive`` as well, but where the fault is shown in that source.

    Where nobody said so (None), the first cause is asked where the traces are given, and not without them.
    """
    verdicts = expected.get("verdict", ())
    less = {**expected, "names": ()}
    if shown:
        return less
    less["may_abstain"] = "problem" not in verdicts or shown is False or "traces" not in parts(sources)
    return less | {"verdict": tuple(dict.fromkeys((*verdicts, "inconclusive"))) if verdicts else ()}

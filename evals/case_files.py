"""Makes cases out of recorded lab runs: every ``label.json`` says what a right answer to its runs is.

A pair gives three cases: the slow run has its cause, the fixed run does not (and is healthy where the label does not
say otherwise), and the fixed run held against the slow one does not either. A healthy recording gives one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from evals.case_schema import Case, CaseFile, Split, Tags, Verdict
from tools.errors import InputError, UsageError
from tools.knowledge.taxonomy import causes

LABEL = "label.json"
MEASURED = "measured.json"
DEEPEST = 3  # folders between the lab folder and a label
LARGEST_BYTES = 1 << 20


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
    also_right: tuple[Named, ...] = ()
    ranks: tuple[int, ...] | None = None
    symptoms: tuple[Named, ...] = ()
    split: Split = "dev"
    workload: str = ""
    strength: str = ""
    must_name: tuple[str, ...] = ()
    not_causes: tuple[str, ...] = ()
    injected: str = ""
    fixed_verdict: Literal["healthy", "unlabelled"] = "healthy"

    @property
    def named_cause(self) -> str:
        """``cause`` or ``cause/mechanism``."""
        return f"{self.cause}/{self.mechanism}" if self.mechanism else str(self.cause)


def lab_cases(folders: Sequence[Path]) -> tuple[Case, ...]:
    """The cases of all labels below the folders, by path.

    Raises InputError for a label that cannot be read, or names what is not in the taxonomy.
    """
    found: dict[str, Case] = {}
    for folder in folders:
        for file in _below(folder, MEASURED):
            if not file.with_name(LABEL).is_file():
                raise InputError(f"{file.parent} is a recording without {LABEL}; record it again, or take it away")
        for file in _below(folder, LABEL):
            for case in _of_label(file, folder):
                found.setdefault(case.id, case)  # the same recording in two folders: the first one counts, as in locate
    return tuple(found.values())


def _below(folder: Path, name: str) -> list[Path]:
    patterns = ("/".join(["*"] * depth + [name]) for depth in range(1, DEEPEST + 1))
    return sorted(file for pattern in patterns for file in folder.glob(pattern))


def _of_label(file: Path, folder: Path) -> list[Case]:
    try:
        with file.open("rb") as stream:
            label = Label.model_validate_json(stream.read(LARGEST_BYTES))
        if label.verdict == "problem" and label.cause is None:
            raise InputError(f"{file} labels a problem without its cause; record it again")
        return _made(label, file.parent.relative_to(folder))
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check the rights") from error
    except ValidationError as error:
        raise InputError(f"{file} is no valid label ({_first(error)}); fix it or record it again") from error


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _made(label: Label, place: Path) -> list[Case]:
    name = "lab-" + re.sub(r"[^a-z0-9]+", "-", str(place).lower()).strip("-")
    tags = {"source": "lab", "split": label.split, "fault": place.parts[0], "workload": label.workload}
    tags |= {"strength": label.strength, "difficulty": "hard" if label.strength == "mild" else "medium"}
    if label.verdict == "healthy":
        what = label.injected or f"healthy run of the workload {label.workload or place.name}"
        run = {"lab": str(place / "run")}
        return [_case(name, what, run, {"verdict": ["healthy"]}, {**tags, "kind": "healthy"})]
    slow, fixed = {"lab": str(place / "slow")}, {"lab": str(place / "fixed")}
    known = causes().get(str(label.cause))
    tags |= {"family": known.family if known else "none"}
    what = label.injected or label.named_cause
    kind = "masked" if label.symptoms else "cause"
    expected = {
        "verdict": ["problem"],
        "any_of": [label.named_cause],
        "also_right": [each.cause for each in label.also_right],
        "ranks": label.ranks,
        "also_allowed": [symptom.cause for symptom in label.symptoms],
        "not_causes": label.not_causes,
        "names": label.must_name,
    }
    gone: dict[str, Any] = {"not_causes": [label.cause]}
    healthy = label.fixed_verdict == "healthy"
    calm = {**gone, "verdict": ["healthy"]} if healthy else gone
    calm_tags = {**tags, "kind": "healthy" if healthy else "unlabelled", "family": "none"}
    return [
        _case(name, what, slow, expected, {**tags, "kind": kind}),
        _case(f"{name}-fixed", f"fixed: {what}", fixed, calm, calm_tags),
        _case(
            f"{name}-compared", f"fixed and held against the slow run: {what}", fixed, gone,
            {**tags, "kind": "unlabelled"}, slow,
        ),
    ]  # fmt: skip


def _case(
    name: str,
    what: str,
    run: dict[str, Any],
    expected: dict[str, Any],
    tags: dict[str, str],
    baseline: dict[str, str] | None = None,
) -> Case:
    fields = {"id": name, "what": what, "run": run, "expected": expected, "tags": tags, "baseline": baseline}
    return Case.model_validate(fields)


CASES = Path(__file__).resolve().parent / "cases"


def load_cases(folder: Path = CASES) -> tuple[Case, ...]:
    """All cases below the folder, by file name; raises InputError naming the file and what is wrong."""
    files = sorted(folder.rglob("*.yaml"))
    if not files:
        raise InputError(f"{folder} holds no case files (*.yaml); name a folder with cases")
    return once(tuple(case for file in files for case in _read(file)))


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
    note: str = ""


def others_cases(folder: Path) -> tuple[Case, ...]:
    """Two cases of each run of others: with all that was recorded, and with its traces alone; () without the folder.

    Raises InputError for a label file that is no such table.
    """
    file = folder / "labels.yaml"
    if not file.is_file():
        return ()
    try:
        entries = yaml.safe_load(file.read_text("utf-8"))
        labels = {str(name): OthersLabel.model_validate(entry) for name, entry in entries.items()}
    except (yaml.YAMLError, ValidationError, AttributeError) as error:
        raise InputError(f"{file} is no table of labels ({error}); correct it or unset HERMES_RUNS") from error
    return tuple(case for name, label in labels.items() for case in _of_others(name, label))


def _of_others(name: str, label: OthersLabel) -> list[Case]:
    verdicts = (label.verdict,) if isinstance(label.verdict, str) else label.verdict
    healthy = "healthy" in verdicts
    expected: dict[str, Any] = {"verdict": verdicts}
    if healthy:
        expected["not_causes"] = label.not_causes
    else:
        expected |= {"any_of": label.top1 or label.top3, "ranks": label.ranks}
    if healthy and label.only_causes:  # a problem for these reasons is right as well, and which one is not scored
        expected["not_causes"] = [name for name in label.not_causes if name not in label.only_causes]
    kind = "cause" if not healthy else "unlabelled" if label.only_causes else "healthy"
    tags = {"source": "others", "kind": kind, "fault": name}
    cases = []
    for suffix, edit in (("", {}), ("-traces", {"without_records": True})):
        own = dict(expected)
        if suffix and not healthy:
            own["verdict"] = tuple(dict.fromkeys((*verdicts, "inconclusive")))  # a lead is a right answer to less data
        run = {"others": name, "edit": edit}
        cases.append(
            _case(f"others-{name}{suffix}".replace("_", "-"), label.note, run, own, {**tags, "scale": suffix[1:]})
        )
    return cases


def all_cases(labs: Sequence[Path], others: Path) -> tuple[Case, ...]:
    """The written cases, those of the recorded lab runs, and those of runs that others recorded."""
    return once((*load_cases(), *lab_cases(labs), *others_cases(others)))


def once(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """The cases, each of which has to have an id of its own; raises InputError naming one that has not."""
    twice = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if twice:
        raise InputError(f"there is more than one case {twice[0]!r}; give each its own id")
    return cases


def _read(file: Path) -> tuple[Case, ...]:
    try:
        cases = CaseFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8"))).cases
        return tuple(_with_fault(case) for case in cases)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file} cannot be read as a case file: {error}") from error
    except ValidationError as error:
        raise InputError(f"{file} is not a valid case file ({_first(error)}); fix that field") from error


def _with_fault(case: Case) -> Case:
    """The case tagged with what its generated run has injected, when the file does not say so itself."""
    made = case.run.synthetic
    if made is None or case.tags.fault:
        return case
    kinds = " and ".join(fault.kind for fault in made.faults)
    return case.model_copy(update={"tags": case.tags.model_copy(update={"fault": kinds})})


def select(cases: Sequence[Case], selection: Sequence[str]) -> tuple[Case, ...]:
    """Cases that match every ``tag=value`` and at least one pattern of ids; raises UsageError when none does."""
    wanted = [word.partition("=")[::2] for word in selection if "=" in word]
    patterns = [word for word in selection if "=" not in word]
    for tag, _ in wanted:
        if tag not in Tags.model_fields:
            raise UsageError(f"cases have no tag {tag!r}; they have {', '.join(Tags.model_fields)}")
    chosen = tuple(
        case
        for case in cases
        if all(getattr(case.tags, tag) == value for tag, value in wanted)
        and (not patterns or any(fnmatchcase(case.id, pattern) for pattern in patterns))
    )
    if not chosen:
        raise UsageError(f"no case matches {' '.join(selection) or 'the empty selection'}; run without one to see all")
    return chosen

"""The cases of the evaluation: written ones, those of recorded runs, and the selection of some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from pydantic import ValidationError

from evals.suite.case_schema import Case, CaseFile, Tags
from evals.suite.labels import first_fault, others_cases, recorded_cases
from evals.suite.run_places import Places
from tools.documents import DepthError, parse_yaml
from tools.errors import InputError, UsageError

CASES = Path(__file__).resolve().parents[1] / "cases"


def load_cases(folder: Path = CASES) -> tuple[Case, ...]:
    """All cases below the folder, by file name; raises InputError naming the file and what is wrong."""
    files = sorted(folder.rglob("*.yaml"))
    if not files:
        raise InputError(f"{folder} holds no case files (*.yaml); name a folder with cases")
    return once(tuple(case for file in files for case in _read(file)))


def all_cases(places: Places) -> tuple[Case, ...]:
    """The written cases, and those of the recorded runs at these places."""
    recorded = (*recorded_cases(places.labs, "lab"), *recorded_cases(places.habits, "habits"))
    return once((*load_cases(), *recorded, *others_cases(places.others)))


def once(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """The cases, each of which has to have an id of its own; raises InputError naming one that has not."""
    twice = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if twice:
        raise InputError(f"there is more than one case {twice[0]!r}; give each its own id")
    return cases


def _read(file: Path) -> tuple[Case, ...]:
    try:
        cases = CaseFile.model_validate(parse_yaml(file.read_text(encoding="utf-8"), aliases=True)).cases
        return tuple(_with_fault(case) for case in cases)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, DepthError) as error:
        raise InputError(f"{file} cannot be read as a case file: {error}") from error
    except ValidationError as error:
        raise InputError(f"{file} is not a valid case file ({first_fault(error)}); fix that field") from error


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

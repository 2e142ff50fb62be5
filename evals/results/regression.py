"""Holds a run of the suite against a saved one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evals.results.summary import Results
from evals.scorers.registry import LOWER_IS_BETTER
from evals.suite.outcome import CaseResult
from tools.errors import InputError, UsageError

TOLD_APART = frozenset({"also_right"})  # an accepted cause in place of the labelled one: neither better nor worse
LEAST = 0.005  # a score has to fall by more than this; results are kept to four decimals


class SavedCases(BaseModel):
    """What a comparison needs of a saved run of the suite, of this version or an older one."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    schema_: Literal["hermes-dx/eval/2", "hermes-dx/eval/3"] = Field(alias="schema")
    cases: list[CaseResult]


@dataclass(frozen=True)
class Regression:
    """Scores that became worse, one line each, and cases that could not be compared."""

    worse: tuple[str, ...]
    better: tuple[str, ...]
    compared: int
    not_compared: tuple[str, ...]


def read_results(path: Path) -> SavedCases:
    """A saved run; raises InputError naming the file and what is wrong."""
    try:
        return SavedCases.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as saved results: {error}") from error
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(f"{path} holds no saved results ({reason}); make them with hermes-dx eval --json") from error


def against(before: SavedCases | Results, now: Results) -> Regression:
    """The cases that both runs scored, case by case; raises UsageError when there is none.

    A case that was scored before and failed now has become worse; one that was skipped in either run is not compared.
    """
    known = {result.id: result for result in before.cases if result.status == "scored"}
    both = [(known[result.id], result) for result in now.cases if result.id in known and result.status != "skipped"]
    if not both:
        raise UsageError("the saved results and this run have no scored case in common; there is nothing to compare")
    skipped = tuple(result.id for result in now.cases if result.id not in known or result.status == "skipped")
    worse = tuple(line for old, new in both if (line := _fallen(old, new)))
    better = tuple(new.id for old, new in both if old.misses and not new.misses and new.status == "scored")
    return Regression(worse, better, len(both), skipped)


def _fallen(old: CaseResult, new: CaseResult) -> str:
    """The scores that fell; one no longer given (no diagnosis, no finding) counts only when the diagnosis is gone."""
    if new.status == "failed":
        return f"{new.id}: failed now ({new.reason})"
    fallen = []
    for name in (each for each in old.scores if each not in TOLD_APART):
        was = old.scores[name]
        rise = new.scores.get(name, 0.0) - was
        worse = rise > LEAST if name in LOWER_IS_BETTER else rise < -LEAST
        if worse if name in new.scores else new.verdict == "refused":
            fallen.append(f"{name} {was:.2f} -> {new.scores.get(name, 0.0):.2f}")
    return f"{new.id}: {', '.join(fallen)}" if fallen else ""

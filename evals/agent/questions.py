"""The questions of ``questions.yaml``: runs with their labels, and what a right answer about each holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, field_validator

from evals.suite.case_schema import RunRef
from evals.synthetic.spec import Record
from hermes_agent.statements.record import Part
from tools.errors import InputError
from tools.findings import Argument
from tools.judgement.catalog import metrics
from tools.knowledge.taxonomy import causes

FILE = Path(__file__).with_name("questions.yaml")
Tag = Literal["cause", "figure", "advice", "compare", "abstain", "injected", "healthy"]


class Label(Record):
    """A run and what is known of it from its maker: never from a diagnosis."""

    case: str | None = None  # the id of a case of evals/cases, which has run and label
    run: RunRef | None = None
    causes: tuple[str, ...] = ()  # right as the first cause
    also: tuple[str, ...] = ()  # right to name too
    ranks: tuple[int, ...] = ()  # where the cause is
    part: tuple[Part, ...] = ()  # parts of the step that it spends; any of them is right

    @field_validator("causes", "also")
    @classmethod
    def _in_taxonomy(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in causes():
                raise ValueError(f"{name!r} is not a cause of the taxonomy")
        return names


class Asked(Record):
    """One question, asked of each of ``runs``. ``facts`` are metrics with arguments: ``part_ms part=host rank=1``.

    ``unknown`` are the causes and checks that a refusal may name, ``missing`` is a pattern of the source that the run
    lacks. ``must_cite``: each has to be cited by a statement: ``advice`` or ``verify`` (of a cause of the label),
    ``absent CAUSE``, or a metric with arguments. Alternatives are separated by "|". ``says``: patterns of the first
    statements.
    """

    ask: str
    runs: tuple[str, ...] = Field(min_length=1)
    tag: Tag
    tools_any_of: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()  # measured when the question is scored
    unknown: tuple[str, ...] = ()
    missing: str = ""
    must_cite: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    causal_path: bool = False  # cause, ranks and part of the run's label
    must_not_say: tuple[str, ...] = ()

    @property
    def abstains(self) -> bool:
        """Whether the run cannot answer it."""
        return bool(self.unknown or self.missing)


class QuestionFile(Record):
    """The file."""

    runs: dict[str, Label]
    questions: tuple[Asked, ...]


@dataclass(frozen=True)
class Fact:
    """A figure of the run that a right answer holds: a metric and its arguments."""

    metric: str
    arguments: dict[str, Argument]


@dataclass(frozen=True)
class Question:
    """One question about one run."""

    id: str
    run: str
    asked: Asked
    facts: tuple[tuple[Fact, ...], ...]  # for each figure, all that are right


@lru_cache(maxsize=1)
def question_file() -> QuestionFile:
    """The file, read once and checked."""
    return QuestionFile.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def questions() -> Iterator[Question]:
    """Yield every question with every run it is asked of; InputError for a run or metric that does not exist."""
    file = question_file()
    for number, asked in enumerate(file.questions, start=1):
        facts = tuple(tuple(fact_of(each) for each in text.split("|")) for text in asked.facts)
        for run in asked.runs:
            if run not in file.runs:
                raise InputError(f"{FILE} asks {asked.ask!r} of {run!r}, which is not among its runs")
            yield Question(f"{number:02d}-{run}", run, asked, facts)


def fact_of(text: str) -> Fact:
    """``part_ms part=host rank=1`` as metric and arguments."""
    metric, *pairs = text.split()
    if metric not in metrics():
        raise InputError(f"{FILE}: there is no metric {metric!r}")
    given = (pair.partition("=") for pair in pairs)
    return Fact(metric, {name: int(value) if value.isdecimal() else value for name, _, value in given})

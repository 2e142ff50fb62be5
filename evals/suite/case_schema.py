"""The evaluation case as written in YAML: a run, what must be said of it and what must not."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from evals.synthetic.spec import Record, SyntheticSpec
from tools.knowledge.taxonomy import causes

Verdict = Literal["problem", "healthy", "inconclusive"]
Source = Literal["real", "lab", "habits", "others", "synthetic"]
# What of a recorded run is given: everything, one source, or two of three.
Sources = Literal["all", "traces", "log", "records", "traces+log", "traces+records", "log+records"]
Kind = Literal["cause", "healthy", "missing_data", "two_causes", "masked", "injected", "incomparable", "unlabelled"]
Split = Literal["dev", "test"]


class RunEdit(Record):
    """Changes to a copy of a recorded run before it is diagnosed; the recording itself is never touched."""

    sources: Sources = "all"
    without_traces_of: tuple[int, ...] = ()
    cut_traces_of: tuple[int, ...] = ()  # files that end in the middle, as after a full disk
    without_traces: bool = False
    without_records: bool = False  # neither monitor records nor step logs nor environment
    hostile_names: tuple[str, ...] = ()  # appended to names of events

    @property
    def nothing(self) -> bool:
        """Return whether the run stays as it was recorded."""
        return self == RunEdit()


PLACES = ("traces", "lab", "habits", "others", "demo", "synthetic")


class RunRef(Record):
    """The place of the run: exactly one of these, and what is changed in a copy of a recorded one."""

    traces: str | None = None  # below the folder with real traces
    lab: str | None = None  # below the folder with recorded lab runs
    habits: str | None = None  # below the folder with the lab's runs in other people's habits
    others: str | None = None  # below the folder with runs that others recorded
    demo: Literal["slow", "fixed"] | None = None
    synthetic: SyntheticSpec | None = None
    edit: RunEdit = RunEdit()

    @model_validator(mode="after")
    def _exactly_one(self) -> RunRef:
        named = [name for name in PLACES if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(f"a run is one of {', '.join(PLACES)}; here are {', '.join(named) or 'none'}")
        for path in (self.traces, self.lab, self.habits, self.others):
            if path is not None and (path.startswith("/") or ".." in path.split("/")):
                raise ValueError(f"{path!r} leaves its folder")
        if not self.edit.nothing and named[0] in ("traces", "synthetic"):
            raise ValueError("only a recorded run is edited; a synthetic one is made as it has to be")
        return self


class Expected(Record):
    """The right answer. Causes are ``cause`` or ``cause/mechanism`` of the taxonomy."""

    verdict: tuple[Verdict, ...] = ()  # any of these is right; () means that the label does not say
    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()
    also_right: tuple[str, ...] = ()  # as the first cause right as well, and counted apart
    family: str | None = None
    ranks: tuple[int, ...] | None = None  # of the first right cause
    steps: tuple[int, ...] | None = None
    also_allowed: tuple[str, ...] = ()  # consequences that may be named too
    only_causes: tuple[str, ...] = ()  # a healthy run is slowed down by these: naming them is right as well
    may_abstain: bool = False  # what was recorded need not show the fault: only a wrong cause is wrong
    some_steps: bool = False  # the fault hits some steps only
    not_causes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # what a complete answer holds, in any spelling: DataLoader is "data loader"
    error: Literal["not_comparable", "unreadable"] | None = None

    @field_validator("any_of", "all_of", "also_right", "also_allowed", "only_causes", "not_causes")
    @classmethod
    def _in_taxonomy(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            cause, _, mechanism = name.partition("/")
            known = causes().get(cause)
            if known is None:
                raise ValueError(f"{cause!r} is not a cause of the taxonomy")
            if mechanism and mechanism not in known.mechanisms:
                raise ValueError(f"{mechanism!r} is not a mechanism of {cause}")
        return names

    @field_validator("family")
    @classmethod
    def _known_family(cls, name: str | None) -> str | None:
        if name is not None and name not in {cause.family for cause in causes().values()}:
            raise ValueError(f"{name!r} is not a family of the taxonomy")
        return name

    @model_validator(mode="after")
    def _says_something(self) -> Expected:
        if not (self.verdict or self.any_of or self.all_of or self.family or self.not_causes or self.error):
            raise ValueError("nothing is expected: a case has to say what is right or wrong")
        if self.any_of and self.all_of:
            raise ValueError("any_of and all_of exclude each other")
        if self.also_right and not self.causes:
            raise ValueError("also_right stands next to any_of or all_of")
        return self

    @property
    def causes(self) -> tuple[str, ...]:
        """The expected causes without their mechanisms."""
        return tuple(name.partition("/")[0] for name in (*self.any_of, *self.all_of))

    @property
    def accepted(self) -> tuple[str, ...]:
        """The causes that may come first: the expected ones and those that are right as well."""
        return (*self.causes, *(name.partition("/")[0] for name in self.also_right))


class ExpectedFact(Record):
    """A figure that has to be among the evidence."""

    metric: str
    value: float
    tolerance_pct: Annotated[float, Field(gt=0)] = 2.0
    arguments: dict[str, str | int | float] = Field(default_factory=dict)  # those given have to be equal


class Measured(Record):
    """Step times before and after the fault was fixed, and the bounds of the measured speedup where they are known."""

    before_ms: Annotated[float, Field(gt=0)]
    after_ms: Annotated[float, Field(gt=0)]
    speedup_low: Annotated[float, Field(gt=0)] | None = None
    speedup_high: Annotated[float, Field(gt=0)] | None = None
    statistic: Literal["median", "mean"] = "median"


class Tags(Record):
    """Tags that results are grouped by."""

    source: Source
    kind: Kind
    family: str = "none"
    difficulty: Literal["easy", "medium", "hard"] = "medium"
    split: Split = "dev"
    scale: str = ""
    fault: str = ""  # what was put into the world; the same name in all variants
    workload: str = ""
    strength: str = ""
    sources: Sources = "all"  # of a recorded run: everything, or some of what was recorded
    run: str = ""  # the case of the same run with everything


class Case(Record):
    """One case."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    what: str
    run: RunRef
    baseline: RunRef | None = None
    question: str | None = None
    expected: Expected
    facts: tuple[ExpectedFact, ...] = ()
    must_not_say: tuple[str, ...] = ()  # literal text, upper and lower case alike
    answer_must_say: tuple[str, ...] = ()
    measured: Measured | None = None  # of generated and lab runs it is known from the generator and the recording
    tags: Tags

    @model_validator(mode="after")
    def _source_is_true(self) -> Case:
        made = self.run.synthetic is not None
        if made != (self.tags.source == "synthetic"):
            raise ValueError("a generated run is tagged synthetic, and only a generated run is")
        if self.answer_must_say and self.question is None:
            raise ValueError("answer_must_say needs a question")
        return self


class CaseFile(Record):
    """One YAML file."""

    cases: tuple[Case, ...]

"""A diagnosed run for notebooks and scripts: the records, tables of them, and questions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pandas as pd

from hermes_agent.api.frames import event_frame, record_frame
from hermes_agent.api.page import page
from hermes_agent.api.prediction import Prediction, prediction_of
from hermes_agent.config.settings import Settings
from hermes_agent.llm.redact import Redactor
from hermes_agent.locations.places import local, place
from hermes_agent.model import diagnosis as records
from hermes_agent.model.events import Emit, ignore
from hermes_agent.model.request import Request
from hermes_agent.run_comparison import RunComparison, compared
from hermes_agent.session import Answer, Session, Shown
from tools.errors import UsageError
from tools.views.event_tables import kernels, operators
from tools.views.steps.rows import step_rows

if TYPE_CHECKING:
    from tools.views.profile import Profile

Where = str | os.PathLike[str]
NOTHING = "name what to diagnose: a trace file, a folder with traces or monitor records, or a URL of one"


def diagnose(
    *runs: Where,
    baseline: Where | Sequence[Where] = (),
    steps: tuple[int, int] | None = None,
    ranks: Sequence[int] = (),
    cache: bool = True,
    use_model: bool = False,
    settings: Settings | None = None,
    progress: Emit = ignore,
) -> DiagnosedRun:
    """Diagnose a run: trace files, folders with traces or monitor records, or URLs of them.

    ``steps`` is the first and the last step to use, ``ranks`` restricts the ranks. ``settings`` are those of
    ``hermes-dx.toml`` and the environment unless given. A configured language model is used with ``use_model`` only.
    ``progress`` hears the events of ``hermes_agent.model.events``. Nothing is printed; the result keeps its own state.

    Raises UsageError without a run, InputError where one cannot be read, NotComparableError for a baseline of another
    kind of run; all are a HermesError, whose text is one sentence.
    """
    chosen = settings or Settings.load(Path.cwd(), os.environ)
    if not use_model:
        chosen = chosen.without_model()
    cache_dir = chosen.cache_dir if cache else None
    request = Request(
        paths=_paths(runs, cache_dir),
        baseline=_paths(baseline if isinstance(baseline, list | tuple) else (baseline,), cache_dir),
        steps=_first_and_last(steps),
        ranks=_numbers(ranks, "ranks are the numbers of some, for example ranks=[0, 3]"),
        thresholds=chosen.thresholds,
        log_pattern=chosen.log_pattern or "",
        cache_dir=cache_dir,
        private_cases=chosen.cases.private_dir,
        embedding=chosen.embedding(os.environ, Redactor().mask),
    )
    if not request.paths:
        raise UsageError(f'{NOTHING}: diagnose("traces/")')
    session = Session(request, chosen)
    session.diagnose(progress)
    return DiagnosedRun(session)


def _first_and_last(steps: Sequence[int] | None) -> tuple[int, int] | None:
    if steps is None:
        return None
    wrong = "steps are the first and the last one, for example steps=(10, 20)"
    match _numbers(steps, wrong):
        case (first, last):
            return first, last
    raise UsageError(wrong)


def _numbers(given: object, wrong: str) -> tuple[int, ...]:
    """Whole numbers of any kind (NumPy's as well) as int; UsageError with the sentence for anything else."""
    numbers = tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(each, Integral) for each in numbers):
        raise UsageError(wrong)
    return tuple(map(int, numbers))


def _paths(runs: Sequence[object], cache_dir: Path | None) -> tuple[Path, ...]:
    named = [os.fspath(run) for run in runs if isinstance(run, str | os.PathLike)]
    if len(named) < len(runs) or not all(named):
        raise UsageError(f"a run is a path or a URL; {NOTHING}")
    return tuple(local(place(name), cache_dir) for name in named)


class DiagnosedRun:
    """The answer of ``diagnose``. Use it from one thread at a time; ``close`` (or ``with``) removes temporary files.

    ``diagnosis`` holds the typed records of the JSON contract. Tables are DataFrames made from them; those of steps and
    events read the run again, by the cache where there is one. Names of events, ranks' hosts and files come from the
    run and are untrusted text: pandas escapes them in a notebook, other displays have to.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def diagnosis(self) -> records.Diagnosis:
        """The typed records: ``docs/diagnosis.schema.json`` describes them."""
        return self._session.diagnosis

    @property
    def verdict(self) -> records.Verdict:
        """``problem``, ``healthy`` or ``inconclusive``."""
        return self.diagnosis.verdict

    @property
    def headline(self) -> str:
        """The first sentence of the answer, with the ids of its figures: ``[E7]``."""
        return self.diagnosis.headline

    @property
    def notes(self) -> list[str]:
        """What was left out or assumed, settings that were not taken included."""
        return [*self._session.settings.notes, *self.diagnosis.run.notes, *self.diagnosis.notes]

    @property
    def causes(self) -> pd.DataFrame:
        """Causes, largest saving first; the columns of ``CauseRecord`` (``impact_ms_per_step``, ``confidence``)."""
        return record_frame(records.CauseRecord, self.diagnosis.causes)

    @property
    def advice(self) -> pd.DataFrame:
        """Changes to make, in order; the columns of ``AdviceRecord`` (``predicted_step_ms``, ``interval``)."""
        return record_frame(records.AdviceRecord, self.diagnosis.advice)

    @property
    def leads(self) -> pd.DataFrame:
        """What is localised but not explained; the columns of ``LeadRecord``."""
        return record_frame(records.LeadRecord, self.diagnosis.leads)

    @property
    def checks(self) -> pd.DataFrame:
        """The outcome of every check: found, clean, or cannot_answer with what is needed."""
        return record_frame(records.CheckRecord, self.diagnosis.checks)

    @property
    def evidence(self) -> pd.DataFrame:
        """The figures of the diagnosis with unit and source, by their id (``E7``)."""
        return record_frame(records.EvidenceRecord, self.diagnosis.evidence).set_index("id")

    @property
    def breakdown(self) -> pd.DataFrame:
        """The mean traced step of each rank in ms: the exposed parts add up to ``wall_ms``; empty without a trace."""
        rows = [row for row in self.diagnosis.breakdown if row.step is None]
        return record_frame(records.BreakdownRow, rows).drop(columns="step").set_index("rank")

    @property
    def steps(self) -> pd.DataFrame:
        """The slowest rank of each traced step and its parts in ms; without a trace the steps that were recorded."""
        return pd.DataFrame(step_rows(self.profile())).set_index("step")

    @property
    def recorded_steps(self) -> pd.DataFrame:
        """Unprofiled steps of monitor records or step logs, by rank (``wall_ms``, ...); empty where there are none."""
        series = self.profile().series
        return pd.DataFrame() if series is None else series.whole.usual.reset_index(drop=True)

    def events(self, rank: int = 0, kind: str = "") -> pd.DataFrame:
        """All events of a rank, or those of a kind: see ``hermes_agent.api.frames.event_frame`` for the columns.

        Kinds are operator, annotation, runtime, python, kernel, memcpy, memset, sync and others. Raises UsageError for
        a rank or kind that there is not.
        """
        profile = self.profile()
        if not profile.traced:
            _ = profile.ranks  # raises with what is missing
        table = event_frame(profile.rank(rank))
        kinds = list(table["kind"].cat.categories)
        if kind and kind not in kinds:
            raise UsageError(f"there are no events of kind {kind!r}; kinds are {', '.join(kinds)}")
        return table[table["kind"] == kind] if kind else table

    @property
    def operators(self) -> pd.DataFrame:
        """Operators by rank and name, as ``hermes-dx operators``; UsageError without a trace."""
        return operators(self.profile())

    @property
    def kernels(self) -> pd.DataFrame:
        """Kernels by rank and name, as ``hermes-dx kernels``; UsageError without a trace."""
        return kernels(self.profile())

    def profile(self) -> Profile:
        """The run itself, for ``tools.metrics`` and ``tools.views``; InputError where it can no longer be read."""
        return self._session.profile(ignore)

    def ask(self, question: str) -> Answer:
        """The answer to a question in English: ``text``, the ``evidence`` it cites, and ``notes``."""
        return self._session.ask(question, ignore)

    def show(self, identifier: str) -> Shown:
        """The record behind ``E7``, ``A1``, ``C2``, a check or a cause; a figure is measured again, with its rows."""
        return self._session.show(identifier)

    def whatif(self, *causes: str) -> Prediction:
        """The step without these causes of the run (ids such as ``slow_data_processing``), by one replay.

        Raises UsageError for an unknown cause or where none of them was found.
        """
        if not causes:
            raise UsageError("name the causes that should be gone; found are those in the column cause of .causes")
        changes = [{"what": "without_cause", "cause": cause} for cause in causes]
        return prediction_of(self._session.call("what_if", {"changes": changes}, ignore), causes)

    def compare(self, before: DiagnosedRun) -> RunComparison:
        """What changed from the other run to this one; NotComparableError with every reason against it."""
        return compared(before.profile(), self.profile())

    def to_json(self, indent: int | None = 2) -> str:
        """The JSON contract, as ``hermes-dx diagnose --json`` prints it."""
        return self.diagnosis.model_dump_json(by_alias=True, indent=indent)

    def to_markdown(self) -> str:
        """The whole answer for an issue or a pull request, as ``hermes-dx diagnose --md`` prints it."""
        from hermes_agent.report.markdown import render_markdown

        return render_markdown(self.diagnosis)

    def close(self) -> None:
        """Remove temporary files."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<DiagnosedRun {self.verdict}: {self.headline}>"

    def _repr_html_(self) -> str:
        return page(self.diagnosis)

"""The changes between two runs, or why they cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tools.comparison.bandwidth_tests import ComparedTests, tests_compared
from tools.comparison.comparability import (
    Comparability,
    assumptions,
    comparability,
    comparability_of_records,
    likeness,
    require_series,
    require_steps,
    unknown_of_records,
)
from tools.comparison.job_settings import changed_settings
from tools.comparison.output_changes import output_changes
from tools.errors import UsageError
from tools.findings import Argument, Fact, Sentence
from tools.metrics.registry import measure
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.work import kernel_work, operator_work

What = Literal["step_time", "part", "kernel", "operator"]
RECORDED_PARTS = {
    "data_wait": "waiting for data",
    "own": "its own time, loading data included,",
    "rest": "the remainder apart from its own time (waiting for others, the optimizer, whatever else follows)",
}


@dataclass(frozen=True)
class Difference:
    """One figure in both runs. ``name`` is a part, or a kernel's or operator's name as recorded (untrusted)."""

    what: What
    name: str
    before: Fact
    after: Fact

    @property
    def delta(self) -> float:
        """After minus before, in the facts' unit."""
        return self.after.value - self.before.value

    @property
    def verb(self) -> str:
        """The direction, for figures that changed."""
        return "fell" if self.delta < 0 else "rose"

    def sentence(self) -> Sentence:
        """The change of a part, kernel or operator of the traced steps."""
        part = self.name.replace("_", " ").replace("memcpy", "copy").capitalize()
        subject = {"kernel": "The kernel {n0}", "operator": "The own time of the operator {n0}"}.get(self.what, part)
        names = () if self.what == "part" else (self.name,)
        return Sentence(f"{subject} {self.verb} from {{0}} to {{1}} per step.", (self.before, self.after), names)

    def recorded_sentence(self, ranks: int) -> Sentence:
        """The change of a part of the unprofiled steps; the rank is named where there are several."""
        end = f"{self.verb} from {{0}} to {{1}} per unprofiled step"
        text = f"Collections of Python's garbage collector {end}, on the rank that collects longest."
        if self.name != "gc":
            where = f"On rank {self.before.ranks[0]} " if ranks > 1 else ""
            text = f"{where}{RECORDED_PARTS[self.name]} {end}."
        return Sentence(text[:1].upper() + text[1:], (self.before, self.after))


def difference(a: Profile, b: Profile, what: What, shown: str, metric: str, **arguments: Argument) -> Difference:
    """The same measurement on the baseline ``a`` and on ``b``."""
    return Difference(what, shown, measure(a, metric, **arguments), measure(b, metric, **arguments))


def recorded_parts(a: Profile, b: Profile, least_ms: float) -> tuple[Difference, ...]:
    """Collections and the parts of a step, each where it changed most; those below ``least_ms`` left out."""
    ranks = a.series.ranks if a.series is not None else ()
    found = [_recorded(a, b, part, "series_part_ms", part=part, rank=rank) for part in RECORDED_PARTS for rank in ranks]
    known = [each for each in (*found, _recorded(a, b, "gc", "collector_cost_ms")) if each is not None]
    largest: dict[str, Difference] = {}
    for each in sorted(known, key=lambda each: -abs(each.delta)):
        largest.setdefault(each.name, each)
    return tuple(each for each in largest.values() if abs(each.delta) >= least_ms)


def _recorded(a: Profile, b: Profile, name: str, metric: str, **arguments: str | int) -> Difference | None:
    """None where the records of one run do not hold it, as step logs hold no parts."""
    try:
        return difference(a, b, "part", name, metric, **arguments)
    except UsageError:
        return None


APART_PCT = 3.0  # traced steps that differ less from unprofiled ones are not given twice
NONE: tuple[Difference, ...] = ()
# HCCL names a kernel by group, call and stream of that run: under such names every collective would be gone and new.
NUMBERED_IN_ITS_RUN = r"hcom_\w+__\d+(?:_\d+)+"
SHOWN = 5  # kernels and operators listed, each


@dataclass(frozen=True)
class Comparison:
    """Two comparable runs, the baseline first. Differences are largest first; ``step`` is unprofiled if recorded."""

    step: Difference
    parts: tuple[Difference, ...]
    kernels: tuple[Difference, ...]
    operators: tuple[Difference, ...]
    loaders: tuple[str, str]  # name of the data-loader span in each run, "" for none (untrusted)
    likeness: float  # 0..1, how much of their layers or of their work the runs share
    headline: Sentence
    changes: tuple[Sentence, ...]
    comparability: Comparability
    notes: tuple[str, ...] = ()  # what could not be verified
    recorded: tuple[Difference, ...] = ()  # parts of unprofiled steps, collections among them


def compare(a: Profile, b: Profile) -> Comparison:
    """The changes from baseline ``a`` to run ``b``; ``NotComparableError`` names every reason against it."""
    if a.traced != b.traced and None in (a.series, b.series):
        return _profiled_against_records(a, b)
    if not a.traced and not b.traced and (tests := tests_compared(a, b)) is not None:
        return _of_tests(tests)
    if not a.traced or not b.traced:
        require_series(a, b)
        step, recorded = _recorded_difference(a, b)
        unknown = ", ".join(unknown_of_records(a, b))
        stated = changed_settings(a.run.job_log, b.run.job_log)
        least_ms = step.before.value * a.thresholds["noted_pct"] / 100.0
        printed = output_changes(a, b, step.before, step.after, least_ms)
        return Comparison(
            step=step,
            parts=(),
            kernels=(),
            operators=(),
            loaders=("", ""),
            likeness=0.0,
            headline=_headline(step, "unprofiled step"),
            changes=(
                *_recorded_changes(a, recorded),
                *(each.sentence(len(stated) == 1) for each in stated),
                *printed,
            ),
            comparability=comparability_of_records(a, b),
            notes=(f"Not stated by both runs: {unknown}; that they are the same was assumed.",),
            recorded=recorded,
        )
    alike = likeness(a, b)
    traced = difference(a, b, "step_time", "", "step_time_ms", statistic="mean")
    which, step, recorded = "step" if a.series is None and b.series is None else "traced step", traced, NONE
    if a.series is not None and b.series is not None and a.series.ranks == b.series.ranks:
        which = "unprofiled step"
        step, recorded = _recorded_difference(a, b)
    parts = tuple(_noted(a, (difference(a, b, "part", part, "part_ms", part=part) for part in PARTS)))
    kernels = _by_name(a, b, "kernel", kernel_work, "kernel_name_ms")
    operators = _by_name(a, b, "operator", operator_work, "operator_name_ms")
    loaders = _loader(a), _loader(b)
    details = (*_loader_change(loaders), *(each.sentence() for each in (*parts, *kernels, *operators)))
    return Comparison(
        step=step,
        parts=parts,
        kernels=kernels,
        operators=operators,
        loaders=loaders,
        likeness=alike,
        headline=_headline(step, which),
        changes=(*_recorded_changes(a, recorded), *_of_traced(step, traced, details)),
        comparability=comparability(a, b, alike),
        notes=assumptions(a, b),
        recorded=recorded,
    )


def _of_tests(found: ComparedTests) -> Comparison:
    """The time of the largest message that both tests ran, in place of a step."""
    return Comparison(
        step=Difference("step_time", "", found.before, found.after),
        parts=(),
        kernels=(),
        operators=(),
        loaders=("", ""),
        likeness=0.0,
        headline=found.headline,
        changes=found.changes,
        comparability=found.comparability,
        notes=found.notes,
    )


PROFILED = "The steps of the {} run are those under its profiler, which makes them longer; those of the other are not."


def _profiled_against_records(a: Profile, b: Profile) -> Comparison:
    """The step time of a run that was traced against that of one with records or output alone."""
    require_steps(a, b)
    metrics = ["step_time_ms" if each.traced and each.series is None else "series_step_ms" for each in (a, b)]
    facts = [measure(each, metric, statistic="mean") for each, metric in zip((a, b), metrics, strict=True)]
    step = Difference("step_time", "", facts[0], facts[1])
    unknown = ", ".join(unknown_of_records(a, b))
    return Comparison(
        step=step,
        parts=(),
        kernels=(),
        operators=(),
        loaders=("", ""),
        likeness=0.0,
        headline=_headline(step, "step"),
        changes=(),
        comparability=comparability_of_records(a, b),
        notes=(
            PROFILED.format("first" if a.traced else "second"),
            f"Not stated by both runs: {unknown}; that they are the same was assumed.",
        ),
    )


def _recorded_difference(a: Profile, b: Profile) -> tuple[Difference, tuple[Difference, ...]]:
    step = difference(a, b, "step_time", "", "series_step_ms", statistic="mean")
    return step, recorded_parts(a, b, step.before.value * a.thresholds["noted_pct"] / 100.0)


def _recorded_changes(a: Profile, recorded: tuple[Difference, ...]) -> tuple[Sentence, ...]:
    ranks = 0 if a.series is None else len(a.series.ranks)
    return tuple(each.recorded_sentence(ranks) for each in recorded)


def _of_traced(step: Difference, traced: Difference, details: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """The details, after a clause that says so where they are of other steps than the headline."""
    if step == traced:
        return details
    pairs = ((step.before, traced.before), (step.after, traced.after))
    lead = "What follows is of the traced steps" if details else "The traced steps"
    if any(abs(own.value - other.value) > APART_PCT / 100.0 * own.value for own, other in pairs):
        text = f"{lead}{', which took' if details else ' took'} {{0}} before and {{1}} now."
        return (Sentence(text, (traced.before, traced.after)), *details)
    return (Sentence(f"{lead}."), *details) if details else ()


def _noted(a: Profile, differences: Iterable[Difference]) -> list[Difference]:
    least_ms = a.median_step_ms * a.thresholds["noted_pct"] / 100.0
    return sorted((each for each in differences if abs(each.delta) >= least_ms), key=lambda each: -abs(each.delta))


def _by_name(
    a: Profile, b: Profile, what: What, work: Callable[[Profile], pd.DataFrame], metric: str
) -> tuple[Difference, ...]:
    change = work(b)["ms"].sub(work(a)["ms"], fill_value=0.0)
    change = change[~change.index.astype(str).str.fullmatch(NUMBERED_IN_ITS_RUN)]
    largest = change.abs().sort_values(ascending=False, kind="stable").index[:SHOWN]
    return tuple(_noted(a, [difference(a, b, what, str(name), metric, name=str(name), compared=1) for name in largest]))


def _loader(profile: Profile) -> str:
    return next((view.names(view.loader_rows[:1])[0] for view in profile.ranks if len(view.loader_rows)), "")


def _headline(step: Difference, which: str) -> Sentence:
    if step.delta == 0:
        return Sentence(f"The average {which} is as long as before: {{0}}.", (step.after,))
    return Sentence(f"The average {which} {step.verb} from {{0}} to {{1}}.", (step.before, step.after))


def _loader_change(loaders: tuple[str, str]) -> tuple[Sentence, ...]:
    if loaders[0] == loaders[1]:
        return ()
    if not all(loaders):
        text = "The data-loader span {n0} is gone." if loaders[0] else "There is a data-loader span {n0} now."
        return (Sentence(text, names=(loaders[0] or loaders[1],)),)
    return (Sentence("Data comes through {n1} instead of {n0}.", names=loaders),)

"""The answer of a page: the run, the confidence, step times, causes and predicted gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.evidence.citations import written
from hermes_agent.evidence.printable import printable
from hermes_agent.locations.places import origin
from hermes_agent.model.diagnosis import AdviceRecord, CauseRecord, Diagnosis
from hermes_agent.model.display import cause_heading, cause_title, counted, rank_count, recorded_count, speedup_range
from hermes_agent.report.headline import headline_cause
from hermes_agent.report.sections import cause_facts, cause_lines
from tools.knowledge.taxonomy import EFFORTS

NAME_CHARS = 80


@dataclass(frozen=True)
class PageCause:
    """One cause as the page shows it."""

    heading: str
    facts: str
    claim: str
    lines: tuple[str, ...]
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    advice: tuple[AdviceRecord, ...]


def run_title(diagnosis: Diagnosis, paths: Sequence[Path]) -> str:
    """The run by the names of its paths or URLs, else of its files."""
    used = dict.fromkeys(source.path for source in diagnosis.run.sources if source.status != "excluded")
    names = (
        [path.name or str(path) for path in paths] or [path.rsplit("/", 1)[-1] for path in used] or ["without files"]
    )
    first = f"Run {printable(names[0], NAME_CHARS)}"
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} more"


def origin_of(path: Path) -> str:
    """The path, or the URL that it is a copy of."""
    return origin(path) or str(path)


def about_run(diagnosis: Diagnosis) -> str:
    """Ranks, steps and devices of the run."""
    run = diagnosis.run
    if not run.ranks and run.recorded is not None:
        ranks, steps = recorded_count(run.recorded, run.layout.get("world_size"))
        return f"{ranks}, {steps}, no trace: records of whole steps only"
    return f"{rank_count(run)}, {counted(len(run.steps), 'step')}, {', '.join(run.devices) or 'CPU only'}"


def confidence(diagnosis: Diagnosis) -> str:
    """The confidence in the cause that the headline names."""
    cause = headline_cause(diagnosis)
    return "" if cause is None else f"confidence {cause.confidence:.2f} in {cause_title(cause.cause, cause.mechanism)}"


def step_figures(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """Step times, each with its id."""
    times = diagnosis.step_time_ms
    if times is None:
        return ()
    rows = [("Step", times.mean, times.median, times.p95, times.evidence)]
    if times.unprofiled is not None and times.unprofiled.evidence != times.evidence:  # else there are no others
        other = times.unprofiled
        rows.append(("Unprofiled step", other.mean, other.median, other.p95, other.evidence))
    return tuple(
        (f"{name}, {statistic}", f"{written(value, 'ms')} [{identifier}]")
        for name, mean, median, p95, evidence in rows
        for statistic, value, identifier in zip(("mean", "median", "p95"), (mean, median, p95), evidence, strict=True)
    )


def page_cause(cause: CauseRecord, diagnosis: Diagnosis) -> PageCause:
    """A cause with its lines and its advice."""
    own = [each for each in diagnosis.advice if (each.for_, each.mechanism) == (cause.cause, cause.mechanism)]
    return PageCause(
        cause_heading(cause.cause, cause.mechanism),
        cause_facts(cause, diagnosis),
        cause.claim,
        tuple(cause_lines(cause)),
        tuple(cause.evidence),
        tuple(cause.evidence_against),
        tuple(own),
    )


def gains(diagnosis: Diagnosis) -> tuple[tuple[str, ...], ...]:
    """A row per change: for what, work, predicted step, speedup and its range."""
    rows = []
    for item in diagnosis.advice:
        gain = ("not predicted", "", "")
        if item.predicted_step_ms is not None and item.predicted_speedup is not None:
            gain = (
                written(item.predicted_step_ms, "ms") + (" for as many samples" if item.same_samples else ""),
                f"{item.predicted_speedup:.2f}x",
                speedup_range(*item.interval) if item.interval else "at most",
            )
        rows.append((item.optimization, cause_title(item.for_, item.mechanism), EFFORTS[item.effort], *gain))
    return tuple(rows)

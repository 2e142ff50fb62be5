"""Why the right cause did not come first: what came instead, and what the run's own checks said of the right one."""

from __future__ import annotations

from evals.outcome import Outcome
from hermes_agent.evidence.printable import printable
from hermes_agent.report.diagnosis import CauseRecord, CheckRecord
from tools.taxonomy import causes

LONGEST = 160


def first(outcome: Outcome) -> str:
    """The cause that came first with its confidence and share of the step, or ``no cause``."""
    return _told(outcome.ranked[0]) if outcome.ranked else "no cause"


def _told(cause: CauseRecord) -> str:
    return f"{cause.cause} ({cause.confidence:.2f}, {cause.impact_pct:.1f} % of the step)"


def why_not(outcome: Outcome) -> str:
    """Where the right cause came, or else what its checks said: clean, cannot answer and why, or never asked."""
    if outcome.diagnosis is None:
        return "there is no diagnosis"
    accepted = outcome.case.expected.accepted
    for place, cause in enumerate(outcome.ranked, start=1):
        if cause.cause in accepted:
            return f"{_told(cause)} came as number {place}"
    asked = [check for name in dict.fromkeys(accepted) for check in _checks_of(name, outcome.diagnosis.checks)]
    return "; ".join(dict.fromkeys(_said(check) for check in asked)) or "no check asks for it"


def _checks_of(cause: str, checks: list[CheckRecord]) -> list[CheckRecord]:
    """The checks that are named after the cause or one of its mechanisms, else those of its family that found a thing.

    A check carries a name and no cause, so names are all there is to go by.
    """
    known = causes()[cause]
    names = {cause, *known.mechanisms}
    named = [check for check in checks if check.analyzer.rpartition(".")[2] in names]
    if named:
        return named
    return [c for c in checks if c.analyzer.partition(".")[0] == known.family and c.status == "found"]


def _said(check: CheckRecord) -> str:
    said = check.reason or " ".join(check.text)
    return printable(f"{check.analyzer} {check.status.replace('_', ' ')}: {said}")[:LONGEST]

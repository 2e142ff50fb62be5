"""What stands behind an id: a figure measured again with its rows, a case, an advice, a check or a cause."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from hermes_agent.evidence.figures import written
from hermes_agent.evidence.grounds import case_fields, recalled_case
from hermes_agent.evidence.printable import printable
from hermes_agent.evidence.recalled import kind_of
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, CheckRecord, EvidenceRecord
from hermes_agent.model.display import FAMILY_TITLES, cause_title, plain, rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import capital
from hermes_agent.report.text import EFFORTS
from tools.errors import InputError, UsageError
from tools.judgement.catalog import measurement, metrics
from tools.knowledge.taxonomy import causes
from tools.metrics.measurement import Measurement

ROWS_SHOWN = 20
CELL_CHARS = 120
LINE_CHARS = 2000
SAME = 1e-9  # relative difference below which two measurements are the same


@dataclass(frozen=True)
class Table:
    """Rows behind a figure, as text; cells may hold untrusted names and are cleaned of control characters."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int  # rows there are; ``rows`` may be a part


@dataclass(frozen=True)
class Shown:
    """What ``show`` answers for one id: title, lines of text, and for evidence the measurement made again."""

    id: str
    title: str
    lines: tuple[str, ...]
    table: Table | None = None
    again: float | None = None  # the figure measured again
    agrees: bool | None = None  # whether it equals the stored one


def look_up(discussion: Discussion, identifier: str) -> Shown:
    """What stands behind E7, C2 or A1, a check's name or a cause's id.

    Raises UsageError naming the ids there are, InputError when the run can no longer be read.
    """
    name = identifier.strip().strip("[]").strip()
    code = name.upper()
    if code in discussion.evidence:
        return _evidence(discussion, discussion.evidence[code])
    if code in discussion.advice:
        return _advice(discussion.advice[code])
    for record in discussion.cases:
        if record.id == code:
            return _case(record)
    for check in discussion.diagnosis.checks:
        if check.analyzer == name.lower():
            return _check(check)
    cause = "_".join(name.lower().split())
    if cause in causes():
        return _cause(cause)
    raise UsageError(f"there is nothing called {code or 'that'!r} in this diagnosis; {_known(discussion)}")


def _known(discussion: Discussion) -> str:
    groups = (
        ("evidence", list(discussion.evidence)),
        ("advice", list(discussion.advice)),
        ("cases", [record.id for record in discussion.cases]),
    )
    spans = [f"{title} {_span(names)}" for title, names in groups if names]
    return f"there is {', '.join(spans)}" if spans else "it cites nothing"


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _evidence(discussion: Discussion, record: EvidenceRecord) -> Shown:
    known = metrics().get(record.metric)
    if known is None:
        raise UsageError(f"{record.id} rests on the metric {record.metric!r}, which this version does not have")
    arguments = ", ".join(f"{name}={value}" for name, value in record.arguments.items())
    lines = [
        f"{known.question}",
        f"Stored: {written(record.value, record.unit)} ({record.value!r} {record.unit})",
        f"Measured by: {record.metric}({arguments})" + (" on the baseline" if record.run == "baseline" else ""),
    ]
    try:
        again = _measure_again(discussion, record)
    except UsageError as error:
        lines.append(f"Measured again: not possible any more, {error}")
        return Shown(
            record.id, f"{record.id} {plain(record.metric)}", tuple(_clean(line) for line in lines), agrees=False
        )
    agrees = math.isclose(again.value, record.value, rel_tol=SAME, abs_tol=0.0)
    verdict = "the same" if agrees else "NOT what is stored: the files or the program have changed since"
    lines.append(f"Measured again: {again.value!r} {record.unit}, {verdict}")
    lines += _origin(record)
    title = f"{record.id} {plain(record.metric)}: {written(record.value, record.unit)}"
    return Shown(
        record.id, _clean(title), tuple(_clean(line) for line in lines), _table(again.rows()), again.value, agrees
    )


def _measure_again(discussion: Discussion, record: EvidenceRecord) -> Measurement:
    profile = discussion.material.profile()
    if record.run == "baseline":
        baseline = discussion.material.baseline()
        if baseline is None:
            raise InputError(f"{record.id} was measured on the baseline; name it again with --baseline")
        profile = baseline
    return measurement(profile, record.metric, **record.arguments)


def _origin(record: EvidenceRecord) -> list[str]:
    lines = [f"Rows: {record.source.selector}", f"Source: {record.source.path}"]
    if record.ranks:
        lines.append(f"Scope: {rank_list(record.ranks)}" + (f", {_steps(record.steps)}" if record.steps else ""))
    if record.window_ns is not None:
        first, last = record.window_ns
        lines.append(f"Window: {first} to {last} ns of the run")
    return lines


def _steps(steps: list[int]) -> str:
    first, last = min(steps), max(steps)
    if len(steps) == 1:
        return f"step {first}"
    whole = len(set(steps)) == last - first + 1
    return f"steps {first} to {last}" if whole else f"{len(steps)} of the steps {first} to {last}"


def _table(rows: pd.DataFrame) -> Table:
    frame = rows if isinstance(rows.index, pd.RangeIndex) else rows.reset_index()
    first = frame.head(ROWS_SHOWN)
    cells = tuple(tuple(_cell(value) for value in row) for row in first.itertuples(index=False, name=None))
    return Table(tuple(_clean(str(column)) for column in frame.columns), cells, len(frame))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    text = "" if value is None or value is pd.NA else _clean(str(value))
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _clean(text: str) -> str:
    return printable(text, LINE_CHARS)


def _advice(item: AdviceRecord) -> Shown:
    lines = [
        f"For: {cause_title(item.for_, item.mechanism)}",
        f"How: {item.how}",
        f"Brings: {item.text or 'cannot be replayed from this recording'}",
        f"Effort: {EFFORTS.get(item.effort, 'unknown')}",
        f"Risk: {item.risk}",
        f"Verify: {item.verify}",
    ]
    if item.cases:
        lines.append(f"Cases like it: {', '.join(item.cases)}")
    return Shown(item.id, f"{item.id} {item.optimization}", tuple(_clean(line) for line in lines))


def _case(record: CaseRecord) -> Shown:
    case = recalled_case(record)
    fields = case_fields(case) if case else {"Source": record.url}
    lines = [
        f"A {kind_of(record)} case; it suggests, it is no evidence for this run.",
        f"Cause there: {plain(record.cause)}",
        *(f"{title}: {text}" for title, text in fields.items()),
        f"Similar because: {record.why} (similarity {record.similarity:.2f})",
    ]
    return Shown(record.id, _clean(f"{record.id} {record.title}"), tuple(_clean(line) for line in lines))


def _check(check: CheckRecord) -> Shown:
    lines = [f"Outcome: {plain(check.status)}", *check.text]
    if check.status == "cannot_answer":
        lines += [f"Reason: {check.reason}", f"Needs: {check.needs}"]
    return Shown(check.analyzer, check.analyzer, tuple(_clean(line) for line in lines))


def _cause(name: str) -> Shown:
    cause = causes()[name]
    lines = [
        f"Family: {FAMILY_TITLES.get(cause.family, cause.family)}",
        f"Signs: {'; '.join(cause.signals)}",
        f"What helps: {'; '.join(cause.optimizations)}",
    ]
    if cause.mechanisms:
        lines.append(f"Mechanisms: {', '.join(plain(each) for each in cause.mechanisms)}")
    return Shown(name, capital(plain(name)), tuple(lines))

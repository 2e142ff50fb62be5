"""The record of an id, measured again with its rows, and similar cases of the run or of a description."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from case_library.retrieval.query import CaseQuery
from hermes_agent.evidence.cases import case_fields, recalled_case
from hermes_agent.evidence.citations import written
from hermes_agent.evidence.ledger import quoted
from hermes_agent.evidence.printable import printable
from hermes_agent.evidence.session_ids import CitedRecord
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, CheckRecord, EvidenceRecord, HypothesisRecord
from hermes_agent.model.display import FAMILY_TITLES, cause_heading, cause_title, plain, rank_list, similar_cases_title
from hermes_agent.questions.answers.advice import in_full
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, capital, listed, paragraph, quoted_from, span
from hermes_agent.questions.reading.question import Question, wording
from tools.errors import InputError, UsageError
from tools.judgement.catalog import measurement, metrics
from tools.knowledge.taxonomy import EFFORTS, causes
from tools.metrics.measurement import Measurement

ROWS_SHOWN = 20
CELL_CHARS = 120
LINE_CHARS = 2000
SAME = 1e-9  # relative difference below which two measurements are the same
SHOW = re.compile(r"show a\d+$")
ASKED = re.compile(r"^(show|open|explain|cite|whats?( is)?|where does|why|tell me about)?( me)? ?[eac]\d+\b")
CASES_LISTED = 3
OF_EARLIER = "As it was in an earlier diagnosis of this session; the run was diagnosed again since."
DESCRIBED = re.compile(r"\b(?:like|about|of|for|with|where|to|in which|when)\s+(?P<what>.+)$", re.IGNORECASE)
THIS_RUN = re.compile(
    r"^\W*(this|mine|ours?|it|my (run|case|training|job)|the (run|diagnosis|first cause))\W*$", re.IGNORECASE
)


@dataclass(frozen=True)
class Table:
    """Rows of a figure, as text; cells may hold untrusted names and are cleaned of control characters."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int  # rows there are; ``rows`` may be a part


@dataclass(frozen=True)
class Shown:
    """The output of ``show`` for one id: title, lines of text, and for evidence the measurement made again."""

    id: str
    title: str
    lines: tuple[str, ...]
    table: Table | None = None
    again: float | None = None  # the figure measured again
    agrees: bool | None = None  # whether it equals the stored one


def look_up(discussion: Discussion, identifier: str) -> Shown:
    """The record of E7, C2 or A1, of a check or a cause; UsageError naming the ids, InputError when the run is gone."""
    name = identifier.strip().strip("[]").strip()
    code, lower = name.upper(), "_".join(name.lower().split())
    if code in discussion.evidence:
        return _evidence(discussion, discussion.evidence[code])
    if code in discussion.advice:
        return _advice(discussion.advice[code])
    if case := _case_of(discussion, code):
        return _case(case)
    if hypothesis := next((each for each in discussion.diagnosis.hypotheses if each.id == code), None):
        return _hypothesis(hypothesis, discussion.given.records.get(code))
    if (earlier := discussion.given.records.get(code)) is not None:
        return _of_earlier(discussion, earlier)
    if check := next((each for each in discussion.diagnosis.checks if each.analyzer == name.lower()), None):
        return _check(check)
    if lower in causes():
        return _cause(lower)
    raise UsageError(f"there is nothing called {code or 'that'!r} in this diagnosis; {_known(discussion)}")


def explain_ids(discussion: Discussion, question: Question) -> str | None:
    """The records of the ids in a question; None when a word only looks like one (a device called A100)."""
    known = {
        *discussion.evidence,
        *discussion.advice,
        *(case.id for case in discussion.cases),
        *discussion.given.records,
    }
    chosen = [name for name in dict.fromkeys(question.ids) if name in known]
    if chosen:
        return blocks(_explained(discussion, name) for name in chosen)
    advice = discussion.diagnosis.advice
    if advice and question.ids and all(name.startswith("A") for name in question.ids) and SHOW.match(question.words):
        return f"There is no further change: {advice[-1].id} is the last one."
    if question.ids and ASKED.search(question.words):
        return f"There is no such id. {capital(_known(discussion))}."
    return None


def _known(discussion: Discussion) -> str:
    cases = [case.id for case in discussion.cases]
    groups = {"evidence": list(discussion.evidence), "advice": list(discussion.advice), "cases": cases}
    groups = {title: sorted(ids, key=lambda each: int(each[1:])) for title, ids in groups.items()}
    spans = [f"{title} {ids[0]}" + (f" to {ids[-1]}" if len(ids) > 1 else "") for title, ids in groups.items() if ids]
    return f"there is {listed(spans)}" if spans else "the diagnosis cites nothing"


def _case_of(discussion: Discussion, name: str) -> CaseRecord | None:
    return next((case for case in discussion.cases if case.id == name), None)


def _call(record: EvidenceRecord) -> str:
    return f"{record.metric}({', '.join(f'{name}={value}' for name, value in record.arguments.items())})"


def _explained(discussion: Discussion, name: str) -> str:
    if name in discussion.advice:
        return in_full(discussion.advice[name])
    if case := _case_of(discussion, name):
        return blocks(quoted_from(line, name) for line in (case.title, *_case(case).lines))
    if name not in discussion.evidence:
        shown = _of_earlier(discussion, discussion.given.records[name])
        return blocks([quoted_from(shown.title, name), *(quoted_from(line, name) for line in shown.lines)])
    record = discussion.evidence[name]
    known = metrics().get(record.metric)
    where = f" on {rank_list(record.ranks)}" if record.ranks else ""
    of = " of the baseline" if record.run == "baseline" else ""
    return paragraph(
        [
            f"{known.question} {cited(record)}." if known else f"{cited(record)}.",
            f"It was measured by {quoted(_call(record))}{where}{of}.",
            f"Rows: {quoted(record.source.selector)}." if record.source.selector else "",
            f"`show {name}` measures it again and lists its rows.",
        ]
    )


def _shown(identifier: str, title: str, lines: list[str]) -> Shown:
    return Shown(identifier, _clean(title), tuple(_clean(line) for line in lines))


def _evidence(discussion: Discussion, record: EvidenceRecord) -> Shown:
    known = metrics().get(record.metric)
    if known is None:
        raise UsageError(f"{record.id} rests on the metric {record.metric!r}, which this version does not have")
    lines = [
        known.question,
        f"Stored: {written(record.value, record.unit)} ({record.value!r} {record.unit})",
        f"Measured by: {_call(record)}" + (" on the baseline" if record.run == "baseline" else ""),
    ]
    title = f"{record.id} {plain(record.metric)}"
    try:
        again = _measure_again(discussion, record)
    except UsageError as error:
        lines.append(f"Measured again: not possible any more, {error}")
        return replace(_shown(record.id, title, lines), agrees=False)
    agrees = math.isclose(again.value, record.value, rel_tol=SAME, abs_tol=0.0)
    verdict = "the same" if agrees else "NOT what is stored: the files or the program have changed since"
    lines += [f"Measured again: {again.value!r} {record.unit}, {verdict}", *_origin(record)]
    shown = _shown(record.id, f"{title}: {written(record.value, record.unit)}", lines)
    return replace(shown, table=_table(again.rows()), again=again.value, agrees=agrees)


def _of_earlier(discussion: Discussion, record: CitedRecord) -> Shown:
    """A record as it was when an earlier diagnosis of the session gave out its id; a figure is measured again too."""
    match record:
        case AdviceRecord():
            shown = _advice(record)
        case CaseRecord():
            return _case(record)
        case HypothesisRecord():
            shown = _hypothesis(record)
        case EvidenceRecord():
            try:
                shown = _evidence(discussion, record)
            except InputError as error:
                shown = _shown(
                    record.id, f"{record.id} {plain(record.metric)}", [f"Measured again: not possible, {error}"]
                )
            if shown.agrees:
                return shown
            title = f"{record.id} {plain(record.metric)}: {written(record.value, record.unit)}"
            now = [f"Now it is {written(shown.again, record.unit)}."] if shown.again is not None else []
            call = _call(record) + (" on the baseline" if record.run == "baseline" else "")
            shown = _shown(record.id, title, [f"Measured by: {call}", *now])
    return replace(shown, lines=(OF_EARLIER, *shown.lines))


def _measure_again(discussion: Discussion, record: EvidenceRecord) -> Measurement:
    profile = discussion.profile()
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
        lines.append(f"Window: {record.window_ns[0]} to {record.window_ns[1]} ns of the run")
    return lines


def _steps(steps: list[int]) -> str:
    whole = len(set(steps)) == max(steps) - min(steps) + 1
    return span("step", steps) if whole else f"{len(steps)} of the {span('step', steps)}"


def _table(rows: pd.DataFrame) -> Table:
    frame = rows if isinstance(rows.index, pd.RangeIndex) else rows.reset_index()
    first = frame.head(ROWS_SHOWN).itertuples(index=False, name=None)
    cells = tuple(tuple(_cell(value) for value in row) for row in first)
    return Table(tuple(_clean(str(column)) for column in frame.columns), cells, len(frame))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None or value is pd.NA else printable(str(value), CELL_CHARS)


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
        *([f"Cases like it: {', '.join(item.cases)}"] if item.cases else []),
    ]
    return _shown(item.id, f"{item.id} {item.optimization}", lines)


def _hypothesis(record: HypothesisRecord, first: CitedRecord | None = None) -> Shown:
    """A hypothesis as it stands now; ``first``: as an earlier diagnosis of the session judged it."""
    where = f" on {rank_list(record.ranks)}" if record.ranks else ""
    before = first.status if isinstance(first, HypothesisRecord) else record.status
    lines = [
        *([record.judged_by] if record.judged_by else []),
        *([f"Would decide: {record.next_test}"] if record.next_test else []),
        *([f"It was {before} in an earlier diagnosis of this session."] if before != record.status else []),
    ]
    title = f"{record.id} {cause_title(record.cause, record.mechanism)}{where}: {record.status}"
    return _shown(record.id, title, lines)


def _case(record: CaseRecord) -> Shown:
    whole = recalled_case(record)
    fields = case_fields(whole) if whole else {"Source": record.url}
    lines = [
        f"A {'private' if record.private else 'public'} case; it suggests, it is no evidence for this run.",
        f"Cause there: {cause_title(record.cause, None)}",
        *(f"{title}: {text}" for title, text in fields.items()),
        f"Similar because: {record.why} (similarity {record.similarity:.2f})",
    ]
    return _shown(record.id, f"{record.id} {record.title}", lines)


def _check(check: CheckRecord) -> Shown:
    open_lines = [f"Reason: {check.reason}", f"Needs: {check.needs}"] if check.status == "cannot_answer" else []
    return _shown(check.analyzer, check.analyzer, [f"Outcome: {plain(check.status)}", *check.text, *open_lines])


def _cause(name: str) -> Shown:
    cause = causes()[name]
    mechanisms = ", ".join(cause_title(name, each) for each in cause.mechanisms)
    lines = [
        f"Family: {FAMILY_TITLES.get(cause.family, cause.family)}",
        f"Signs: {'; '.join(cause.signals)}",
        f"What helps: {'; '.join(cause.optimizations)}",
        *([f"Mechanisms: {mechanisms}"] if mechanisms else []),
    ]
    return _shown(name, cause_heading(name, None), lines)


def similar_cases(discussion: Discussion, question: Question) -> str:
    """Cases like what the question describes, else those recalled for this run."""
    match = DESCRIBED.search(question.text)
    if match and not THIS_RUN.match(match["what"]):
        return for_text(discussion, match["what"]) or wording("not_close")
    records = sorted(discussion.diagnosis.cases, key=lambda record: -record.similarity)[:CASES_LISTED]
    if not records:
        note = discussion.diagnosis.recall_note
        return paragraph(["No similar public case was recalled for this run.", f"`{note}`" if note else ""])
    return _list(similar_cases_title(records), records)


def for_text(discussion: Discussion, text: str) -> str:
    """Cases close to a free text as a list; empty when recall abstains."""
    records = [discussion.case(hit) for hit in discussion.recall(CaseQuery(text=text)).hits[:CASES_LISTED]]
    if not records:
        return ""
    whose = "Cases" if any(record.private for record in records) else "Public cases"
    return _list(f"{whose} close to these words", records)


def _list(title: str, records: Sequence[CaseRecord]) -> str:
    rows = []
    for each in records:
        cause = f"Cause there: {cause_title(each.cause, None)}."
        rows.append(paragraph([quoted_from(each.title, each.id), cause, each.url, f"[{each.id}]"]))
    return blocks([f"{title}; they suggest, they are no evidence for this run.", bullets(rows)])

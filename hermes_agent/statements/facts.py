"""A diagnosis as facts for a model: fenced, bounded, and with the id of every figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hermes_agent.evidence.cases import case_fields, recalled_case
from hermes_agent.evidence.citations import cited_ids, written
from hermes_agent.llm.sanitize import fence, one_line
from hermes_agent.model.diagnosis import CaseRecord, CauseRecord, Diagnosis, EvidenceRecord
from hermes_agent.model.display import cause_title, on_ranks, plain, rank_count, rank_list
from hermes_agent.statements.context import Truth, claim_of
from tools.knowledge.taxonomy import causes

LINE_CHARS = 1_200
CASE_FIELDS = ("Symptom", "Optimization", "Effect")
DEPTHS = (6, 3, 2, 1)  # numbers of causes, tried until the facts are short enough
SAID: Mapping[Truth, str] = MappingProxyType({"absent": "Claim absent", "open": "Unknown"})
HOST_IN_FILE = re.compile(r"^(?P<host>[A-Za-z][\w.-]*?)_\d+\.\d+(?:\.\d+)*\.pt\.trace\.json")


def answer_facts(diagnosis: Diagnosis, limit_chars: int) -> dict[str, str]:
    """The variables of the prompt ``answer_facts``, with as many causes as fit into ``limit_chars``, at least one."""
    for depth in DEPTHS:
        facts = _facts(diagnosis, depth)
        if sum(map(len, facts.values())) <= limit_chars:
            break
    return facts


def short_facts(diagnosis: Diagnosis, limit_chars: int) -> str:
    """The diagnosis as the start of a conversation; tools give the rest."""
    steps = diagnosis.run.steps
    lines = [
        f"The run has {_ranks(diagnosis)} and the steps {min(steps)} to {max(steps)}.",
        *_diagnosis_lines(diagnosis, DEPTHS[0]),
        *(f"Could not be checked: {line}" for line in _not_checked(diagnosis)),
    ]
    return _fenced(lines, "the diagnosis", limit_chars)


def _ranks(diagnosis: Diagnosis) -> str:
    read = rank_list(diagnosis.run.ranks)
    return read if diagnosis.run.screening is None else f"{rank_count(diagnosis.run)}: {read}; what is said is of these"


def hosts_of(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Host names of traces, of records and in names of trace files, to be masked before anything is sent."""
    run = diagnosis.run
    names = (source.path.rsplit("/", 1)[-1] for source in run.sources)
    in_names = [match["host"] for name in names if (match := HOST_IN_FILE.match(name))]
    return tuple(dict.fromkeys([*in_names, *run.hosts, *(run.recorded.hosts if run.recorded else ())]))


def _facts(diagnosis: Diagnosis, depth: int) -> dict[str, str]:
    lines = _diagnosis_lines(diagnosis, depth)
    not_checked = _not_checked(diagnosis)
    ids = dict.fromkeys(name for line in lines for name in cited_ids(line))
    evidence = [_evidence(record) for record in diagnosis.evidence if record.id in ids]
    cases = [_case(record) for record in diagnosis.cases[:depth]]
    return {
        "diagnosis": _fenced(lines, "diagnosis"),
        "evidence": _fenced(evidence, "evidence"),
        "cases": _fenced(cases, "cases") if cases else "none is close enough",
        "not_checked": _fenced(not_checked, "not checked") if not_checked else "nothing: every question was answered",
    }


def _diagnosis_lines(diagnosis: Diagnosis, depth: int) -> list[str]:
    lines = [f"Verdict: {diagnosis.verdict}", *diagnosis.answer]
    for place, cause in enumerate(diagnosis.causes[:depth], start=1):
        title = cause_title(cause.cause, cause.mechanism)
        lines.append(
            f"Cause {place}, {_id(cause)}: {title}{on_ranks(cause.ranks, (), cause.stands_for)}. {cause.claim}"
        )
        lines += [f"Detail of cause {place}: {detail}" for detail in cause.details]
        lines += [f"Against cause {place}: {contrary}" for contrary in cause.against]
    for item in diagnosis.advice[:depth]:
        lines.append(f"Advice [{item.id}] for {plain(item.for_)}: {item.optimization}. How: {item.how}")
        if item.text:
            lines.append(f"Predicted: {item.text}")
    if not diagnosis.causes:
        lines += [text for check in diagnosis.checks if check.status == "clean" for text in check.text[:1]]
    lines += _claims(diagnosis)
    if diagnosis.comparison is not None:
        lines += [f"Against the baseline: {diagnosis.comparison.headline}", *diagnosis.comparison.changes]
    return lines


def _id(cause: CauseRecord) -> str:
    return f"{cause.cause}:{cause.mechanism}" if cause.mechanism else cause.cause


def _claims(diagnosis: Diagnosis) -> list[str]:
    """The causes that may be called absent, and those that are unknown."""
    of_cause = {name: claim_of(diagnosis, name) for name in causes()}
    names = {said: [name for name in of_cause if of_cause[name] == holds] for holds, said in SAID.items()}
    return [f"{said}: {', '.join(found) or 'none'}" for said, found in names.items()]


def _evidence(record: EvidenceRecord) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in record.arguments.items())
    run = " on the baseline" if record.run == "baseline" else ""
    return f"{record.id}: {written(record.value, record.unit)} = {record.metric}({arguments}){run}"


def _case(record: CaseRecord) -> str:
    case = recalled_case(record)
    fields = case_fields(case) if case else {}
    shown = " ".join(f"{name}: {fields[name]}" for name in CASE_FIELDS if name in fields)
    return f"[{record.id}] {record.title}. Cause there: {plain(record.cause)}. {shown}"


def _not_checked(diagnosis: Diagnosis) -> list[str]:
    return [
        f"{check.analyzer}: {check.reason.rstrip('.')}. Needs {check.needs.rstrip('.')}."
        for check in diagnosis.checks
        if check.status == "cannot_answer"
    ]


def _fenced(lines: Iterable[str] | Sequence[str], label: str, limit_chars: int | None = None) -> str:
    text = "\n".join(one_line(line, LINE_CHARS) for line in lines)
    if limit_chars is not None and len(text) > limit_chars:
        text = text[:limit_chars].rpartition("\n")[0] + "\n(cut; the tools give the rest)"
    return fence(text, label)

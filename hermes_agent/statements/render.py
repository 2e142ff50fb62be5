"""Statements as text: slots filled with value, unit, label and citation; what a cause's claim says, in our words."""

from __future__ import annotations

from hermes_agent.evidence.figures import written
from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord, EvidenceRecord
from hermes_agent.model.display import cause_title, rank_list
from hermes_agent.statements.checks import template_of
from hermes_agent.statements.context import CheckContext, checks_of
from hermes_agent.statements.record import Statement
from hermes_agent.statements.slots import Slot, Template


def rendered(statement: Statement, context: CheckContext) -> str:
    """A checked statement as one paragraph."""
    template = template_of(statement)
    shown = template.values("evidence", "advice", "case")
    text = "".join(_part(part, place, template, context) for place, part in enumerate(template.parts)).strip()
    if extra := [f"[{name}]" for name in dict.fromkeys(statement.evidence) if name not in shown]:
        end = text[-1:] if text[-1:] in ".?!" else ""
        text = f"{text.removesuffix(end)} (see {', '.join(extra)}){end}".strip()
    text = text[:1].upper() + text[1:]
    text = text if not text or text[-1] in ".?!" else f"{text}."
    if statement.kind == "cause" and statement.cause is not None:
        return f"{_claim(statement, statement.cause, context)} {text}".strip()
    general = statement.kind == "explanation" and statement.cause and context.found(statement.cause) is None
    return f"In general, not about this run: {text}" if general else text


def _part(part: str | Slot, place: int, template: Template, context: CheckContext) -> str:
    if isinstance(part, str):
        return part
    index = context.index
    match part.kind:
        case "evidence":
            return _figure(index.evidence[part.value], template, context)
        case "advice":
            item = index.advice[part.value]
            words = {"how": item.how, "risk": item.risk, "verify": item.verify}.get(part.field, item.optimization)
            return f"{_lower(words.rstrip('.')) if place else words.rstrip('.')} [{part.value}]"
        case "case":
            return f'the similar case "{index.cases[part.value].title}" [{part.value}]'
        case "cause":
            return _title(part.value, context)
        case "name":
            return quoted(part.value)
        case "open":
            check = context.open_check(part.value)
            assert check is not None
            return f"`{part.value}`, which could not be checked ({_why(check)})"
        case "verdict":
            return context.diagnosis.verdict
        case "than":
            first, second = (index.evidence[name] for name in template.values("evidence"))
            return _than(first, second)
        case _:
            return f"{part.kind} {part.value}"


def _figure(record: EvidenceRecord, template: Template, context: CheckContext) -> str:
    """Value, unit and id, with the rank, the step and the run where the text does not name them."""
    places = []
    if record.arguments.get("rank") is not None and not template.values("rank") and len(context.index.ranks) > 1:
        places.append(f"rank {record.arguments['rank']}")
    if record.arguments.get("step") is not None and not template.values("step"):
        places.append(f"step {record.arguments['step']}")
    if record.arguments.get("bound") is not None:
        places.append(f"{record.arguments['bound']} end of the range")
    if record.run == "baseline":
        places.append("baseline")
    return f"{written(record.value, record.unit)} [{record.id}]" + (f" ({', '.join(places)})" if places else "")


def _than(first: EvidenceRecord, second: EvidenceRecord) -> str:
    if written(first.value, first.unit) == written(second.value, second.unit):
        return "the same as"
    more, less = ("longer", "shorter") if first.unit in ("ns", "us", "ms", "s") else ("more", "less")
    return f"{more if first.value > second.value else less} than"


def _title(name: str, context: CheckContext) -> str:
    cause, _, mechanism = name.partition(":")
    found = context.found(name)
    return cause_title(cause, found.mechanism if found else mechanism or None)


def _claim(statement: Statement, name: str, context: CheckContext) -> str:
    """The sentence that says whether the cause is present, absent or open, with its figures."""
    title = _title(name, context)
    title = title[:1].upper() + title[1:]
    found = context.found(name)
    if statement.claim == "present" and found is not None:
        place = context.diagnosis.causes.index(found) + 1
        return f"Cause {place}: {title} on {rank_list(found.ranks)}{_cost(found, context)}."
    checks = checks_of(context.diagnosis, name)
    names = ", ".join(f"`{check.analyzer}`" for check in checks)
    if statement.claim == "absent":
        return f"{title}: checked and not found ({names})."
    reasons = [_why(check) for check in checks if check.status == "cannot_answer"]
    return f"{title}: could not be checked ({reasons[0] if reasons else 'no check looks for it'})."


def _why(check: CheckRecord) -> str:
    """Why a check could not be answered, and what it needs."""
    return "; ".join(_lower(part.rstrip(".")) for part in (check.reason, check.needs) if part)


def _cost(found: CauseRecord, context: CheckContext) -> str:
    index, step = context.index.evidence, context.diagnosis.step_time_ms.evidence
    impact = next((index[n] for n in found.evidence if n in index and index[n].metric == "cause_impact_ms"), None)
    if impact is None:
        return ""
    whole = f" of each {written(index[step[0]].value, index[step[0]].unit)} [{step[0]}] step" if step else ""
    return f" ({written(impact.value, impact.unit)} [{impact.id}]{whole})"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text

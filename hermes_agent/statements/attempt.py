"""Statements of a model that pass the checks: one try, one repair, the rest dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hermes_agent.evidence.citations import cited_ids, written
from hermes_agent.evidence.ledger import quoted
from hermes_agent.llm.budget import Spent
from hermes_agent.llm.model import Degraded, Message
from hermes_agent.llm.sanitize import fence, one_line
from hermes_agent.llm.structured import Structured
from hermes_agent.llm.tool_loop import DialogueEvent
from hermes_agent.model.diagnosis import CauseRecord, CheckRecord, EvidenceRecord
from hermes_agent.model.display import PART_TITLES, cause_title, on_ranks, rank_list
from hermes_agent.model.events import AnswerDelta, AnswerRejected, Emit, Notice
from hermes_agent.statements.checks import faults_of, is_guess, template_of
from hermes_agent.statements.context import CheckContext, checks_of
from hermes_agent.statements.graph import hypothesis_of, untested
from hermes_agent.statements.record import MOST_STATEMENTS, Statement, Statements
from hermes_agent.statements.slots import Slot, Template
from hermes_agent.statements.wording import is_predicted
from prompts.load import render
from tools.errors import ModelError

TRIES = 2
MOST_COMPLAINTS = 12
REASON_CHARS = 240
ARGUMENT_CHARS = 80
UNCITED = "the answer cites nothing of this run, so nothing in it can be checked; cite what it rests on"
GUESS = "The model's guess:"
QUOTED = re.compile(r"['\"{].*['\"}]", re.DOTALL)  # what a complaint repeats of a model's text
Ask = Callable[[Sequence[Message]], Structured[Statements]]


def rendered(statement: Statement, context: CheckContext) -> str:
    """A checked statement as one paragraph."""
    template = template_of(statement)
    shown = template.values("evidence", "advice", "case")
    text = "".join(_part(part, place, template, context) for place, part in enumerate(template.parts)).strip()
    if extra := [f"[{name}]" for name in dict.fromkeys(statement.evidence) if name not in shown]:
        end = text[-1:] if text[-1:] in ".?!" else ""
        see = ", ".join(extra)
        text = f"{text.removesuffix(end)} (see {see}){end}" if text else f"See {see}"
    text = text[:1].upper() + text[1:]
    text = text if not text or text[-1] in ".?!" else f"{text}."
    asked = statement.kind == "unknown" and text.endswith("?")
    if statement.cause is None or statement.kind not in ("causal", "unknown") or asked:
        return text
    if is_guess(statement, context):
        return _guess(statement, statement.cause, context)
    if statement.claim == "about":
        return text if context.found(statement.cause) else f"In general, not about this run: {text}"
    return f"{_claim(statement, statement.cause, context)} {text}".strip()


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
    if record.arguments.get("statistic") not in (None, "mean", "median"):
        places.append(str(record.arguments["statistic"]))
    if record.arguments.get("bound") is not None:
        places.append(f"{record.arguments['bound']} end of the range")
    if record.run == "baseline":
        places.append("baseline")
    if fix := _unnamed_fix(record, template, context):
        places.append(f"after fixing {fix}")
    return f"{written(record.value, record.unit)} [{record.id}]" + (f" ({', '.join(places)})" if places else "")


def _unnamed_fix(record: EvidenceRecord, template: Template, context: CheckContext) -> str:
    """The causes without which a figure is predicted, in words; "" where it is measured or the text names them."""
    if not is_predicted(record):
        return ""
    cause, mechanism = (str(record.arguments.get(name) or "") for name in ("cause", "mechanism"))
    together = str(record.arguments.get("causes") or "")
    if not cause and not together:
        return ""
    keys = (together or f"{cause}/{mechanism}").split(",")
    advised = {context.index.advice[name].for_ for name in template.values("advice") if name in context.index.advice}
    named = {name.partition(":")[0] for name in template.values("cause")} | advised
    parts = [key.strip().partition("/") for key in keys]
    if {each[0] for each in parts} <= named:
        return ""
    return " and ".join(cause_title(each[0], each[2] or None) for each in parts)


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
        spent = f", in {PART_TITLES[statement.part]}" if statement.part else ""
        where = on_ranks(found.ranks, (), found.stands_for)
        return f"Cause {place}: {title}{where}{spent}{_cost(found, context)}."
    checks = checks_of(context.diagnosis, name)
    names = ", ".join(f"`{check.analyzer}`" for check in checks)
    if statement.claim == "absent":
        return f"{title}: checked and not found ({names})."
    return f"{title}: could not be checked ({_open_because(name, context)})."


def _open_because(name: str, context: CheckContext) -> str:
    """The reason why a cause is open: its check, what would test its hypothesis, or that nothing looks for it."""
    checks = checks_of(context.diagnosis, name)
    if reasons := [_why(check) for check in checks if check.status == "cannot_answer"]:
        return reasons[0]
    if (hypothesis := untested(context.diagnosis, name)) is not None and hypothesis.next_test:
        return f"{hypothesis.id} is {hypothesis.status}: {_lower(hypothesis.next_test.rstrip('.'))}"
    return "no check looks for it" if not checks else "what was found of it does not reach the causes"


def _guess(statement: Statement, name: str, context: CheckContext) -> str:
    """The sentence of a guess: ours, without a figure, and with what keeps it a guess."""
    ranks = f" on {rank_list(statement.ranks)}" if statement.ranks else ""
    part = f", in {PART_TITLES[statement.part]}" if statement.part else ""
    hypothesis = hypothesis_of(context.diagnosis, name)
    known = f" ({hypothesis.id}, {hypothesis.status})" if hypothesis is not None else ""
    why = _open_because(name, context)
    return f"{GUESS} {_title(name, context)}{ranks}{part}{known}. Not established by this run: {why}."


def _why(check: CheckRecord) -> str:
    """The reason why a check could not be answered, and what it needs."""
    return "; ".join(_lower(part.rstrip(".")) for part in (check.reason, check.needs) if part)


def _cost(found: CauseRecord, context: CheckContext) -> str:
    step_time = context.diagnosis.step_time_ms
    index, step = context.index.evidence, step_time.evidence if step_time else []
    impact = next((index[n] for n in found.evidence if n in index and index[n].metric == "cause_impact_ms"), None)
    if impact is None:
        return ""
    whole = f" of each {written(index[step[0]].value, index[step[0]].unit)} [{step[0]}] step" if step else ""
    return f" ({written(impact.value, impact.unit)} [{impact.id}]{whole})"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


@dataclass(frozen=True)
class Accepted:
    """Paragraphs that passed, with the statements behind them; ``note`` is for people when some were left out."""

    paragraphs: tuple[str, ...]
    statements: tuple[Statement, ...]
    note: str = ""

    @property
    def text(self) -> str:
        """The paragraphs as one text."""
        return "\n\n".join(self.paragraphs)


@dataclass(frozen=True)
class Declined:
    """There is no text of the model's to show; ``reason`` says why in one sentence."""

    reason: str


@dataclass
class _Attempt:
    """The statements that passed so far, and the faults of the last answer."""

    emit: Emit
    passed: dict[str, Statement] = field(default_factory=dict)  # by rendered text
    shown: int = 0
    complaints: list[tuple[str, str]] = field(default_factory=list)  # what is wrong, and with which text

    def take(self, statements: Sequence[Statement], context: CheckContext) -> None:
        """Check each statement; show those that pass once one of them cites something."""
        self.complaints = []
        for statement in statements[:MOST_STATEMENTS]:
            if faults := faults_of(statement, context):
                self.complaints.append(("; ".join(faults), statement.text or str(statement.cause)))
            else:
                self.passed.setdefault(rendered(statement, context), statement)
        if not self.grounded:
            self.complaints = self.complaints or [(UNCITED, "all")]
            return
        for text in list(self.passed)[self.shown :]:
            self.emit(AnswerDelta(f"{text}\n\n"))
        self.shown = len(self.passed)

    @property
    def grounded(self) -> bool:
        """Return whether something that passed is about this run."""
        return any(_about_run(text, statement) for text, statement in self.passed.items())

    def note(self) -> str:
        """A sentence for people about what was left out; of its text at most a single word is quoted."""
        if not self.complaints:
            return ""
        many = len(self.complaints)
        count = f"{many} statements of the model were" if many > 1 else "A statement of the model was"
        reason = QUOTED.sub(lambda found: found[0] if len(found[0].split()) == 1 else "...", self.complaints[0][0])
        return f"{count} left out: {one_line(reason, REASON_CHARS).rstrip('.')}."


def _about_run(text: str, statement: Statement) -> bool:
    """Return whether a paragraph that passed says something of this run; a guess does not."""
    claims = statement.kind == "causal" and statement.claim in ("present", "absent")
    unknown = statement.kind == "unknown" and not text.endswith("?")
    return bool(cited_ids(text)) or ((claims or unknown) and not text.startswith(GUESS))


def checked_statements(
    ask: Ask, messages: Sequence[Message], context: Callable[[], CheckContext], emit: Emit
) -> Accepted | Declined:
    """The statements of the model that pass; those that fail are sent back once and then dropped. Raises Cancelled."""
    attempt, reason, note = _Attempt(emit), "", ""
    for _ in range(TRIES):
        try:
            result = ask(messages)
        except ModelError as error:
            reason = str(error)
            break
        attempt.take(result.value.statements, context())
        note = result.note
        if not attempt.complaints:
            break
        messages = (*result.messages, Message("user", render("repair", complaints=_complaints(attempt.complaints))))
    if attempt.grounded:
        notes = (attempt.note(), note, reason)
        return Accepted(tuple(attempt.passed), tuple(attempt.passed.values()), " ".join(each for each in notes if each))
    declined = Declined(reason or attempt.note())
    emit(AnswerRejected(declined.reason))
    return declined


def _complaints(complaints: Sequence[tuple[str, str]]) -> str:
    lines = [
        f"- {one_line(what, 2 * REASON_CHARS)}. Statement: {one_line(text, 2 * REASON_CHARS)}"
        for what, text in complaints[:MOST_COMPLAINTS]
    ]
    return fence("\n".join(lines), "complaints of the checker")


def passing_on(emit: Emit) -> Callable[[DialogueEvent], None]:
    """Shows frontends what an endpoint cannot do, and nothing that a model writes."""

    def pass_on(event: DialogueEvent) -> None:
        match event:
            case Degraded(feature, detail):
                emit(Notice(f"The endpoint works without {feature}: {one_line(detail, REASON_CHARS)}"))
            case _:  # the caller of the tools reports their calls
                pass

    return pass_on


def spent_line(name: str, spent: Spent, currency: str) -> str:
    """The cost of a model's text, for people."""
    about = "about " if spent.estimated else ""
    tokens = spent.prompt_tokens + spent.completion_tokens
    money = "" if spent.cost is None else f", {spent.cost:.4f} {currency}"
    calls = "1 call" if spent.calls == 1 else f"{spent.calls} calls"
    return f"{one_line(name, ARGUMENT_CHARS)}: {calls}, {about}{tokens:,} tokens, {spent.seconds:.1f} s{money}"

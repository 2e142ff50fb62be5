"""The tools a model may ask for about a run under discussion: those of the run, and those of the diagnosis.

What a tool measures is numbered on in the discussion's ledger, so that an answer can cite it and ``show`` can show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pydantic import Field

from hermes_agent.model.display import plain
from hermes_agent.questions.advice import against_baseline, summarise, what_to_change
from hermes_agent.questions.advice import what_if as predicted
from hermes_agent.questions.cases import for_text
from hermes_agent.questions.causes import about, unanswered_checks
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.evidence_lookup import look_up as behind
from hermes_agent.questions.question import Question
from hermes_agent.questions.subjects import Subject
from tools.agent_tools.registry import RUN_TOOLS
from tools.agent_tools.tool import Arguments, NoArguments, ReadTool, Tool, read_tool
from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.knowledge.taxonomy import causes
from tools.views.profile import Profile

ANYTHING = Question("", "")
OF_ELSEWHERE = ("similar_cases", "advice")  # what they name is not what this run has
TEXT_CHARS = 20_000
MOST_TEXTS = 32


def diagnosis_summary(discussion: Discussion, _: NoArguments) -> str:
    """The diagnosis in short: verdict, causes with their figures, the first change to make, what is open."""
    return f"Verdict: {discussion.diagnosis.verdict}\n{summarise(discussion, ANYTHING)}"


class OfCause(Arguments):
    """One cause by its id."""

    cause: str = Field(max_length=60, description="id of a cause, for example operator_dispatch")
    mechanism: str | None = Field(default=None, max_length=60, description="how it happens, to narrow the cause")


def explain_cause(discussion: Discussion, asked: OfCause) -> str:
    """What speaks for and against one cause: found, small, looked for and absent, open, or not looked for at all."""
    return about(discussion, _subject(asked))


def what_if(discussion: Discussion, asked: OfCause) -> str:
    """What a step would take with one cause gone, by replay of the recorded steps."""
    return predicted(discussion, Question("", "", subject=_subject(asked)))


class OfAnyCause(Arguments):
    """One cause, or all."""

    cause: str | None = Field(default=None, max_length=60, description="id of a cause; without it all causes found")


def advice(discussion: Discussion, asked: OfAnyCause) -> str:
    """What to change, most gain for the effort first: how, predicted gain, risk and how to verify."""
    subject = _subject(OfCause(cause=asked.cause)) if asked.cause else None
    return what_to_change(discussion, Question("", "", subject=subject))


def what_is_missing(discussion: Discussion, _: NoArguments) -> str:
    """What could not be checked, why, and what to record so that it can be."""
    return unanswered_checks(discussion, ANYTHING)


def baseline_comparison(discussion: Discussion, _: NoArguments) -> str:
    """What changed against the baseline run, if the run was diagnosed with one."""
    return against_baseline(discussion, ANYTHING)


class OfText(Arguments):
    """A description in words."""

    text: str = Field(min_length=3, max_length=500, description="what is seen: operation, symptom, hardware")


def similar_cases(discussion: Discussion, asked: OfText) -> str:
    """Public cases close to a description. They suggest what to try and are never evidence for this run."""
    return for_text(discussion, asked.text) or "No public case is close enough to that description."


class OfId(Arguments):
    """Anything that has an id or a name."""

    id: str = Field(max_length=80, description="E7, A1, C2, the name of a check such as io.data_loader, or of a cause")


def rows_behind(discussion: Discussion, asked: OfId) -> str:
    """What stands behind an id: a figure measured again with its rows, a case, advice or a check in full.

    Figures inside rows have no id of their own and cannot be cited; only the figure of the id itself can.
    """
    shown = behind(discussion, asked.id)
    lines = [shown.title, *(line for line in shown.lines if not line.startswith("Source: "))]
    if shown.table is not None:
        lines.append(f"Rows, {len(shown.table.rows)} of {shown.table.total}:")
        lines.append(" | ".join(shown.table.columns))
        lines += [" | ".join(row) for row in shown.table.rows]
    return "\n".join(lines)


DIAGNOSIS_TOOLS: tuple[ReadTool[Discussion], ...] = (
    read_tool(diagnosis_summary, NoArguments),
    read_tool(explain_cause, OfCause),
    read_tool(what_if, OfCause),
    read_tool(advice, OfAnyCause),
    read_tool(what_is_missing, NoArguments),
    read_tool(baseline_comparison, NoArguments),
    read_tool(similar_cases, OfText),
    read_tool(rows_behind, OfId),
)


def tools_for(discussion: Discussion) -> dict[str, Tool]:
    """All tools by name, ready to be called on this discussion."""
    run = _MeasuredRun(discussion)
    tools = [tool.bind(discussion) for tool in DIAGNOSIS_TOOLS] + [tool.bind(run) for tool in RUN_TOOLS]
    return {tool.name: tool for tool in tools}


def remembering(tools: Mapping[str, Tool], texts: list[str]) -> dict[str, Tool]:
    """The same tools; what they answer about the run is added to ``texts``, what they say of cases is not."""
    return {name: replace(tool, function=_remembering(tool, texts)) for name, tool in tools.items()}


def _remembering(tool: Tool, texts: list[str]) -> Callable[[Arguments], str]:
    def call(asked: Arguments) -> str:
        text = tool.function(asked)
        of_case = isinstance(asked, OfId) and asked.id.strip("[ ").upper()[:1] in ("A", "C")
        if tool.name not in OF_ELSEWHERE and not of_case:
            texts.append(text[:TEXT_CHARS])
            del texts[:-MOST_TEXTS]
        return text

    return call


def _subject(asked: OfCause) -> Subject:
    known = causes().get(asked.cause)
    if known is None:
        raise UsageError(f"there is no cause {asked.cause!r}; the causes are {', '.join(causes())}")
    if asked.mechanism is not None and asked.mechanism not in known.mechanisms:
        have = ", ".join(known.mechanisms) or "none"
        raise UsageError(f"{asked.cause} has no mechanism {asked.mechanism!r}; it has {have}")
    return Subject(plain(asked.mechanism or asked.cause), (asked.cause,), asked.mechanism)


@dataclass(frozen=True)
class _MeasuredRun:
    """The run of a discussion as the tools of ``tools.agent_tools.registry`` want it."""

    discussion: Discussion

    def profile(self) -> Profile:
        return self.discussion.material.profile()

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        given = {name: value for name, value in arguments.items() if value is not None}  # else the same gets two ids
        fact = self.discussion.measure(metric, **given)
        if not math.isfinite(fact.value):
            raise UsageError(f"nothing was recorded that {metric} could be measured on")
        return fact

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = ()) -> str:
        return self.discussion.say(template, *facts, names=names)

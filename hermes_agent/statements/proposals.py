"""The configured model as a proposer of hypotheses: ids of causes and tests in a form, and nothing of its words."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import Limits
from hermes_agent.llm.endpoint import capabilities_of, connect, new_budget, span_log
from hermes_agent.llm.model import ChatModel, Message
from hermes_agent.llm.sanitize import fence, one_line
from hermes_agent.llm.structured import ask_structured
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, Notice
from hermes_agent.questions.material import never
from hermes_agent.statements.answer import answer_tokens
from hermes_agent.statements.attempt import passing_on
from hermes_agent.statements.facts import hosts_of
from hermes_agent.workflow.proposals import MOST_PROPOSED, Proposal, Proposals, Proposer
from prompts.load import render
from tools.errors import ModelError
from tools.knowledge.hypothesis_tests import tests_of
from tools.knowledge.taxonomy import causes

LEAD_CHARS = 1_000
REASON_CHARS = 240


class ProposedCause(BaseModel):
    """One hypothesis."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cause: str = Field(description="id of a listed cause")
    test: str = Field(default="", description="one of its listed tests to begin with, or empty")


class ProposedCauses(BaseModel):
    """The whole answer of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    proposals: list[ProposedCause]


def proposals_for(settings: Settings) -> Proposals | None:
    """A function that gives the configured model's proposer for a diagnosis; None when no model is configured."""
    if settings.llm.model is None:
        return None

    def of(diagnosis: Diagnosis, emit: Emit) -> Proposer:
        model = connect(settings, hosts=hosts_of(diagnosis), spans=span_log(settings))
        assert model is not None
        return proposer_of(model, settings, emit)

    return of


def proposer_of(model: ChatModel, settings: Settings, emit: Emit) -> Proposer:
    """The proposer of a model, within the budget of one question; a model that gives no list proposes nothing."""
    window = capabilities_of(settings).context_window
    limits = Limits(context_tokens=window, max_answer_tokens=answer_tokens(window))

    def propose(lead: str, known: Sequence[str]) -> Sequence[Proposal]:
        asked = render(
            "hypotheses",
            most=MOST_PROPOSED,
            lead=fence(one_line(lead, LEAD_CHARS), "the lead"),
            known=", ".join(known) or "none",
            causes="\n".join(_line(cause) for cause in causes() if cause not in known),
        )
        try:
            budget, listen = new_budget(settings), passing_on(emit)
            messages = (Message("user", asked),)
            answer = ask_structured(model, messages, ProposedCauses, budget, never, limits=limits, emit=listen)
        except ModelError as error:
            emit(Notice(f"The model proposed no hypothesis: {one_line(str(error), REASON_CHARS)}"))
            return ()
        return [Proposal(each.cause, each.test) for each in answer.value.proposals]

    return propose


def _line(cause: str) -> str:
    tests = dict.fromkeys(each.metric for each in tests_of(cause).tests)
    return f"- {cause}: {causes()[cause].name.phrase}; tests: {', '.join(tests) or 'none'}"

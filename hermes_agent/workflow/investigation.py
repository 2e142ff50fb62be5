"""The investigation: hypotheses on what is unexplained are proposed, tested and judged in bounded rounds.

A subgraph of the workflow: propose -> choose -> test (side by side) -> judge -> propose, until nothing is left to
propose or test. The state holds plain values; every node reads and writes it through pydantic.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import TypeAdapter

from hermes_agent.model.events import Emit, HypothesisJudged, ignore
from hermes_agent.workflow.proposals import announced, tested
from tools.analyzers.registry import all_checks
from tools.findings import Fact
from tools.judgement.hypotheses import Hypothesis, chosen, judged, propose
from tools.judgement.ranking import ranking
from tools.views.profile import Profile

MOST_ROUNDS = 6  # of propose, choose, test and judge; the table has at most three tests of a cause
MOST_TESTS = 8  # side by side in one round
MOST_SECONDS = 20.0  # no round begins later: each figure takes milliseconds, on the largest trace a second
RECURSION_LIMIT = 4 * MOST_ROUNDS + 6  # four nodes a round


@dataclass(frozen=True)
class Inquiry:
    """What an investigation works with: the run and its listener."""

    profile: Profile
    emit: Emit = ignore


class Outcome(TypedDict):
    """What one test gave: the figures of its ranks, or why there are none."""

    number: int  # of the hypothesis
    facts: list[dict[str, Any]]
    reason: str


class Investigation(TypedDict, total=False):
    """Hypotheses and outcomes as plain values."""

    hypotheses: list[dict[str, Any]]
    outcomes: Annotated[list[Outcome], operator.add]
    testing: list[int]  # numbers of the hypotheses to test in this round
    number: int  # set by Send
    round: int
    began: float


HYPOTHESES: TypeAdapter[list[Hypothesis]] = TypeAdapter(list[Hypothesis])
FACTS: TypeAdapter[list[Fact]] = TypeAdapter(list[Fact])


def stored(hypotheses: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """Hypotheses as plain values for the state."""
    values: list[dict[str, Any]] = HYPOTHESES.dump_python(list(hypotheses), mode="json")
    return values


def restored(values: Sequence[dict[str, Any]]) -> list[Hypothesis]:
    """Hypotheses of the state, validated."""
    return HYPOTHESES.validate_python(list(values))


def investigate(inquiry: Inquiry) -> list[dict[str, Any]]:
    """The hypotheses of a run as plain values, in the order in which they were proposed."""
    return Context().run(_invoked, inquiry)  # apart from the workflow, whose way of keeping states it would take over


def _invoked(inquiry: Inquiry) -> list[dict[str, Any]]:
    state = _compiled().invoke({}, config={"recursion_limit": RECURSION_LIMIT}, context=inquiry)
    found: list[dict[str, Any]] = state.get("hypotheses", [])
    return found


def _propose(state: Investigation, runtime: Runtime[Inquiry]) -> Investigation:
    profile, known = runtime.context.profile, restored(state.get("hypotheses", []))
    found = ranking(profile)
    new = propose(profile, found, all_checks(profile), known)
    for each in new:
        runtime.context.emit(HypothesisJudged(announced(each)))
    return {
        "hypotheses": stored([*known, *new]),
        "round": state.get("round", 0) + 1,
        "began": state.get("began", time.monotonic()),
    }


def _choose(state: Investigation) -> Investigation:
    return {"testing": [each.number for each in chosen(restored(state["hypotheses"]), MOST_TESTS)]}


def _tests(state: Investigation) -> list[Send] | str:
    """One branch for each test; none where nothing is left to test, or no time."""
    late = time.monotonic() - state["began"] > MOST_SECONDS
    if not state["testing"] or late or state["round"] > MOST_ROUNDS:
        return END
    return [Send("test", {"hypotheses": state["hypotheses"], "number": number}) for number in state["testing"]]


def _test(state: Investigation, runtime: Runtime[Inquiry]) -> Investigation:
    """Measure the figure of one hypothesis's next test; one that breaks gives no figure."""
    number = state["number"]
    hypothesis = restored(state["hypotheses"])[number - 1]
    found = tested(runtime.context.profile, hypothesis)
    if isinstance(found, str):
        return {"outcomes": [{"number": number, "facts": [], "reason": found}]}
    return {"outcomes": [{"number": number, "facts": FACTS.dump_python(list(found), mode="json"), "reason": ""}]}


def _judge(state: Investigation, runtime: Runtime[Inquiry]) -> Investigation:
    """Judge this round's outcomes, the last ones in the state, whatever order the branches ended in."""
    hypotheses = restored(state["hypotheses"])
    latest = {each["number"]: each for each in state["outcomes"][-len(state["testing"]) :]}
    for number in state["testing"]:
        facts, reason = latest[number]["facts"], latest[number]["reason"]
        outcome = FACTS.validate_python(facts) if facts else reason
        hypotheses[number - 1] = judged(runtime.context.profile, hypotheses[number - 1], outcome)
        runtime.context.emit(HypothesisJudged(announced(hypotheses[number - 1])))
    return {"hypotheses": stored(hypotheses)}


@lru_cache(maxsize=1)
def _compiled() -> CompiledStateGraph[Investigation, Inquiry, Investigation, Investigation]:
    graph: StateGraph[Investigation, Inquiry, Investigation, Investigation]
    graph = StateGraph(Investigation, context_schema=Inquiry)
    graph.add_node("propose", _propose)
    graph.add_node("choose", _choose)
    graph.add_node("test", _test)
    graph.add_node("judge", _judge)
    graph.add_edge(START, "propose")
    graph.add_edge("propose", "choose")
    graph.add_conditional_edges("choose", _tests, ["test", END])
    graph.add_edge("test", "judge")
    graph.add_edge("judge", "propose")
    return graph.compile(checkpointer=False)

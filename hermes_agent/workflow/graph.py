"""The nodes of the workflow: each asks the deterministic tools one thing and says what came out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from case_library.retrieval.query import CaseQuery
from hermes_agent.evidence.ledger import Ledger
from hermes_agent.evidence.numbers import without_citations
from hermes_agent.evidence.printable import printable
from hermes_agent.evidence.sentences import render
from hermes_agent.model.events import CauseRanked, CheckFinished, Notice, Stage, StageFinished, StageStarted
from hermes_agent.report.compose import Findings, compose
from hermes_agent.workflow.state import CheckSummary, State
from hermes_agent.workflow.workspace import Context, Workspace
from tools.analyzers.registry import ANALYZERS, Analyzer, analyzer, answer_instead, checks_of
from tools.comparison.compare import compare
from tools.findings import Check, cannot_answer
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking as ranked

LOG = logging.getLogger("hermes_dx.workflow")

Node = Callable[[State, Runtime[Context]], dict[str, Any]]
RECALLED_CAUSES = 2  # similar cases are looked up for this many causes
CASES_PER_CAUSE = 3
LONGEST_REASON = 300


def _staged(stage: Stage, work: Callable[[State, Workspace], tuple[dict[str, Any], str]]) -> Node:
    """A node that announces its stage, does the work and says in one line what came out."""

    def node(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
        emit = get_stream_writer()
        emit(StageStarted(stage))
        begun = time.perf_counter()
        update, note = work(state, runtime.context.workspace)
        emit(StageFinished(stage, time.perf_counter() - begun, note))
        return update

    return node


def _load(_: State, workspace: Workspace) -> tuple[dict[str, Any], str]:
    run = workspace.profile().run
    emit = get_stream_writer()
    for note in run.notes:
        emit(Notice(printable(note)))
    events = sum(len(rank.events) for rank in run.ranks)
    steps = {step.number for rank in run.ranks for step in rank.steps}
    return {}, f"{len(run.ranks)} rank(s), {len(steps)} step(s), {events:,} events"


def _run_stage(stage: str) -> Callable[[State, Workspace], tuple[dict[str, Any], str]]:
    def work(_: State, workspace: Workspace) -> tuple[dict[str, Any], str]:
        summaries: list[CheckSummary] = []
        for each in ANALYZERS:
            if each.stage == stage:
                summaries.extend(_run(each, workspace))
        return {"checks": summaries}, _tally(summaries)

    return work


def _tally(summaries: list[CheckSummary]) -> str:
    counts = {status: sum(1 for each in summaries if each["status"] == status) for status in ("found", "clean")}
    rest = len(summaries) - sum(counts.values())
    return f"{counts['found']} found, {counts['clean']} clean, {rest} cannot answer"


def _run(each: Analyzer, workspace: Workspace) -> list[CheckSummary]:
    """Runs one analyzer; one that breaks is reported as an open question, never as a healthy answer."""
    profile = workspace.profile()
    try:
        with workspace.analyzing:
            checks = checks_of(profile, each.name)
    except Exception as error:  # the dispatcher's boundary: one analyzer must not take the others with it
        LOG.exception("the analyzer %s failed", each.name)
        reason = printable(f"the analyzer stopped with {type(error).__name__}: {error}", LONGEST_REASON)
        question = cannot_answer(f"{each.family}.{each.name}", reason, "a report of this failure with its trace")
        checks = answer_instead(profile, each.name, (question,))
    workspace.add_checks(each.name, checks)
    emit = get_stream_writer()
    for check in checks:
        emit(CheckFinished(each.name, each.family, check.name, check.status, _line(check)))
    return [CheckSummary(analyzer=each.name, check=check.name, status=check.status) for check in checks]


def _line(check: Check) -> str:
    """One line on a check, without citations: ids are given out when the answer is written."""
    match check.status:
        case "found" if check.findings:
            return without_citations(render(check.findings[0].claim, Ledger()))
        case "found" | "clean" if check.support:
            return without_citations(render(check.support[0], Ledger()))
        case _:
            return check.reason


def fan_out(_: State) -> list[Send]:
    """One branch per family analyzer."""
    return [Send("family", {"analyzer": each.name}) for each in ANALYZERS if each.stage == "family"]


def family(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Runs the analyzer that the branch was sent with."""
    return {"checks": _run(analyzer(state["analyzer"]), runtime.context.workspace)}


def _families(state: State, _: Workspace) -> tuple[dict[str, Any], str]:
    return {}, _tally(state["checks"])


def _explain(_: State, workspace: Workspace) -> tuple[dict[str, Any], str]:
    ranking = ranked(workspace.profile())
    workspace.ranking = ranking
    emit = get_stream_writer()
    for place, each in enumerate(ranking.causes, start=1):
        finding = each.finding
        emit(
            CauseRanked(
                place,
                finding.cause,
                finding.mechanism,
                finding.family,
                each.impact_ms,
                each.impact_pct,
                finding.confidence,
                finding.ranks,
            )
        )
    causes = [each.finding.cause for each in ranking.causes]
    return {"verdict": ranking.verdict, "causes": causes}, f"{ranking.verdict}: {ranking.why}"


def _recall(_: State, workspace: Workspace) -> tuple[dict[str, Any], str]:
    ranking = workspace.ranking
    assert ranking is not None
    chosen = ranking.causes[:RECALLED_CAUSES]
    if not chosen:
        return {}, "no cause to look up"
    index = workspace.case_index()
    workspace.notes.extend(index.notes)
    for place, each in enumerate(chosen):
        workspace.recalls[place] = index.search(_query(each, workspace), CASES_PER_CAUSE)
    found = sum(len(recall.hits) for recall in workspace.recalls.values())
    return {}, f"{found} similar case(s)" if found else workspace.recalls[0].abstained


def _query(cause: RankedCause, workspace: Workspace) -> CaseQuery:
    finding = cause.finding
    devices = [device.name for rank in workspace.profile().run.ranks for device in rank.devices]
    return CaseQuery(
        causes=(finding.cause,),
        mechanisms=(finding.mechanism,) if finding.mechanism else (),
        families=(finding.family,),
        signals=finding.signals,
        hardware=devices[0] if devices else "",
    )


def _predict(_: State, workspace: Workspace) -> tuple[dict[str, Any], str]:
    """Predictions were made for the ranking; this stage compares with the baseline, if there is one."""
    baseline = workspace.baseline()
    if baseline is None:
        ranking = workspace.ranking
        assert ranking is not None
        replayed = sum(1 for each in ranking.causes if each.alone is not None)
        return {}, f"{replayed} of {len(ranking.causes)} cause(s) replayed"
    workspace.comparison = compare(baseline, workspace.profile())
    return {}, "compared with the baseline"


def _write(_: State, workspace: Workspace) -> tuple[dict[str, Any], str]:
    ranking = workspace.ranking
    assert ranking is not None
    baseline = workspace.baseline()
    diagnosis = compose(
        Findings(
            profile=workspace.profile(),
            checks=workspace.ordered_checks(),
            ranking=ranking,
            recalls=workspace.recalls,
            comparison=workspace.comparison,
            baseline=baseline.run if baseline else None,
            notes=workspace.notes,
        )
    )
    return {"diagnosis": diagnosis.model_dump(mode="json", by_alias=True)}, f"{len(diagnosis.evidence)} figures cited"


NODES: dict[str, Node] = {
    "load": _staged(Stage.LOAD, _load),
    "coarse": _staged(Stage.COARSE, _run_stage("coarse")),
    "inter_operator": _staged(Stage.INTER_OPERATOR, _run_stage("inter_operator")),
    "family": family,
    "families": _staged(Stage.FAMILIES, _families),
    "explain": _staged(Stage.EXPLAIN, _explain),
    "recall": _staged(Stage.RECALL, _recall),
    "predict": _staged(Stage.PREDICT, _predict),
    "write": _staged(Stage.WRITE, _write),
}


RECURSION_LIMIT = 25  # the longest path has nine nodes


def build() -> CompiledStateGraph[State, Context, State, State]:
    """The compiled workflow: load, coarse, inter-operator, fan out to the families, explain, recall, predict, write."""
    graph: StateGraph[State, Context, State, State] = StateGraph(State, context_schema=Context)
    for name, node in NODES.items():
        graph.add_node(name, node)  # type: ignore[call-overload]
    graph.add_edge(START, "load")
    graph.add_edge("load", "coarse")
    graph.add_edge("coarse", "inter_operator")
    graph.add_conditional_edges("inter_operator", fan_out, ["family"])
    graph.add_edge("family", "families")
    graph.add_edge("families", "explain")
    graph.add_edge("explain", "recall")
    graph.add_edge("recall", "predict")
    graph.add_edge("predict", "write")
    graph.add_edge("write", END)
    return graph.compile()


def config() -> dict[str, Any]:
    """How the graph is run: bounded. No ``max_concurrency``: LangGraph's own stream reader takes one of its places."""
    return {"recursion_limit": RECURSION_LIMIT}

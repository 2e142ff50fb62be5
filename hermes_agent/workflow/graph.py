"""The workflow: nodes that ask the deterministic tools one thing each, and the state that they pass on."""

from __future__ import annotations

import logging
import operator
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt

from case_library.retrieval.query import CaseQuery
from case_library.retrieval.recall import Recall
from hermes_agent.evidence.citations import without_citations
from hermes_agent.evidence.ledger import Ledger, render
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import NOT_LOOKED_UP, WantedSourceRecord
from hermes_agent.model.display import counted
from hermes_agent.model.events import CauseRanked, CheckFinished, Notice, Stage, StageFinished, StageStarted
from hermes_agent.report.compose import Findings, compose
from hermes_agent.report.records import untraced_note
from hermes_agent.workflow import deep_looks
from hermes_agent.workflow.investigation import Inquiry, investigate, restored
from hermes_agent.workflow.workspace import Workspace
from tools.analyzers.registry import CHECKS, affected_checks, answer_instead, check_of, in_order, keep_answers, spec_of
from tools.analyzers.support.spec import CheckSpec
from tools.comparison.compare import Comparison, compare
from tools.errors import HermesError, InputError
from tools.findings import Check, Finding
from tools.judgement.hypotheses import STATUSES, Hypothesis, by_status, with_hypotheses, worth_investigating
from tools.judgement.ranking import Ranking
from tools.judgement.ranking import ranking as ranked
from tools.judgement.wanted_source import wanted_source
from tools.knowledge.taxonomy import known_mechanism

LOG = logging.getLogger("hermes_dx.workflow")

RECALLED_CAUSES = 2  # similar cases are looked up for this many causes
CASES_PER_CAUSE = 3
LONGEST_REASON = 300
RECURSION_LIMIT = 40  # the longest path has 20 nodes: a source is attached, and all is asked again


def _latest(known: list[dict[str, str]], new: list[dict[str, str]]) -> list[dict[str, str]]:
    """Checks of both lists, the newer outcome of each."""
    return list({each["analyzer"]: each for each in (*known, *new)}.values())


class State(TypedDict, total=False):
    """Results of the nodes: plain values, and handles into the workspace for columnar data and findings."""

    key: str  # of what the diagnosis depends on, see ``workflow.stored``; a stored state of another key is not used
    analyzer: str  # set by Send: the one a family node has to run
    run: dict[str, object]
    checks: Annotated[list[dict[str, str]], _latest]  # what CheckFinished says, and the handle of the findings
    routes: list[dict[str, Any]]  # the decision on every deep look, with its reason
    look: str  # set by Send: the one that a look node has to take
    rank: int  # set by Send: on which rank
    looks: Annotated[list[dict[str, Any]], operator.add]  # what the looks showed: look, rank, sentence
    families_began: float  # Unix time: another process may go on after a kill
    verdict: str
    ranking: str
    causes: list[dict[str, object]]  # what CauseRanked says
    hypotheses: list[dict[str, Any]]  # as ``investigation.stored`` writes them
    interactive: bool  # a person can be asked for a source
    wanted: dict[str, Any] | None  # the source that would decide, see ``tools.judgement.wanted_source``
    attached: list[str] | None  # paths that a person gave for it; None: nobody was asked, or they added nothing
    refused: str  # why what a person gave added nothing
    recalls: list[str]  # by place in the ranking
    comparison: str
    notes: list[str]  # on the case library
    asked_again: list[str]  # checks that an attached source made run again
    diagnosis: dict[str, Any]


Update = tuple[State, str]  # what a stage learned, and one line about it
Work = Callable[[State, Workspace], Update]
Node = Callable[[State, Runtime[Workspace]], State]


def _staged(stage: Stage, work: Work) -> Node:
    """A node that announces its stage, does the work and reports it in one line."""

    def node(state: State, runtime: Runtime[Workspace]) -> State:
        runtime.stream_writer(StageStarted(stage))
        began = time.perf_counter()
        update, note = work(state, runtime.context)
        runtime.stream_writer(StageFinished(stage, time.perf_counter() - began, note))
        return update

    return node


def load(_: State, runtime: Runtime[Workspace]) -> State:
    """Wait for the run, which is being read since the workspace was made: the stage began there."""
    workspace, emit = runtime.context, runtime.stream_writer
    run = workspace.profile().run
    for note in run.notes:
        emit(Notice(printable(note)))
    steps = len({step.number for rank in run.ranks for step in rank.steps})
    events = sum(len(rank.events) for rank in run.ranks)
    ranks = counted(len(run.ranks), "rank")
    if run.screening is not None:
        ranks = f"{counted(run.screening.summarized, 'rank')} by summary, {len(run.ranks)} in full"
    note = f"{ranks}, {counted(steps, 'step')}, {counted(events, 'event')}"
    emit(StageFinished(Stage.LOAD, time.perf_counter() - workspace.began, note))
    baseline = workspace.baseline() is not None
    return {"run": {"ranks": list(run.rank_numbers), "steps": steps, "events": events, "baseline": baseline}}


def _run_stage(stage: str) -> Work:
    def work(_: State, workspace: Workspace) -> Update:
        summaries = [each for chosen in CHECKS if chosen.stage == stage for each in _run(chosen, workspace)]
        return {"checks": summaries}, _tally(summaries)

    return work


def _inter_operator(state: State, workspace: Workspace) -> Update:
    """The checks between operators, then where deep looks are worth it: by the breakdown and the critical path."""
    update, note = _run_stage("inter_operator")(state, workspace)
    update["routes"] = deep_looks.decided(workspace)
    return update, f"{note}; {deep_looks.line(update['routes'])}"


def _tally(summaries: list[dict[str, str]]) -> str:
    counts = {status: sum(1 for each in summaries if each["status"] == status) for status in ("found", "clean")}
    rest = len(summaries) - sum(counts.values())
    return f"{counts['found']} found, {counts['clean']} clean, {rest} not assessable"


def _run(spec: CheckSpec, workspace: Workspace, before: tuple[str, str] | None = None) -> list[dict[str, str]]:
    """Run one check and report it, unless its outcome is the same as ``before``."""
    check = _checked(spec.name, workspace)
    if check is None:
        return []
    finished = CheckFinished(spec.name, spec.family, check.name, check.status, _line(check))
    if (finished.status, finished.text) == before:
        return []
    get_stream_writer()(finished)
    return [{**asdict(finished), "findings": f"checks/{spec.name}"}]


def _checked(name: str, workspace: Workspace) -> Check | None:
    """The outcome of a check; one that breaks is reported as an open check, never as clean."""
    profile = workspace.profile()
    try:
        return check_of(profile, name)
    except Exception as error:  # the dispatcher's boundary: one check must not take the others with it
        LOG.exception("the check %s failed", name)
        reason = printable(f"the check stopped with {type(error).__name__}: {error}", LONGEST_REASON)
        needs = "a report of this failure with its trace"
        return answer_instead(profile, Check(name, "cannot_answer", reason=reason, needs=needs))


def _checks(state: State, workspace: Workspace) -> list[Check]:
    """The checks that were run, in the order of a report, whatever order the branches ran in.

    They are kept with the profile; after a kill the new process makes them again when it needs them.
    """
    done = {each["analyzer"] for each in state["checks"]}
    made = [_checked(spec.name, workspace) for spec in in_order(workspace.profile()) if spec.name in done]
    return [check for check in made if check is not None]


def _ranking(state: State, workspace: Workspace) -> Ranking:
    """The ranking of what the checks found."""
    _checks(state, workspace)  # one that breaks has its stand-in before the ranking asks for it
    return ranked(workspace.profile())


def _line(check: Check) -> str:
    """One line on a check, without citations: ids are given out when the answer is written."""
    match check.status:
        case "found" if check.findings:
            return without_citations(render(check.findings[0].claim, Ledger()))
        case "found" | "clean" if check.support:
            return without_citations(render(check.support[0], Ledger()))
        case _:
            return check.reason


def families(_: State, runtime: Runtime[Workspace]) -> State:
    """Open the stage of the families; its branches run side by side."""
    runtime.stream_writer(StageStarted(Stage.FAMILIES))
    return {"families_began": time.time()}


def fan_out(state: State) -> list[Send]:
    """One branch per family check and per deep look."""
    checks = [Send("family", {"analyzer": each.name}) for each in CHECKS if each.stage == "family"]
    taken = [each for each in state["routes"] if each["taken"]]
    return checks + [Send("look", {"look": each["look"], "rank": each["rank"]}) for each in taken]


def look(state: State, runtime: Runtime[Workspace]) -> State:
    """Take the deep look that the branch was sent with."""
    workspace = runtime.context
    shown = deep_looks.take(state["look"], state["rank"], workspace, runtime.stream_writer, workspace.results)
    return {"looks": [] if shown is None else [{"look": state["look"], "rank": state["rank"], "sentence": shown}]}


def family(state: State, runtime: Runtime[Workspace]) -> State:
    """Run the check that the branch was sent with."""
    return {"checks": _run(spec_of(state["analyzer"]), runtime.context)}


def join(state: State, runtime: Runtime[Workspace]) -> State:
    """Close the stage of the families, when all branches have ended."""
    seconds = max(time.time() - state["families_began"], 0.0)
    own = [each for each in state["checks"] if spec_of(each["analyzer"]).stage == "family"]
    runtime.stream_writer(StageFinished(Stage.FAMILIES, seconds, _tally(own)))
    return {}


def _explain(state: State, workspace: Workspace) -> Update:
    ranking = _ranking(state, workspace)
    rows = []
    for place, each in enumerate(ranking.causes, start=1):
        finding, impact = each.finding, (each.impact_ms, each.impact_pct)
        named = (finding.cause, finding.mechanism, finding.family)
        screening, ranks = workspace.profile().run.screening, tuple(finding.ranks)
        if screening is not None and ranks:
            ranks = screening.standing_for(ranks, workspace.profile().run.rank_numbers)
        row = CauseRanked(place, *named, *impact, finding.confidence, ranks, each.at_most)
        get_stream_writer()(row)
        rows.append({**asdict(row), "ranks": list(ranks)})
    update: State = {"verdict": ranking.verdict, "ranking": "ranking", "causes": rows}
    if not worth_investigating(workspace.profile(), ranking):
        return {**update, "hypotheses": [], "wanted": None}, f"{ranking.verdict}: {ranking.why}"
    update["hypotheses"] = investigate(Inquiry(workspace.profile(), get_stream_writer()))
    wanted = wanted_source(workspace.profile(), restored(update["hypotheses"]))
    update["wanted"] = None if wanted is None else asdict(wanted)
    return update, f"{ranking.verdict}: {ranking.why}; {_tested(restored(update['hypotheses']))}"


def after_write(state: State) -> str:
    """Ask a person once, where one can be asked and a source would decide; the diagnosis without it is written."""
    can_ask = state.get("interactive", False) and state.get("attached") is None
    return "ask" if can_ask and state.get("wanted") else END


def ask(state: State) -> State:
    """Wait for the paths of the wanted source; none to go on without it. Alone in its node: it runs again from here."""
    return {"attached": [str(path) for path in interrupt(state["wanted"])]}


def after_ask(state: State) -> str:
    """Read what was attached, if anything was."""
    return "attach" if state.get("attached") else END


def attach(state: State, runtime: Runtime[Workspace]) -> State:
    """Read the attached source; the checks that depend on it are asked again, those whose outcome changes reported.

    The others keep their answers. Further traces may change where the time is, so all is asked again after them.
    A source that adds nothing leaves the question open.
    """
    workspace, before = runtime.context, runtime.context.profile()
    try:
        workspace.attach([Path(path) for path in state["attached"] or ()])
    except InputError as error:
        refused = printable(f"Not attached: {error}", LONGEST_REASON)
        runtime.stream_writer(Notice(refused))
        return {"attached": None, "refused": refused}
    profile = workspace.profile()
    affected = affected_checks(before, profile)
    if len(affected) == len(CHECKS):
        return {"checks": [], "asked_again": [spec.name for spec in CHECKS], "refused": ""}
    keep_answers(before, profile, affected)
    said = {each["analyzer"]: (each["status"], each["text"]) for each in state["checks"]}
    changed: list[dict[str, str]] = []
    for spec in in_order(profile):
        if spec in affected:
            changed += _run(spec, workspace, said.get(spec.name))
    return {"checks": changed, "asked_again": [spec.name for spec in affected], "refused": ""}


def after_attach(state: State) -> str:
    """Go on where the source makes a difference: from the first checks, or from the ranking; else ask again."""
    if not state.get("attached"):
        return "ask"
    return "coarse" if len(state["asked_again"]) == len(CHECKS) else "explain"


def _tested(hypotheses: list[Hypothesis]) -> str:
    """How many hypotheses there are, by what testing them gave."""
    counts = Counter(each.status for each in hypotheses)
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status]) or "no hypothesis"


def _recall(state: State, workspace: Workspace) -> Update:
    if not _ranking(state, workspace).causes:
        return {"recalls": [], "notes": []}, "no cause to look up"
    try:
        recalls, notes = _recalls(state, workspace)
    except (HermesError, OSError) as error:  # cases help to fix what was found: without them the diagnosis still holds
        LOG.warning("the case library cannot be searched", exc_info=True)
        note = printable(f"{NOT_LOOKED_UP}: {error}", LONGEST_REASON)
        return {"recalls": [workspace.put("recall/0", Recall((), note))], "notes": [note]}, note
    handles = [workspace.put(f"recall/{place}", recall) for place, recall in enumerate(recalls)]
    found = sum(len(recall.hits) for recall in recalls)
    note = counted(found, "similar case") if found else recalls[0].abstained
    return {"recalls": handles, "notes": notes}, note


def _recalls(state: State, workspace: Workspace) -> tuple[list[Recall], list[str]]:
    """Cases like the first causes, and what is to be said about the index."""
    index, profile = workspace.case_index(), workspace.profile()
    devices = [device.name for rank in profile.run.ranks for device in rank.devices]
    chosen = _ranking(state, workspace).causes[:RECALLED_CAUSES]
    return [index.search(_query(each.finding, devices), CASES_PER_CAUSE) for each in chosen], list(index.notes)


def _query(finding: Finding, devices: list[str]) -> CaseQuery:
    mechanism = known_mechanism(finding.mechanism)
    return CaseQuery(
        causes=(finding.cause,),
        mechanisms=(mechanism,) if mechanism else (),
        families=(finding.family,),
        signals=tuple(finding.signals),
        hardware=devices[0] if devices else "",
    )


def _predict(state: State, workspace: Workspace) -> Update:
    """Predictions were made for the ranking; this stage compares with the baseline, if there is one."""
    baseline = workspace.baseline()
    if baseline is None:
        causes = _ranking(state, workspace).causes
        replayed = sum(each.alone is not None for each in causes)
        return {}, f"{replayed} of {counted(len(causes), 'cause')} replayed"
    workspace.put("comparison", compare(baseline, workspace.profile()))
    return {"comparison": "comparison"}, "compared with the baseline"


def _untraced(workspace: Workspace) -> list[str]:
    """The note on ranks without a trace, where no ranks were chosen."""
    return [] if workspace.request.ranks else untraced_note(workspace.profile().run)


def _write(state: State, workspace: Workspace) -> Update:
    profile, baseline = workspace.profile(), workspace.baseline()
    hypotheses = restored(state.get("hypotheses", []))
    taken = {(each["look"], each["rank"]) for each in state.get("routes", []) if each["taken"]}
    looks = {each["look"]: each["sentence"] for each in state.get("looks", []) if (each["look"], each["rank"]) in taken}
    comparison = None
    if baseline is not None:
        comparison = workspace.get("comparison", Comparison, lambda: compare(baseline, profile))
    diagnosis = compose(
        Findings(
            profile=profile,
            checks=_checks(state, workspace),
            ranking=with_hypotheses(_ranking(state, workspace), hypotheses),
            hypotheses=by_status(hypotheses),
            recalls={place: _recall_at(place, state, workspace) for place in range(len(state.get("recalls", [])))},
            routes=deep_looks.shown(state.get("routes", []), looks),
            wanted=WantedSourceRecord.model_validate(wanted) if (wanted := state.get("wanted")) else None,
            comparison=comparison,
            baseline=baseline.run if baseline else None,
            notes=[*_untraced(workspace), *state.get("notes", [])],
        )
    )
    record = diagnosis.model_dump(mode="json", by_alias=True)
    return {"diagnosis": record}, f"{counted(len(diagnosis.evidence), 'figure')} cited"


def _recall_at(place: int, state: State, workspace: Workspace) -> Recall:
    """The cases recalled for a cause, by its place; looked up again where another process did so before."""

    def again() -> Recall:
        try:
            return _recalls(state, workspace)[0][place]
        except (HermesError, OSError) as error:
            return Recall((), printable(f"{NOT_LOOKED_UP}: {error}", LONGEST_REASON))

    return workspace.get(f"recall/{place}", Recall, again)


NODES: dict[str, Node] = {
    "load": load,
    "coarse": _staged(Stage.COARSE, _run_stage("coarse")),
    "inter_operator": _staged(Stage.INTER_OPERATOR, _inter_operator),
    "families": families,
    "family": family,
    "look": look,
    "join": join,
    "explain": _staged(Stage.EXPLAIN, _explain),
    "attach": attach,
    "recall": _staged(Stage.RECALL, _recall),
    "predict": _staged(Stage.PREDICT, _predict),
    "write": _staged(Stage.WRITE, _write),
}


def build(saver: BaseCheckpointSaver[str] | None = None) -> CompiledStateGraph[State, Workspace, State, State]:
    """The compiled workflow: a chain of the nodes, with one branch per family check between families and join.

    ``saver`` keeps the state after each node.
    """
    graph: StateGraph[State, Workspace, State, State] = StateGraph(State, context_schema=Workspace)
    for name, node in NODES.items():
        graph.add_node(name, node)  # type: ignore[arg-type, call-overload, unused-ignore]
    graph.add_node("ask", ask)
    chains = (
        ("load", "coarse", "inter_operator", "families"),
        ("join", "explain", "recall", "predict", "write"),
    )
    for chain in chains:
        for before, after in pairwise(chain):
            graph.add_edge(before, after)
    graph.add_edge(START, "load")
    graph.add_conditional_edges("families", fan_out, ["family", "look"])
    graph.add_conditional_edges("write", after_write, ["ask", END])
    graph.add_conditional_edges("ask", after_ask, ["attach", END])
    graph.add_conditional_edges("attach", after_attach, ["coarse", "explain", "ask"])
    graph.add_edge("family", "join")
    graph.add_edge("look", "join")
    return graph.compile(checkpointer=saver)


def config(thread: str = "") -> RunnableConfig:
    """Bounds of a run. No ``max_concurrency``: LangGraph's own stream reader takes one of its places.

    ``thread`` names the state that a saver keeps.
    """
    return RunnableConfig(recursion_limit=RECURSION_LIMIT, configurable={"thread_id": thread} if thread else {})

"""Recorded settings and modes that slow training, such as autograd's anomaly detection."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.intervals import IntervalSet, union
from tools.knowledge.tables import table
from tools.metrics.registry import measure
from tools.run.links import enclosing
from tools.views.communication.collective_checks import collectives_checked
from tools.views.host.records import HostRecords
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Scale

SEVERAL = 5  # views, fewer of which show no usual time
# How environment variables are named; nothing else in a trace's head is.
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+$|PYTHON[A-Z]+$")
CHECKING = "anomaly_check"  # operators by which autograd looks for numbers that are none
MOST_NODES = 0.5  # of the nodes of the backward: a program checks its loss or some gradients, not the result of each
CHECKED = "TORCH_DISTRIBUTED_DEBUG"
CHECKS = "Before each collective all ranks meet in a barrier and gather its description, as DETAIL makes them: {0}."
EMPTY = "the recorded environment holds no environment variables"
WITH_VARIABLES = "`hermes-dx env > env.json` written by the training's own launch script, where its variables are set"
NO_COST = "a setting's cost cannot be read from one run"


def noting_spans(rank: RankProfile, track: int) -> IntervalSet:
    """The ends of the forward operators of a thread, as long as noting takes; empty where no views show it."""
    rows = _with_node(rank, track)
    views = rows[rank.named("view_operator")[rows]]
    if len(views) < SEVERAL:
        return union(rank.start[:0], rank.end[:0])
    usual_ns = int(np.median(rank.end[views] - rank.start[views]))
    return union(np.maximum(rank.start[rows], rank.end[rows] - usual_ns), rank.end[rows])


def _with_node(rank: RankProfile, track: int) -> NDArray[np.int64]:
    """The operators that made a node each: the last one called of those with one sequence number."""
    table = rank.events.details.operators
    rows = table["row"].to_numpy()[((table["sequence"] >= 0) & (table["forward_thread"] <= 0)).to_numpy()]
    known = dict(zip(table["row"], table["sequence"], strict=True))
    rows = rank.in_steps(np.sort(rows[rank.track[rows] == track]))
    last = {known[row]: row for row in rows[np.argsort(rank.start[rows], kind="stable")]}
    return np.array(sorted(last.values()), dtype=np.int64)


@check(
    *("cpu.environment", "Environment settings", "Do recorded settings slow training?"),
    causes=("environment_configuration", "profiling_overhead"),
    mechanisms=("debug_variable", "log_level", "version_mismatch", "anomaly_detection"),
    from_records="host",
)
def environment(profile: Profile) -> Check:
    """Debugging settings in the recorded environment; only what a source recorded can be seen."""
    variables = settings(profile)
    records = profile.host_records
    recorded = {} if records is None else {rank: records.environment(rank) for rank in records.ranks}
    findings = _anomaly_mode(profile, records)
    if not findings and not any(variables.values()) and not any(recorded.values()):
        if profile.run.environments:
            return cannot_answer(EMPTY, WITH_VARIABLES)
        return cannot_answer(
            "no record of the environment variables was read",
            "env.json next to the trace, written by `hermes-dx env > env.json` where the training runs",
        )
    findings += [
        finding for name in table("slow_settings") if (finding := _setting(profile, name, variables)) is not None
    ]
    if records is not None:
        findings += _versions(records)
    if findings:
        return found(*findings)
    return clean(say("None of the recorded settings is known to slow training."))


def settings(profile: Profile) -> dict[int, dict[str, str]]:
    """Variables of each rank, from the environment file, what the monitor recorded, and checks that a trace shows."""
    found_on: dict[int, dict[str, str]] = {}
    for rank in profile.run.ranks:
        found_on[rank.rank] = {name: value for name, value in rank.metadata.items() if VARIABLE.match(name)}
    if not profile.traced:
        written = {name: value for name, value in profile.run.variables.items() if VARIABLE.match(name)}
        found_on = dict.fromkeys(profile.rank_numbers, written)
    for view in profile.ranks if profile.traced else ():
        if collectives_checked(profile, view.rank.rank):
            found_on[view.rank.rank][CHECKED] = "DETAIL"
    records = profile.host_records
    if records is None:
        return found_on
    for number in records.ranks:
        if (recorded := records.environment(number)) is not None:
            levels = [each for each in records.flags(number, "distributed_debug") if isinstance(each, str)]
            raised = [level for level in levels if level != "OFF"]
            debug = {CHECKED: raised[-1]} if raised else {}
            found_on[number] = {**found_on.get(number, {}), **recorded.variables, **debug}
    return found_on


def _setting(profile: Profile, name: str, variables: Mapping[int, Mapping[str, str]]) -> Finding | None:
    slow = table("slow_settings")[name]
    known = {rank: own for rank, own in variables.items() if own}
    chosen = tuple(rank for rank, own in known.items() if re.fullmatch(slow["values"], own.get(name, "")))
    if not chosen:
        return None
    # With it each collective waits on the calling thread until all ranks have compared their calls.
    traced = [rank for rank in chosen if rank in profile.run.rank_numbers and name == CHECKED]
    seen = [rank for rank in traced if collectives_checked(profile, rank)]
    gathers = [measure(profile, "collective_count", kind="all_gather", rank=rank) for rank in seen[:1]]
    change = shortened_on(profile, traced, lambda view: _named(view, "communication_operator"), 0.05, 0.5)
    return Finding(
        cause="environment_configuration",
        mechanism=slow["mechanism"],
        claim=say("The run was started with {n0} set to a value meant for debugging.", names=(name,)),
        confidence=0.9 * len(chosen) / len(known),
        ranks=tuple(sorted(chosen)),
        change=change,
        impact_ms=None if change else 0.0,
        impact_method="" if change else NO_COST,
        details=tuple(say(CHECKS, fact) for fact in gathers),
        hints={"variable": name},
    )


def _named(view: RankProfile, pattern: str) -> NDArray[np.int64]:
    return view.in_steps(np.flatnonzero(view.named(pattern)))


def _anomaly_mode(profile: Profile, records: HostRecords | None) -> list[Finding]:
    """Autograd's anomaly detection: a stack for every forward operator, a look at every gradient.

    By the monitor's record, or by the look at the result of every node of the backward in the trace.
    """
    by_trace = {view.rank.rank for view in profile.ranks if _checks_gradients(view)} if profile.traced else set()
    noted = () if records is None else records.ranks
    by_record = {rank for rank in noted if records is not None and True in records.flags(rank, "anomaly_mode")}
    ranks = tuple(sorted(by_trace | by_record))
    if not ranks:
        return []
    traced = [rank for rank in ranks if rank in profile.run.rank_numbers]
    checking = shortened_on(profile, traced, lambda view: _named(view, CHECKING), 0.0)
    noting = (
        Scale(rank, int(track), spans, 0.0, 0.5)
        for rank in traced
        for track in profile.rank(rank).training_tracks
        if len(spans := noting_spans(profile.rank(rank), int(track)))
    )
    change = (*checking, *noting)
    facts = (measure(profile, "host_span_ms", rank=rank, pattern=CHECKING) for rank in traced[:1])
    details = tuple(say("Checking gradients for NaN takes {0} per step.", fact) for fact in facts)
    return [
        Finding(
            cause="profiling_overhead",
            mechanism="anomaly_detection",
            claim=say("Anomaly detection of autograd is switched on while the training runs."),
            confidence=confidence((2.0, 1.0), at_most=0.9),
            ranks=ranks,
            change=change,
            impact_ms=None if change else 0.0,
            impact_method="" if change else NO_COST,
            details=details,
        )
    ]


def _checks_gradients(view: RankProfile) -> bool:
    """Whether most nodes of the backward look for NaN in their results."""
    nodes, checks = _named(view, "backward_node"), _named(view, CHECKING)
    checks = checks[[name.endswith("isnan") for name in view.names(checks)]]
    around = enclosing(view.events, checks, nodes) if len(nodes) and len(checks) else nodes[:0]
    inside = around[around >= 0]
    return len(inside) >= MOST_NODES * len(nodes) > 0 and len(np.unique(inside)) >= SEVERAL


def _versions(records: HostRecords) -> list[Finding]:
    recorded = {rank: each for rank in records.ranks if (each := records.environment(rank)) is not None}
    for what in ("torch", "python"):
        versions = {rank: getattr(each, what) for rank, each in recorded.items() if getattr(each, what)}
        if len(set(versions.values())) < 2:
            continue
        counts = Counter(versions.values()).most_common(2)
        settled = counts[0][1] > counts[1][1]  # else nobody can say which of them is the odd one
        odd = tuple(rank for rank, version in versions.items() if not settled or version != counts[0][0])
        names = (what, *sorted(set(versions.values()))[:2])
        return [
            Finding(
                cause="environment_configuration",
                mechanism="version_mismatch",
                claim=say("Not all ranks run the same version of {n0}: {n1} and {n2}.", names=names),
                confidence=0.6,
                ranks=odd,
                impact_ms=0.0,
                impact_method=NO_COST,
                disproved_by="the steps are as long with the same versions everywhere",
                signals=("mismatched library versions",),
            )
        ]
    return []

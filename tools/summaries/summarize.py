"""The summary of one trace file, from the same views that the analyzers use."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import covered
from tools.metrics.host.pauses import pause_places
from tools.run.events import EventKind
from tools.run.layout import JobFacts, describe
from tools.run.model import Rank, Run
from tools.run.steps import find_steps
from tools.sources.ranks import host_of, processes_of
from tools.sources.trace_file import TraceFile
from tools.summaries.record import MOST_OPERATORS, MOST_STALLS, TABLES, RankSummary, SummaryFacts, TableName
from tools.views.communication.collectives import collectives
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

ALONE = 0  # a number for the one rank of the run: which rank it is follows only from all files together


def summarize(trace: TraceFile, shown: str = "") -> RankSummary:
    """The summary of a trace, with thresholds as documented; ``shown`` is its URL where it was not read from a path."""
    facts, found = trace.facts, find_steps(trace.table)
    rank = Rank(
        rank=ALONE,
        rank_origin="order",
        events=trace.table,
        steps=found.steps,
        step_origin=found.origin,
        marks=found.marks,
        devices=facts.metadata.devices,
    )
    known = facts.metadata
    layout = describe([JobFacts(known.world_size, known.backend, known.groups, facts.groups)])
    profile = Profile(Run((rank,), (), layout, None))
    view = profile.rank(ALONE)
    return RankSummary(
        facts=SummaryFacts(
            path=shown or str(trace.path),
            digest=trace.digest,
            trace=facts,
            host=host_of(trace.path),
            step_origin=found.origin,
            has_device=rank.has_device,
            last_ns=int(trace.table.frame["end_ns"].max()),
            processes=tuple(sorted(processes_of(trace.table))),
        ),
        steps=_typed("steps", view.breakdown.merge(view.steps, on="number")),
        collectives=_collectives(profile),
        exposed=pd.DataFrame(view.parts.exposed_communication, columns=["start_ns", "end_ns"]),
        operators=_operators(view),
        stalls=_stalls(profile),
    )


def _typed(name: TableName, table: pd.DataFrame) -> pd.DataFrame:
    """The columns of that table in its types, rows numbered from 0; of categories only those in use, in order."""
    columns = TABLES[name]
    typed = table[list(columns)].reset_index(drop=True)
    texts = {each: pd.Categorical(typed[each].astype("str")) for each, dtype in columns.items() if dtype == "category"}
    return typed.assign(**texts).astype({each: dtype for each, dtype in columns.items() if each not in texts})


def _collectives(profile: Profile) -> pd.DataFrame:
    """The collectives inside steps, with the part of each in which the rank did nothing else."""
    table = collectives(profile)
    table = table[(table["step"] >= 0).to_numpy()]
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    exposed_ns = covered(profile.rank(ALONE).parts.exposed_communication, start, end)
    return _typed("collectives", table.assign(exposed_ns=exposed_ns))


def _operators(view: RankProfile) -> pd.DataFrame:
    """Count and time by name of the operators on training threads and of the kernels, both inside steps."""
    operators = np.flatnonzero((view.kind == EventKind.OPERATOR) & view.on_training_thread)
    by_kind = {"operator": _largest(view, operators), "kernel": _largest(view, view.kernels)}
    table = pd.concat([rows.assign(kind=kind) for kind, rows in by_kind.items()], ignore_index=True)
    return _typed("operators", table.sort_values("total_ns", ascending=False, kind="stable"))


def _largest(view: RankProfile, rows: NDArray[np.int64]) -> pd.DataFrame:
    rows = view.in_steps(rows)
    size, codes = len(view.categories), view.codes[rows]
    spent = np.zeros(size, dtype=np.int64)
    np.add.at(spent, codes, view.end[rows] - view.start[rows])
    count = np.bincount(codes, minlength=size)
    used = np.flatnonzero(count)
    first = used[np.argsort(-spent[used], kind="stable")[:MOST_OPERATORS]]
    return pd.DataFrame({"name": view.categories[first], "count": count[first], "total_ns": spent[first]})


def _stalls(profile: Profile) -> pd.DataFrame:
    places = pause_places(profile, ALONE)
    longest = np.argsort(-(places["end_ns"] - places["start_ns"]).to_numpy(), kind="stable")[:MOST_STALLS]
    return _typed("stalls", places.iloc[longest])

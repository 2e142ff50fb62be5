"""The dependency graph of a run: its ranks' graphs joined by the collectives that they share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from tools.views.communication.collectives import SYNCHRONISING, collectives
from tools.views.profile import Profile, memoized
from tools.whatif.graph import ORIGIN, EdgeKind, Edges, Graph, NodeKind, Nodes, link, settle
from tools.whatif.operations import NONE, Rows
from tools.whatif.rank_graph import RankGraph, rank_graph
from tools.whatif.window import Window, choose_window

ALIKE = ["kind", "bytes", "group_size", "step", "sequence"]  # what collectives of parallel groups have in common


def with_parallel_groups(taking_part: pd.DataFrame) -> pd.DataFrame:
    """The matched rows, and the others with the match of a parallel group that waited for the same."""
    unmatched = taking_part[taking_part["match"] < 0]
    waits = unmatched["kind"].isin(SYNCHRONISING) & (unmatched["bytes"] > 0) & (unmatched["step"] >= 0)
    matched, lone = taking_part[taking_part["match"] >= 0], unmatched[waits]
    if matched.empty or lone.empty:
        return matched
    joined = lone.drop(columns="match").merge(_meetings(matched), on=ALIKE)
    joined = joined.assign(apart=(joined["end_ns"] - joined["met_end_ns"]).abs())
    came_meanwhile = (joined["start_ns"] < joined["last_ns"]) & (joined["last_ns"] < joined["end_ns"])
    same = joined[came_meanwhile & (joined["apart"] <= joined["transfer_ns"])]
    nearest = same.sort_values(["op", "apart", "match"]).drop_duplicates("op")
    return pd.concat([matched, nearest[matched.columns]], ignore_index=True)


def _meetings(matched: pd.DataFrame) -> pd.DataFrame:
    """One row per match: ``ALIKE``, the last member's start, the end, and how long it took from there."""
    table = matched.groupby("match", as_index=False).agg(
        **{name: (name, "first") for name in ALIKE},
        last_ns=("start_ns", "max"),
        met_end_ns=("end_ns", "max"),
    )
    return table.assign(transfer_ns=table["met_end_ns"] - table["last_ns"])


@memoized
def graph_of(profile: Profile) -> Graph:
    """The dependency graph of the run's representative steps; built once per profile."""
    return build(profile, choose_window(profile))


def build(profile: Profile, window: Window) -> Graph:
    """The dependency graph of the window."""
    parts = [
        rank_graph(profile.rank(rank), int(start), int(end))
        for rank, start, end in zip(window.ranks, window.start_ns, window.end_ns, strict=True)
    ]
    sizes = [len(part.stretches.track) + len(part.ops) for part in parts]
    first = np.cumsum([1, *sizes])
    shared = _shared(profile, parts, first)
    nodes = _nodes(window, parts, shared, int(first[-1]))
    links = [_rank_links(part, int(at), window, shared) for part, at in zip(parts, first[:-1], strict=True)]
    op, arrival, transfer = (shared[name].to_numpy() for name in ("op", "arrival", "transfer"))
    longer = (shared["end_ns"] - shared["last_ns"] - shared["transfer_ns"]).to_numpy()
    meeting = link(arrival, transfer, EdgeKind.COLLECTIVE)
    alone = link(arrival, op, EdgeKind.COLLECTIVE)  # binds where a change leaves the collective out
    return settle(window, nodes, meeting.joined(link(transfer, op, EdgeKind.COLLECTIVE, longer), alone, *links))


def _shared(profile: Profile, parts: list[RankGraph], first: Rows) -> pd.DataFrame:
    """One row per member of a shared collective: op, rank, track, row, times, arrival and transfer (nodes) and more."""
    tables = [_participants(part, int(at)) for part, at in zip(parts, first[:-1], strict=True)]
    table = pd.concat(tables, ignore_index=True)
    known = collectives(profile) if len(parts) > 1 else None
    if known is None or known.empty:
        table = table.iloc[:0].assign(match=0)
    else:
        table = with_parallel_groups(table.merge(known[["rank", "row", "match", *ALIKE]], on=["rank", "row"]))
    table = table.sort_values(["match", "op"], ignore_index=True)
    grouped = table.groupby("match", sort=False)
    table["last_ns"] = grouped["start_ns"].transform("max")
    table["first_end_ns"] = grouped["end_ns"].transform("min")
    table["count"] = grouped["op"].transform("size")
    good = (table["count"] > 1) & (table["first_end_ns"] > table["last_ns"])
    table = table[good].reset_index(drop=True)
    shortest = (table["end_ns"] - table["start_ns"]).groupby(table["match"]).transform("min")
    table["transfer_ns"] = np.minimum(shortest, table["first_end_ns"] - table["last_ns"])
    table["arrival"] = int(first[-1]) + np.arange(len(table))
    table["transfer"] = int(first[-1]) + len(table) + table.groupby("match", sort=False).ngroup()
    return table


def _participants(part: RankGraph, first: int) -> pd.DataFrame:
    ops = part.ops
    chosen = np.flatnonzero(ops.communication & ~ops.fixed)
    return pd.DataFrame(
        {
            "op": first + len(part.stretches.track) + chosen,
            "rank": part.rank.rank.rank,
            "track": ops.track[chosen],
            "row": ops.row[chosen],
            "start_ns": ops.start_ns[chosen],
            "end_ns": ops.end_ns[chosen],
        }
    )


def _nodes(window: Window, parts: list[RankGraph], shared: pd.DataFrame, first_shared: int) -> Nodes:
    origin = {"kind": int(NodeKind.ORIGIN), "rank": NONE, "track": NONE, "row": NONE, "own_ns": 0, "frozen": 1}
    origin |= {"end_ns": window.origin_ns, "begin_ns": window.origin_ns}
    columns = {name: [np.array([value], dtype=np.int64)] for name, value in origin.items()}
    for part in parts:
        stretches, ops = part.stretches, part.ops
        kind = np.where(stretches.wait >= 0, NodeKind.WAIT, NodeKind.HOST)
        columns["kind"].append(np.concatenate((kind, np.full(len(ops), NodeKind.DEVICE))))
        columns["rank"].append(np.full(len(kind) + len(ops), part.rank.rank.rank))
        columns["track"].append(np.concatenate((stretches.track, ops.track)))
        columns["row"].append(np.concatenate((part.stretch_row, ops.row)))
        columns["end_ns"].append(np.concatenate((stretches.end_ns, ops.end_ns)))
        columns["own_ns"].append(np.concatenate((part.own_ns, ops.end_ns - ops.start_ns)))
        columns["frozen"].append(np.concatenate((np.zeros(len(kind), dtype=np.int64), ops.fixed)))
        columns["begin_ns"].append(np.concatenate((stretches.start_ns, ops.start_ns)))
    transfers = shared.drop_duplicates("transfer")
    columns["kind"].append(np.repeat([int(NodeKind.ARRIVAL), int(NodeKind.TRANSFER)], [len(shared), len(transfers)]))
    for name in ("rank", "track", "row"):
        columns[name].append(np.concatenate((shared[name], np.full(len(transfers), NONE))))
    ended = transfers["last_ns"] + transfers["transfer_ns"]
    columns["end_ns"].append(np.concatenate((shared["start_ns"], ended)))
    columns["own_ns"].append(np.concatenate((np.zeros(len(shared), dtype=np.int64), transfers["transfer_ns"])))
    columns["frozen"].append(np.zeros(len(shared) + len(transfers), dtype=np.int64))
    columns["begin_ns"].append(np.concatenate((shared["start_ns"], transfers["last_ns"])))
    whole = {name: np.concatenate(values).astype(np.int64) for name, values in columns.items()}
    collective = np.full(len(whole["kind"]), NONE, dtype=np.int64)
    done = shared["op"].to_numpy()
    whole["kind"][done], whole["own_ns"][done] = NodeKind.DONE, 0
    collective[done] = shared["transfer"].to_numpy()
    return Nodes(
        kind=whole["kind"].astype(np.int8),
        rank=whole["rank"],
        track=whole["track"],
        row=whole["row"],
        end_ns=whole["end_ns"],
        own_ns=whole["own_ns"],
        frozen=whole["frozen"].astype(bool),
        collective=collective,
        begin_ns=whole["begin_ns"],
    )


def _rank_links(part: RankGraph, first: int, window: Window, shared: pd.DataFrame) -> Edges:
    """The rank's edges with node ids as ends; what leads to a shared collective leads to its arrival."""
    ops_first = first + len(part.stretches.track)
    begun = part.start_ns - window.origin_ns
    arrival = np.arange(ops_first + len(part.ops))
    mine = shared["op"].to_numpy()[(shared["op"] >= first) & (shared["op"] < len(arrival))]
    arrival[mine] = shared.set_index("op")["arrival"].reindex(mine).to_numpy()
    thread = _placed(part.thread, first, first, begun)
    sync = _placed(part.sync, ops_first, first, begun)
    launch = _placed(part.launch, first, ops_first, begun)
    device = _placed(part.device, ops_first, ops_first, begun)
    into = launch.joined(device)
    return thread.joined(sync, replace(into, target=arrival[into.target]))


def _placed(links: Edges, source_first: int, target_first: int, begun_ns: int) -> Edges:
    from_start = links.source < 0
    return Edges(
        np.where(from_start, ORIGIN, links.source + source_first),
        links.target + target_first,
        np.where(from_start, links.lag_ns + begun_ns, links.lag_ns),
        np.where(from_start, int(EdgeKind.FIXED), links.kind).astype(np.int8),
    )

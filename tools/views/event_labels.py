"""What events of a rank belong to: name, module, phase, operator with shapes, Python line, stream, process group.

Device work belongs to what the host did when it launched it: the innermost ``nn.Module`` frame, Python line, or
operator with recorded shapes around the launching call. In the backward pass the module is that of the forward
operator (PyTorch's "fwdbwd" links).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, EventKind
from tools.run.links import enclosing, parents
from tools.views.communication.collectives import collectives
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.work import python_frames

Rows = NDArray[np.int64]
MODULE_FRAME = "nn.Module: "
PHASES = ("data", "forward", "backward", "optimizer", "other")
UNSPLIT = "forward or backward"
NO_SHAPES = ("", "[]")


@dataclass(frozen=True, eq=False)
class Labels:
    """For each of some events the place of its label in ``texts`` (shape (n,), int64)."""

    codes: Rows
    texts: list[str]

    def of(self, place: int) -> str:
        """The label of one of the events."""
        return self.texts[int(self.codes[place])]


def labels(profile: Profile, rank: int, by: str, rows: Rows) -> Labels:
    """The labels of these events; those without one share ``no_label(by)``."""
    codes, texts = BY[by](profile, profile.rank(rank), rows)
    place, distinct = pd.factorize(np.array([*texts, no_label(by)], dtype=object))
    return Labels(place[np.where(codes >= 0, codes, len(texts))], [str(text) for text in distinct])


def no_label(by: str) -> str:
    """The label of events that have none."""
    return f"(no {by} recorded)"


@memoized
def launching_rows(profile: Profile, rank: int) -> Rows:
    """For each event of the rank the host event that stands for it: the launching call of device work, -1 where that
    was not recorded; any other event itself."""
    view = profile.rank(rank)
    base = np.arange(len(view.start), dtype=np.int64)
    base[np.isin(view.kind, [int(kind) for kind in DEVICE_WORK])] = -1
    base[view.launches["device_row"].to_numpy()] = view.launches["launch_row"].to_numpy()
    return base


def innermost(view: RankProfile, rows: Rows, candidates: Rows) -> Rows:
    """For each row (-1 for none) the innermost candidate that it is or lies in, -1 where there is none."""
    if not len(candidates):
        return np.full(len(rows), -1, dtype=np.int64)
    own = np.isin(rows, candidates)
    return np.where(own, rows, enclosing(view.events, rows, candidates))


def module_frames(view: RankProfile) -> Rows:
    """Rows of the Python frames that are calls of a module (recorded with ``with_stack=True``)."""
    by_code = view.categories.astype(str).str.startswith(MODULE_FRAME)
    return np.flatnonzero((view.kind == EventKind.PYTHON) & np.asarray(by_code, dtype=bool)[view.codes])


def shaped_operators(view: RankProfile) -> Rows:
    """Rows of the operators with recorded input shapes (``record_shapes=True``)."""
    table = view.events.details.operators
    return np.asarray(table["row"].to_numpy()[~table["dims"].astype(str).isin(NO_SHAPES).to_numpy()], dtype=np.int64)


@memoized
def modules(profile: Profile, rank: int) -> Labels:
    """For each row of ``module_frames`` its path of modules from the outermost: ``Net_0/Linear_1``."""
    view = profile.rank(rank)
    frames = module_frames(view)
    above = np.full(len(frames), -1, dtype=np.int64)
    for track in np.unique(view.track[frames]):
        mine = np.flatnonzero(view.track[frames] == track)
        parent = parents(view.start[frames[mine]], view.end[frames[mine]])
        above[mine] = np.where(parent >= 0, mine[parent], -1)
    paths: dict[tuple[int, int], int] = {}
    texts: list[str] = []
    codes = np.empty(len(frames), dtype=np.int64)
    names = view.codes[frames].tolist()
    for place, (outer, name) in enumerate(zip(above.tolist(), names, strict=True)):  # frames of modules are few
        key = (int(codes[outer]) if outer >= 0 else -1, name)
        if key not in paths:
            paths[key] = len(texts)
            own = str(view.categories[name]).removeprefix(MODULE_FRAME)
            texts.append(own if outer < 0 else f"{texts[key[0]]}/{own}")
        codes[place] = paths[key]
    return Labels(codes, texts)


def _name(_: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    used, codes = np.unique(view.codes[rows], return_inverse=True)
    return codes.astype(np.int64), [str(name) for name in view.categories[used]]


def _stream(_: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    used, codes = np.unique(view.track[rows], return_inverse=True)
    return codes.astype(np.int64), [track_label(view, int(track)) for track in used]


def track_label(view: RankProfile, track: int) -> str:
    """``device 0 stream 7``, or the recorded name of a host thread with its number."""
    device, stream, label, tid = (view.events.tracks[name].iloc[track] for name in ("device", "stream", "label", "tid"))
    return f"device {device} stream {stream}" if device >= 0 else f"{label or 'thread'} ({tid})"


def _module(profile: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    frames, paths = module_frames(view), modules(profile, view.rank.rank)
    base = launching_rows(profile, view.rank.rank)[rows]
    found = innermost(view, base, frames)
    missing = np.flatnonzero(found < 0)
    found[missing] = innermost(view, forward_rows(view, base[missing]), frames)
    place = np.searchsorted(frames, found)
    return np.where(found >= 0, paths.codes[np.minimum(place, len(frames) - 1)], -1) if len(
        frames
    ) else found, paths.texts


def forward_rows(view: RankProfile, rows: Rows) -> Rows:
    """For each row of the backward pass the forward operator that it belongs to, else -1."""
    table = view.events.details.forward_backward.sort_values("backward_row", kind="stable")
    backward, forward = table["backward_row"].to_numpy(), table["forward_row"].to_numpy()
    around = innermost(view, rows, backward)
    if not len(backward):
        return around
    return np.where(around >= 0, forward[np.minimum(np.searchsorted(backward, around), len(backward) - 1)], -1)


def _phase(profile: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    """Data: in the loader's span. Backward: in a node of the backward, or between them on autograd's own thread.
    Optimizer: in its span, behind the backward of a closure that it calls. Forward: other work of a training thread
    before the step's last backward node starts."""
    base = launching_rows(profile, view.rank.rank)[rows]
    nodes = backward_nodes(view)
    codes = np.full(len(rows), PHASES.index("other"), dtype=np.int64)
    codes[base < 0] = -1
    if len(nodes):
        last = pd.Series(view.start[nodes]).groupby(view.step_of(nodes)).max()
        until = last.reindex(view.step_of(base)).to_numpy(dtype=np.float64)
        before = (view.start[base] < until) & (view.step_of(base) >= 0)
    else:
        before = view.step_of(base) >= 0
    codes[(base >= 0) & view.on_training_thread[base] & before] = PHASES.index("forward")
    codes[(base >= 0) & np.isin(view.track[base], _autograd_tracks(view, nodes))] = PHASES.index("backward")
    for phase, candidates in {"data": view.loader_rows, "backward": nodes}.items():
        codes[innermost(view, base, candidates) >= 0] = PHASES.index(phase)
    span = innermost(view, base, optimizer_spans(view))
    own = (span >= 0) & (view.start[base] >= closure_ends(view, np.maximum(span, 0)))
    codes[own] = PHASES.index("optimizer")
    return codes, [UNSPLIT if phase == "forward" and not len(nodes) else phase for phase in PHASES]


def optimizer_spans(view: RankProfile) -> Rows:
    """Rows of the spans around an optimizer's calls."""
    return np.flatnonzero(view.named("optimizer"))


def closure_ends(view: RankProfile, spans: Rows) -> Rows:
    """For each span the end of the last backward node that starts in it, on whatever thread, or its own start.

    An optimizer that is given a closure computes loss and gradients inside of its step, as Lightning has it do.
    """
    nodes = backward_nodes(view)
    nodes = nodes[np.argsort(view.start[nodes], kind="stable")]
    first = np.searchsorted(view.start[nodes], view.start[spans])
    behind = np.searchsorted(view.start[nodes], view.end[spans])
    if not len(nodes):
        return view.start[spans]
    latest = np.maximum.accumulate(view.end[nodes])[np.maximum(behind - 1, 0)]
    inside = np.minimum(latest, view.end[spans])
    return np.where(behind > first, inside, view.start[spans])


def _autograd_tracks(view: RankProfile, nodes: Rows) -> Rows:
    """Threads that run the backward graph and nothing of the training loop; its engine adds gradients between nodes."""
    of_loop = view.track[view.named("profiler_step") | view.named("optimizer")]
    tracks: Rows = np.setdiff1d(view.track[nodes], of_loop) if len(of_loop) else np.empty(0, dtype=np.int64)
    return tracks


def backward_nodes(view: RankProfile) -> Rows:
    """Rows of the nodes of the backward graph, in older traces of the operators that they run."""
    nodes = np.flatnonzero(view.named("backward_node"))
    return nodes if len(nodes) else np.flatnonzero(view.named("gradient_operator") & (view.kind == EventKind.OPERATOR))


def _shape(profile: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    table = view.events.details.operators
    found = innermost(view, launching_rows(profile, view.rank.rank)[rows], shaped_operators(view))
    at = view.places(table, found)
    columns = (
        [view.codes[found], *(table[name].cat.codes.to_numpy()[at] for name in ("dims", "types"))] if len(table) else []
    )
    if not columns:
        return found, []
    keys, codes = np.unique(np.column_stack(columns)[found >= 0], axis=0, return_inverse=True)
    dims, types = (table[name].cat.categories.astype(str) for name in ("dims", "types"))
    written = (f"{view.categories[name]} {dims[shape]} {types[kind]}" for name, shape, kind in keys.tolist())
    texts = [" ".join(each.split()) for each in written]  # shapes are recorded with line breaks and without
    result = np.full(len(rows), -1, dtype=np.int64)
    result[found >= 0] = codes.reshape(-1)
    return result, texts


def _stack(profile: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    """The innermost Python line outside of libraries; without frames the first line of the operator's own stack."""
    base = launching_rows(profile, view.rank.rank)[rows]
    frames = python_frames(view, base)
    used, codes = np.unique(view.codes[frames[frames >= 0]], return_inverse=True)
    result = np.full(len(rows), -1, dtype=np.int64)
    result[frames >= 0] = codes
    texts = [str(name) for name in view.categories[used]]
    table = view.events.details.operators
    stacked = table["row"].to_numpy()[(table["stack"].astype(str) != "").to_numpy()]
    missing = np.flatnonzero(result < 0)
    around = innermost(view, base[missing], np.asarray(stacked, dtype=np.int64))
    at = view.places(table, around)
    if len(missing) and (around >= 0).any():
        lines = table["stack"].cat.categories.astype(str).str.split(";").str[0]
        result[missing[around >= 0]] = table["stack"].cat.codes.to_numpy()[at[around >= 0]] + len(texts)
        texts = [*texts, *lines]
    return result, texts


def _group(profile: Profile, view: RankProfile, rows: Rows) -> tuple[Rows, list[str]]:
    table = collectives(profile)
    table = table[(table["rank"] == view.rank.rank).to_numpy()]
    groups, names = pd.factorize(group_names(profile, table))
    by_row = np.full(len(view.start), -1, dtype=np.int64)
    by_row[table["row"].to_numpy()] = groups
    return by_row[rows], [str(name) for name in names]


def group_names(profile: Profile, table: pd.DataFrame) -> pd.Series[str]:
    """The description of each collective's process group, else its recorded name, else its kind alone."""
    described = {group.name: group.description for group in profile.run.layout.groups if group.description}
    names = [
        described.get(group, group) + (f" of {ranks} ranks" if ranks > 0 else "") if group else "(group not recorded)"
        for group, ranks in zip(table["group"].astype(str), table["group_size"], strict=True)
    ]
    return pd.Series(names, index=table.index, dtype=object)


BY: Mapping[str, Callable[[Profile, RankProfile, Rows], tuple[Rows, list[str]]]] = {
    "name": _name,
    "module": _module,
    "phase": _phase,
    "shape": _shape,
    "stack": _stack,
    "stream": _stream,
    "group": _group,
}

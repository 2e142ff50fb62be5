"""The phases of a step (data, forward, backward, optimizer, other) on the device and on the host, and what of a
collective they overlap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, covered, intersect, merge
from tools.run.events import EventKind
from tools.views.communication.collectives import collectives
from tools.views.event_labels import PHASES, backward_nodes, closure_ends, labels, optimizer_spans
from tools.views.profile import Profile, memoized


@memoized
def device_phases(profile: Profile, rank: int) -> Mapping[str, IntervalSet]:
    """For each phase the moments in which a computing kernel or copy that it launched runs; phases may overlap."""
    view = profile.rank(rank)
    return _by_phase(profile, rank, np.sort(np.concatenate((view.compute_kernels, view.copies))))


@memoized
def host_phases(profile: Profile, rank: int) -> Mapping[str, IntervalSet]:
    """For each phase the moments in which a thread of the host works in it: operators, calls, spans of the phase."""
    view = profile.rank(rank)
    work = (view.kind == EventKind.OPERATOR) | (view.kind == EventKind.RUNTIME)
    spans = optimizer_spans(view)
    work[spans[closure_ends(view, spans) == view.start[spans]]] = True  # others hold forward and backward as well
    work[view.loader_rows] = True
    rows = np.flatnonzero(work & ~view.named("communication_span") & (view.end > view.start))
    return _by_phase(profile, rank, rows)


def separable(profile: Profile, rank: int) -> bool:
    """Whether the recording separates forward and backward: it has nodes of the backward graph."""
    return bool(len(backward_nodes(profile.rank(rank))))


def _by_phase(profile: Profile, rank: int, rows: NDArray[np.int64]) -> Mapping[str, IntervalSet]:
    view = profile.rank(rank)
    known = labels(profile, rank, "phase", rows)
    moments = {name: view.covered(rows[known.codes == code]) for code, name in enumerate(known.texts)}
    others = (own for name, own in moments.items() if name not in PHASES or name == "other")
    return {phase: moments.get(phase, EMPTY) for phase in PHASES} | {"other": merge(*others)}


@memoized
def overlapping_collectives(profile: Profile, rank: int) -> pd.DataFrame:
    """The rank's rows of ``collectives`` with what runs meanwhile, in order of start.

    Further columns: ``index`` (from 1 among the rank's collectives of that kind in the step), ``overlapped_ns`` (the
    rank computes as well), ``exposed_ns`` (it does not), ``<phase>_ns`` for each phase (its work computes as well).
    """
    view = profile.rank(rank)
    table = collectives(profile)
    table = table[(table["rank"] == rank).to_numpy()].sort_values(["start_ns", "row"], kind="stable")
    table = table.assign(index=table.groupby(["step", "kind"]).cumcount() + 1)
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    computing = view.activity.device_compute if view.rank.has_device else view.activity.host_compute
    overlapped = covered(computing, start, end)
    phases = device_phases(profile, rank) if view.rank.has_device else host_phases(profile, rank)
    columns = {f"{phase}_ns": covered(intersect(own, computing), start, end) for phase, own in phases.items()}
    return table.assign(overlapped_ns=overlapped, exposed_ns=end - start - overlapped, **columns).reset_index(drop=True)

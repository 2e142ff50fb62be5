"""What a training thread does while it asks its data loader for a batch, and how batches reach the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, merge, subtract, union
from tools.profilers.rank_profile import RankProfile
from tools.run.events import EventKind

FRAME_PATTERNS = {"reading": "reading_frame", "processing": "processing_frame"}


def loader_spans(view: RankProfile) -> IntervalSet:
    """The moments in which a training thread asks a loader, inside the steps."""
    window = np.array([view.rank.window()], dtype=np.int64)
    return intersect(view.activity.loader, window)


def operators_in_loader(view: RankProfile) -> IntervalSet:
    """The moments of loader spans in which framework operators run on a training thread."""
    operators = (view.kind == EventKind.OPERATOR) & ~view.named("loader_span")
    rows = np.flatnonzero(operators & view.on_training_thread)
    return _inside(view, rows)


def frames_in_loader(view: RankProfile, what: str) -> IntervalSet:
    """The moments of loader spans in Python frames that read, or that process (``what``)."""
    rows = np.flatnonzero((view.kind == EventKind.PYTHON) & view.on_training_thread & view.named(FRAME_PATTERNS[what]))
    return _inside(view, rows)


def _inside(view: RankProfile, rows: NDArray[np.int64]) -> IntervalSet:
    return intersect(union(view.start[rows], view.end[rows]), loader_spans(view))


def upload_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of host-to-device copies inside the steps."""
    return view.in_steps(np.flatnonzero((view.kind == EventKind.MEMCPY) & view.named("upload")))


def exposed_uploads(view: RankProfile) -> IntervalSet:
    """When a host-to-device copy runs while no kernel does."""
    rows = upload_rows(view)
    running = merge(view.activity.device_compute, view.activity.device_communication)
    return subtract(union(view.start[rows], view.end[rows]), running)

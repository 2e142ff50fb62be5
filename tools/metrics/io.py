"""Work of a training thread while it asks its data loader for a batch, and the upload of batches."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, intersect, length, merge, subtract
from tools.metrics.host.pauses import names_covering
from tools.metrics.measurement import Measurement, choice, metric, of_events, of_moments, of_rank, over_steps
from tools.run.events import EventKind
from tools.run.program_frames import TRACED_LIBRARY
from tools.views.host.loader_restarts import restarts
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

FRAME_PATTERNS = {"reading": "reading_frame", "processing": "processing_frame"}


def loader_spans(view: RankProfile) -> IntervalSet:
    """The moments in which a training thread asks a loader, inside the steps."""
    window = np.array([view.rank.window()], dtype=np.int64)
    return intersect(view.activity.loader, window)


def _inside(view: RankProfile, named: NDArray[np.bool_]) -> IntervalSet:
    """The moments of loader spans in such events of a training thread."""
    return intersect(view.covered(np.flatnonzero(named & view.on_training_thread)), loader_spans(view))


def upload_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of host-to-device copies inside the steps."""
    return view.in_steps(np.flatnonzero((view.kind == EventKind.MEMCPY) & view.named("upload")))


def exposed_uploads(view: RankProfile) -> IntervalSet:
    """The moments in which a host-to-device copy runs and no kernel does."""
    return exposed_copies(view, upload_rows(view))


def exposed_copies(view: RankProfile, rows: NDArray[np.int64]) -> IntervalSet:
    """The moments in which one of these copies runs and no kernel does."""
    running = merge(view.activity.device_compute, view.activity.device_communication)
    return subtract(view.covered(rows), running)


@metric("ms", "{statistic} data-loader time per step", "How long is a step in its data loader?")
def loader_span_ms(profile: Profile, rank: int, statistic: str = "mean") -> Measurement:
    """Time per step in which a training thread asks its loader, hidden or not."""
    view = profile.rank(rank)
    value = over_steps(view.host_per_step_ms(loader_spans(view)), statistic)
    return of_events(view, value, view.in_steps(view.loader_rows), "data-loader spans")


@metric("steps", "steps with an exposed data wait", "In how many steps does training wait for data?")
def loader_wait_steps(profile: Profile, rank: int) -> Measurement:
    """Number of steps in which the exposed data wait exceeds the noted share of the step.

    Without a device the wait for worker processes counts from ``batch_handover_ms`` for each call: with less, a batch
    that is ready was handed over.
    """
    view = profile.rank(rank)
    table, rows = view.breakdown, view.in_steps(view.loader_rows)
    least_ns = table["wall_ns"] * profile.thresholds["noted_pct"] / 100.0
    if not view.rank.has_device and view.named("multi_process_loader")[rows].all():
        calls = pd.Series(view.step_of(rows)).value_counts().reindex(table["number"], fill_value=0).to_numpy()
        least_ns = np.maximum(least_ns, calls * profile.thresholds["batch_handover_ms"] * 1e6)
    waiting = table[table["data_wait_ns"] > least_ns]
    return of_rank(view, len(waiting), lambda: waiting, "steps with an exposed data wait")


@metric("%", "data-loader time in training-process operators", "How much of loading is computed in place?")
def loader_operators_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the loader spans that framework operators fill, in the training process itself."""
    view = profile.rank(rank)
    moments = _inside(view, (view.kind == EventKind.OPERATOR) & ~view.named("loader_span"))
    return of_moments(view, _share(view, moments), moments, "operators inside data-loader spans")


@metric("%", "share of data-loader time in {what} frames", "Does the loader read or transform?")
def loader_frames_pct(profile: Profile, rank: int, what: str) -> Measurement:
    """Share of the loader spans in Python frames that read (``reading``) or transform (``processing``)."""
    view, pattern = profile.rank(rank), FRAME_PATTERNS[choice("kind of frame", what, FRAME_PATTERNS)]
    moments = _inside(view, (view.kind == EventKind.PYTHON) & view.named(pattern))
    return of_moments(view, _share(view, moments), moments, f"{what} frames in data-loader spans")


PLACE_SHARE = 0.5  # of the loader's time: what fills so much of it is what it does


@memoized
def loader_place(profile: Profile, rank: int) -> str:
    """The deepest Python function of the program or span of its own that fills most of the loader's time; "" without.

    Frames of Python, torch and other libraries are left out: the function that calls them can be changed.
    """
    view = profile.rank(rank)
    for kind in (EventKind.PYTHON, EventKind.ANNOTATION):
        rows = np.flatnonzero((view.kind == kind) & view.on_training_thread)
        rows = rows[~view.named("loader_span")[rows] & ~view.named("profiler_step")[rows]]
        found = names_covering(view, rows, loader_spans(view))
        library = found["name"].map(lambda name: bool(TRACED_LIBRARY.search(str(name)))).astype(bool)
        own = found[(found["share"] >= PLACE_SHARE) & (found["within"] >= PLACE_SHARE) & ~library]
        own = own[~own["name"].str.endswith(": <module>")]  # the script around the loop is no place in the loader
        titled = own[~own["name"].str.contains("<", regex=False)]  # not the comprehension in a function
        own = titled if len(titled) else own
        if len(own):
            return str(own["name"].to_numpy()[int(own["depth"].to_numpy().argmax())])
    return ""


@metric("%", "share of data-loader time in {name}", "What does the data loader do?")
def loader_named_pct(profile: Profile, rank: int, name: str) -> Measurement:
    """Share of the loader spans in Python frames or spans of this name on a training thread."""
    view = profile.rank(rank)
    kinds = (view.kind == EventKind.PYTHON) | (view.kind == EventKind.ANNOTATION)
    moments = _inside(view, kinds & (view.codes == view.code(name)))
    return of_moments(view, _share(view, moments), moments, "events of one name in data-loader spans")


@metric("ms", "{statistic} exposed host-to-device copy time per step", "How long do uploads delay compute?")
def upload_exposed_ms(profile: Profile, rank: int, statistic: str = "mean") -> Measurement:
    """Time per step in which host-to-device copies run while no kernel does."""
    view = profile.rank(rank)
    value = over_steps(view.per_step_ms(exposed_uploads(view)), statistic)
    return of_events(view, value, upload_rows(view), "host-to-device copies without a kernel")


@metric("%", "exposed host-to-device copy share of the step", "Which share of a step do exposed uploads take?")
def upload_exposed_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the step (median over steps)."""
    view = profile.rank(rank)
    value = np.median(100.0 * view.per_step_ms(exposed_uploads(view)) / view.wall_ms)
    return of_events(view, value, upload_rows(view), "host-to-device copies without a kernel")


@metric("ms", "time per step in restarts of loader workers", "How long do restarts of loader workers take?")
def worker_restart_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step, over all steps, from the end of an epoch to the first batch of new workers."""
    view, table = profile.rank(rank), restarts(profile, rank)
    value = float((table["end_ns"] - table["start_ns"]).sum()) / 1e6 / len(view.steps)
    return of_rank(view, value, lambda: table, "loader calls without training between them, and what lies between")


@metric("ms", "time of one restart of loader workers", "How long does one restart of loader workers take?")
def worker_restart_each_ms(profile: Profile, rank: int) -> Measurement:
    """The median restart; 0 without one."""
    view, table = profile.rank(rank), restarts(profile, rank)
    value = float((table["end_ns"] - table["start_ns"]).median()) / 1e6 if len(table) else 0.0
    return of_rank(view, value, lambda: table, "loader calls without training between them, and what lies between")


@metric("restarts", "restarts of loader workers in the recorded steps", "How often are loader workers started again?")
def worker_restarts(profile: Profile, rank: int) -> Measurement:
    """Ends of epochs at which the workers' processes are stopped and new ones started."""
    table = restarts(profile, rank)
    return of_rank(profile.rank(rank), len(table), lambda: table, "loader calls without training between them")


@metric("workers", "fewest loader workers that keep up", "How many loader workers are needed at least?")
def loader_workers_least(profile: Profile, rank: int) -> Measurement:
    """Batch time over the rest of the step, rounded up; only known where the training process loads by itself."""
    view = profile.rank(rank)
    rows = view.in_steps(view.loader_rows)
    if not len(rows) or not view.named("single_process_loader")[rows].all():
        raise UsageError(f"how long making a batch takes is not recorded on rank {rank}")
    batch_ms = over_steps(view.host_per_step_ms(loader_spans(view)), "mean")
    rest_ms = float(view.wall_ms.mean()) - batch_ms
    if rest_ms <= 0:
        raise UsageError(f"the steps of rank {rank} hold nothing but loading")
    return of_events(view, np.ceil(batch_ms / rest_ms), rows, "data-loader spans over the rest")


def _share(view: RankProfile, moments: IntervalSet) -> float:
    return 100.0 * length(moments) / max(length(loader_spans(view)), 1)

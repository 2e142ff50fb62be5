"""A rank's time by the definitions of three other tools, so that figures can be put side by side.

Every function computes another tool's published definition with our own interval arithmetic. The product's own
breakdown is ``tools.views.parts``; these are for comparison only.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, covered, intersect, length, subtract, union
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_rank
from tools.run.events import DEVICE_WORK, EventKind
from tools.views.device.kernels import kernel_table
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "data_loader", "operator")
KEPT_TAIL = 0.8  # a last step with fewer device operations than this share of the one before is dropped
NEVER = np.iinfo(np.int64).max


Split = dict[str, int]  # nanoseconds by part


TIMELINE = ("total", "compute", "communication", "exposed_communication", "exposed_memcpy", "idle")


def plugin_steps(rank: RankProfile) -> pd.DataFrame:
    """Steps as the PyTorch Profiler TensorBoard plugin bounds them: columns start_ns, end_ns, device_operations.

    A step ends when both its host span and the device work launched from calls wholly inside that span have ended,
    and starts no earlier than the one before ended. A last step with clearly less device work is left out, because
    the recording may have stopped before its work was complete.
    """
    marks = _step_marks(rank)
    host_start, host_end = rank.start[marks], rank.end[marks]
    steps = pd.DataFrame({"start_ns": host_start, "end_ns": host_end, "device_operations": np.zeros_like(marks)})
    if not len(marks):
        return steps
    links = rank.launches
    place = np.searchsorted(host_start, links["call_start_ns"].to_numpy(), side="right") - 1
    inside = (place >= 0) & (links["call_end_ns"].to_numpy() <= host_end[np.maximum(place, 0)])
    work = links[inside].groupby(place[inside])
    operations = work.size().reindex(steps.index, fill_value=0)
    if not operations.any():
        return steps
    others = np.zeros(len(rank.end), dtype=bool)
    others[rank.kernels] = others[rank.copies] = True
    others[links["device_row"].to_numpy()[inside]] = False
    ended = rank.end[others]
    earlier = ended[ended < work["start_ns"].min().reindex([0], fill_value=NEVER).iloc[0]]
    device_end = work["end_ns"].max().reindex(steps.index, fill_value=0).to_numpy()
    before = max(int(earlier.max(initial=0)), int(host_start[0]))
    reached = np.maximum.accumulate(np.append(before, np.maximum(host_end, device_end)))
    steps = steps.assign(
        start_ns=np.maximum(host_start, reached[:-1]), end_ns=reached[1:], device_operations=operations
    )
    last = int(np.flatnonzero(operations)[-1])
    if last > 0 and operations[last - 1] * KEPT_TAIL > operations[last]:
        last -= 1
    return steps.iloc[: last + 1]


def priority_attribution(rank: RankProfile) -> pd.DataFrame:
    """Each moment of a step given to the first active role, as the TensorBoard plugin does: columns <role>_ns."""
    steps = plugin_steps(rank)
    start, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    table = {"start_ns": start, "end_ns": end, "step_ns": end - start}
    rest = union(start, end)
    for role, busy in _role_intervals(rank).items():
        table[f"{role}_ns"] = covered(intersect(rest, busy), start, end)
        rest = subtract(rest, busy)
    table["other_ns"] = covered(rest, start, end)
    return pd.DataFrame(table)


def _role_intervals(rank: RankProfile) -> dict[str, IntervalSet]:
    span = rank.named("communication_span")
    communication = ((rank.kind == EventKind.KERNEL) & rank.named("communication_kernel")) | span
    loader = rank.named("loader_span")
    host = np.isin(rank.kind, [int(EventKind.OPERATOR), int(EventKind.ANNOTATION)])
    masks = {
        "kernel": (rank.kind == EventKind.KERNEL) & ~communication,
        "memcpy": rank.kind == EventKind.MEMCPY,
        "memset": rank.kind == EventKind.MEMSET,
        "communication": communication,
        "runtime": rank.kind == EventKind.RUNTIME,
        "data_loader": host & loader,
        "operator": host & ~loader & ~span & ~rank.named("profiler_step"),
    }
    return {role: rank.covered(mask) for role, mask in masks.items()}


def _step_marks(rank: RankProfile) -> NDArray[np.int64]:
    return np.flatnonzero(rank.named("profiler_step") & (rank.kind == EventKind.ANNOTATION))


def temporal_breakdown(rank: RankProfile, last_step: bool = False, resolution_ns: int = 1, origin_ns: int = 0) -> Split:
    """HolisticTraceAnalysis' breakdown of a device in ns: span, compute, non_compute, idle; communication, overlapped.

    Its window runs from the first start to the last end of device work whose launching call was recorded; with
    several steps and ``last_step`` false, only work launched before the last step began. HTA cuts fractional times
    inwards to whole microseconds; ``resolution_ns=1000`` does the same on the clock whose time is ``origin_ns`` at 0.
    """
    rows = _launched_rows(rank, last_step)
    phase_ns = origin_ns % resolution_ns
    start = -(-(rank.start[rows] + phase_ns) // resolution_ns) * resolution_ns - phase_ns
    end = (rank.end[rows] + phase_ns) // resolution_ns * resolution_ns - phase_ns
    kernel = rank.kind[rows] == EventKind.KERNEL
    communication = kernel & rank.named("communication_kernel")[rows]
    busy_ns, span_ns = length(union(start, end)), int(end.max() - start.min()) if len(rows) else 0
    compute, moved = (union(start[mask], end[mask]) for mask in (kernel & ~communication, communication))
    parts = {"span": span_ns, "compute": length(compute), "non_compute": busy_ns - length(compute)}
    moving = {"communication": length(moved), "overlapped": length(intersect(moved, compute))}
    return {**parts, "idle": span_ns - busy_ns, **moving}


def _launched_rows(rank: RankProfile, last_step: bool) -> NDArray[np.int64]:
    marks = _step_marks(rank)
    if len(marks) < 2:
        return np.flatnonzero(np.isin(rank.kind, [int(kind) for kind in DEVICE_WORK]))
    links = rank.launches
    limit = rank.end[marks].max() + 1 if last_step else rank.start[marks].max()
    return np.unique(links["device_row"].to_numpy()[links["call_start_ns"].to_numpy() < limit])


def device_timeline(rank: RankProfile, recomputed: bool = True, memsets: bool = True) -> Split:
    """TraceLens' timeline over device work whose launching call was recorded: the parts of ``TIMELINE`` in ns.

    Memsets count as compute; copies count only where neither compute nor communication runs. TraceLens can leave out
    what activation checkpointing recomputes (``recomputed`` false), and leaves out device work that no arrow in
    the trace joins to its call, which on some recordings are all memsets (``memsets`` false).
    """
    links = rank.launches if recomputed else rank.launches[~_recomputed(rank)]
    rows = np.unique(links["device_row"].to_numpy())
    if not memsets:
        rows = rows[rank.kind[rows] != EventKind.MEMSET]
    communication = (rank.kind[rows] == EventKind.KERNEL) & rank.named("communication_kernel")[rows]
    copies = rank.kind[rows] == EventKind.MEMCPY
    compute, moved, copied = (rank.covered(rows[mask]) for mask in (~communication & ~copies, communication, copies))
    total_ns = int(rank.end[rows].max() - rank.start[rows].min()) if len(rows) else 0
    exposed = [length(compute), length(subtract(moved, compute)), length(subtract(subtract(copied, compute), moved))]
    values = (total_ns, exposed[0], length(moved), *exposed[1:], total_ns - sum(exposed))
    return dict(zip(TIMELINE, values, strict=True))


def _recomputed(rank: RankProfile) -> NDArray[np.bool_]:
    """True for launches made while a checkpointed forward was computed again on the same thread."""
    links = rank.launches
    calls, again = links["call_start_ns"].to_numpy(), np.zeros(len(links), dtype=bool)
    frames = np.flatnonzero(rank.named("recomputation") & (rank.kind == EventKind.PYTHON))
    for track in np.unique(rank.track[frames]):
        inside = rank.covered(frames[rank.track[frames] == track])
        again |= (links["host_track"].to_numpy() == track) & (covered(inside, calls, calls + 1) > 0)
    return again


TEMPORAL = ("idle", "compute", "non_compute")


@metric("us", "{role} time per step (TensorBoard plugin)", "How long is each role active in a step?")
def plugin_role_us(profile: Profile, role: str, rank: int) -> Measurement:
    """Mean time per step that the TensorBoard plugin's priorities give to a role, or to the whole "step"."""
    column = f"{choice('role', role, (*ROLES, 'other', 'step'))}_ns"
    view = profile.rank(rank)
    table = priority_attribution(view)
    return of_rank(view, table[column].mean() / 1e3, lambda: table, f"priority attribution, role {role}")


@metric("%", "{role} share of the step (TensorBoard plugin)", "How much of a step does each role take?")
def plugin_role_pct(profile: Profile, role: str, rank: int) -> Measurement:
    """The same as a share of the mean step."""
    return as_pct(plugin_role_us(profile, role, rank), plugin_role_us(profile, "step", rank).value)


@metric("%", "device utilization (TensorBoard plugin)", "How busy is the device by the TensorBoard plugin?")
def plugin_utilization_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the time from the first plugin step's start to the last one's end in which a kernel runs."""
    view = profile.rank(rank)
    steps = plugin_steps(view)
    window = union(steps["start_ns"].iloc[:1].to_numpy(), steps["end_ns"].iloc[-1:].to_numpy())
    busy_ns = length(intersect(view.covered(view.kernels), window))
    return of_rank(view, 100.0 * busy_ns / max(length(window), 1), lambda: steps, "kernels within plugin steps")


@metric("%", "share of the step with an open data-loader span", "How long is a data-loader span open?")
def loader_span_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the host's step spans with an open data-loader span, whatever the device does meanwhile."""
    view = profile.rank(rank)
    spans = view.covered(_step_marks(view))
    share = length(intersect(view.covered(view.loader_rows), spans)) / max(length(spans), 1)
    return of_events(view, 100.0 * share, view.loader_rows, "data-loader spans in step spans")


@metric("%", "{part} share of device time (HTA)", "Where does device time go by HolisticTraceAnalysis?")
def temporal_pct(profile: Profile, part: str, rank: int, resolution_ns: int = 1) -> Measurement:
    """Share of the device's span that HolisticTraceAnalysis calls idle, compute or non_compute."""
    selector = f"temporal breakdown, {part}"
    return _temporal(profile, rank, resolution_ns, choice("part", part, TEMPORAL), "span", selector)


@metric("%", "communication overlap (HTA)", "How much communication overlaps with compute by HTA?")
def temporal_overlap_pct(profile: Profile, rank: int, resolution_ns: int = 1) -> Measurement:
    """Share of communication that overlaps with compute, by HolisticTraceAnalysis' definition."""
    selector = "communication that overlaps with compute"
    return _temporal(profile, rank, resolution_ns, "overlapped", "communication", selector)


def _temporal(profile: Profile, rank: int, resolution_ns: int, part: str, whole: str, selector: str) -> Measurement:
    view, origin_ns = profile.rank(rank), profile.run.origin_unix_ns or 0
    split = temporal_breakdown(view, resolution_ns=resolution_ns, origin_ns=origin_ns)
    return of_rank(view, 100.0 * split[part] / max(split[whole], 1), lambda: kernel_table(profile, rank), selector)


@metric("ms", "{part} device time (TraceLens)", "Where does device time go by TraceLens?")
def timeline_ms(profile: Profile, part: str, rank: int, recomputed: int = 1, memsets: int = 1) -> Measurement:
    """Time of one part of TraceLens' device timeline over the whole trace."""
    view = profile.rank(rank)
    value = device_timeline(view, bool(recomputed), bool(memsets))[choice("part", part, TIMELINE)] / 1e6
    return of_rank(view, value, lambda: kernel_table(profile, rank), f"launched device work, {part}")

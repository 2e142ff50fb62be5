"""Pauses of the host: where a training thread does nothing that is recorded while its step waits for it.

Of each pause the place is kept: between which operators it lies, in which steps it comes, and which Python frames cover
it. What is localised but not explained becomes a lead (``tools.judgement.leads``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, covered, intersect, length, subtract
from tools.metrics.idle import idle_time, long_pauses
from tools.metrics.measurement import Measurement, metric, of_rank
from tools.run.events import EventKind
from tools.run.kinds import OFF_CPU
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.steps.modes import modes_of
from tools.views.steps.shape import StepSeries

STEP_BEGIN, STEP_END = "the start of the step", "the end of the step"
WHOLE, MOST, HALF = 0.9, 0.4, 0.5  # shares of the moments that frames cover: all of them, much, and half
MOST_FRAMES = 20
OWN = 0.8  # of a frame: one that is longer outside of the moments is the program around them
TWICE_PCT = 100.0  # a pause that is at least twice as long in some steps has something else in it there
BUILT_IN = "<built-in"  # as the profiler names functions without a line of Python
WRAPPER = re.compile(
    r": (wrapper|wrapped(_f)?|inner(_f)?|_wrapped\w*|_wrapfunc|__call__|decorate_context|_fn|<lambda>)$"
)


@dataclass(frozen=True)
class Cover:
    """The host activity that covers some moments: the deepest one that covers all of them, and much of them."""

    name: str  # "" where nothing covers as much
    inner: str  # a deeper one that covers much of them; "" where there is none
    framed: bool  # whether Python frames account for these moments


@memoized
def pauses(profile: Profile, rank: int) -> IntervalSet:
    """The moments inside steps in which the rank waits for its host, and the host is in no operator or call.

    On a rank with a device: its device is idle and the host pauses (``idle_time``). Without one: no operator runs on a
    training thread, no collective is under way and no batch is asked for. Pauses shorter than ``dispatch_gap_us`` are
    the cost of calling operators and are left out.
    """
    view = profile.rank(rank)
    if view.rank.has_device:
        return idle_time(profile, rank).sets["stall"]
    collecting = view.covered(np.flatnonzero(view.named("garbage_collection") & view.on_training_thread))
    inside = intersect(view.parts.host, view.steps[["start_ns", "end_ns"]].to_numpy())
    return long_pauses(view, subtract(inside, collecting), profile.thresholds["dispatch_gap_us"])


@memoized
def pause_places(profile: Profile, rank: int) -> pd.DataFrame:
    """The rank's pauses, one row each: start_ns, end_ns, step, before, after (operators around it), place.

    A place is a pair of operators on the thread; they are numbered from 1, the longest pauses in all first.
    """
    view, moments = profile.rank(rank), pauses(profile, rank)
    rows = np.flatnonzero(
        (view.kind == EventKind.OPERATOR) & view.on_training_thread & ~view.named("enclosing_operator")
    )
    rows = rows[np.argsort(view.end[rows], kind="stable")]
    starts = rows[np.argsort(view.start[rows], kind="stable")]
    steps = view.steps
    place = np.searchsorted(steps["start_ns"].to_numpy(), moments[:, 0], side="right") - 1
    bounds = steps[["start_ns", "end_ns"]].to_numpy()[np.maximum(place, 0)] if len(steps) else moments
    before = np.searchsorted(view.end[rows], moments[:, 0], side="right") - 1
    after = np.searchsorted(view.start[starts], moments[:, 1], side="left")
    table = pd.DataFrame({"start_ns": moments[:, 0], "end_ns": moments[:, 1]})
    table = table.assign(step=steps["number"].to_numpy()[np.maximum(place, 0)] if len(steps) else 0)
    left, right = np.maximum(before, 0), np.minimum(after, max(len(starts) - 1, 0))
    ended = (before >= 0) & (view.end[rows[left]] > bounds[:, 0]) if len(rows) else np.zeros(len(table), bool)
    begun = (after < len(starts)) & (view.start[starts[right]] < bounds[:, 1]) if len(starts) else ended
    names = view.categories.to_numpy(dtype=object)
    table = table.assign(
        before=np.where(ended, names[view.codes[rows[left]]], STEP_BEGIN) if len(rows) else STEP_BEGIN,
        after=np.where(begun, names[view.codes[starts[right]]], STEP_END) if len(starts) else STEP_END,
    )
    pair = table.groupby(["before", "after"]).ngroup().to_numpy()
    longest = np.argsort(-np.bincount(pair, moments[:, 1] - moments[:, 0]), kind="stable")
    return table.assign(place=np.argsort(longest)[pair] + 1)


def cover(view: RankProfile, moments: IntervalSet) -> Cover:
    """What covers these moments on the training threads: Python frames where recorded, else operators or spans.

    Of nested frames that cover (nearly) all the deepest says what the time is spent on. A frame that runs as long
    outside of the moments is the program around them and names nothing, nor does a decorator's wrapper; then what runs
    inside the moments alone counts, and its largest frame is named.
    """
    for kind in (EventKind.RUNTIME, EventKind.OPERATOR, EventKind.PYTHON, EventKind.ANNOTATION):
        rows = np.flatnonzero((view.kind == kind) & view.on_training_thread & ~view.named("profiler_step"))
        table = names_covering(view, rows, moments)
        whole = table[(table["share"] >= WHOLE) & (table["within"] >= OWN)]
        if len(whole):
            written = whole[~whole["name"].str.startswith(BUILT_IN)]  # the program's own line, not what it calls there
            named = written if len(written) else whole
            deeper = table[(table["share"] >= MOST) & (table["depth"] > named["depth"].max())]
            return Cover(_deepest(named), _deepest(deeper) if len(deeper) else "", kind == EventKind.PYTHON)
        if kind == EventKind.PYTHON and (largest := _running(view, rows, moments)):
            return Cover("", largest, True)
    return Cover("", "", False)


def _deepest(table: pd.DataFrame) -> str:
    return str(table["name"].to_numpy()[int(table["depth"].to_numpy().argmax())])


def _running(view: RankProfile, rows: NDArray[np.int64], moments: IntervalSet) -> str:
    """The largest frame of those inside the moments, where it fills much of them and all together most; else ""."""
    place = np.searchsorted(moments[:, 0], view.start[rows], side="right") - 1
    ends = moments[np.maximum(place, 0), 1] if len(moments) else view.start[rows]
    mine = rows[(place >= 0) & (view.end[rows] <= ends)]
    if length(intersect(view.covered(mine), moments)) < HALF * length(moments) or not len(mine):
        return ""
    spent = np.bincount(view.codes[mine], weights=view.end[mine] - view.start[mine])
    largest = [int(code) for code in np.argsort(-spent)[:MOST_FRAMES] if not WRAPPER.search(str(view.categories[code]))]
    if not largest:
        return ""
    inside = intersect(view.covered(mine[view.codes[mine] == largest[0]]), moments)
    return str(view.categories[largest[0]]) if length(inside) >= MOST * length(moments) else ""


def names_covering(view: RankProfile, rows: NDArray[np.int64], moments: IntervalSet) -> pd.DataFrame:
    """Names that cover much of the moments: columns name, share, depth (shorter is deeper), within (part inside)."""
    total = length(moments)
    inside = covered(moments, view.start[rows], view.end[rows]) if len(rows) and total else np.zeros(len(rows))
    rows, inside = rows[inside > 0], inside[inside > 0]
    codes = view.codes[rows]
    sums = np.bincount(codes, weights=inside, minlength=len(view.categories))
    found = []
    for code in np.flatnonzero(sums >= MOST * total) if total else ():
        mine = rows[codes == code]
        name, spans = str(view.categories[int(code)]), view.covered(mine)
        share = length(intersect(spans, moments)) / total
        lasting = float(np.average(view.end[mine] - view.start[mine], weights=inside[codes == code]))
        if share >= MOST and not WRAPPER.search(name):
            found.append((name, share, -lasting, share * total / max(length(spans), 1)))
    return pd.DataFrame(found, columns=["name", "share", "depth", "within"])


@memoized
def covering(profile: Profile, rank: int) -> Cover:
    """``cover`` of all pauses of a rank."""
    return cover(profile.rank(rank), pauses(profile, rank))


@memoized
def places(profile: Profile, rank: int) -> pd.DataFrame:
    """The places of a rank's pauses, longest in all first: columns before, after, ns."""
    table = pause_places(profile, rank)
    grouped = table.assign(ns=table["end_ns"] - table["start_ns"]).groupby("place")
    return grouped.agg({"before": "first", "after": "first", "ns": "sum"}).reset_index(drop=True)


@memoized
def pause_groups(profile: Profile, rank: int, place: int) -> tuple[tuple[int, ...], ...]:
    """The steps of the n-th of ``places``, in groups of about the same pause, shortest first; usually one group."""
    table = at_place(profile, rank, place)
    lasting = (table["end_ns"] - table["start_ns"]).groupby(table["step"]).sum() / 1e6
    numbers = lasting.index.to_numpy(np.int64)
    by_chance = profile.thresholds["step_groups_by_chance"]
    found = modes_of(StepSeries(numbers, lasting.to_numpy(np.float64)), TWICE_PCT, by_chance)
    grouped = {step for group in found for step in group.steps}
    single = tuple(sorted(set(numbers.tolist()) - grouped))  # single steps far above all others
    groups = tuple(group.steps for group in found) or (tuple(numbers.tolist()),)
    return (*groups, single) if found and single else groups


def at_place(profile: Profile, rank: int, place: int, group: int = 0) -> pd.DataFrame:
    """The rows of ``pause_places`` at the n-th of ``places``, counted from 1; all of them for 0.

    With ``group``, counted from 1, those in the steps of that group of ``pause_groups`` only.
    """
    table, count = pause_places(profile, rank), len(places(profile, rank))
    if not place:
        return table
    if not 1 <= place <= count:
        raise UsageError(f"rank {rank} has {count} places at which its host pauses; there is no place {place}")
    found: pd.DataFrame = table[table["place"] == place]
    if not group:
        return found
    groups = pause_groups(profile, rank, place)
    if not 1 <= group <= len(groups):
        raise UsageError(f"the pauses at this place form {len(groups)} groups of steps; there is no group {group}")
    chosen: pd.DataFrame = found[found["step"].isin(groups[group - 1])]
    return chosen


@metric("ms", "host pause time per step", "How long does a step wait for pauses of the host?")
def host_pause_ms(profile: Profile, rank: int, place: int = 0, group: int = 0) -> Measurement:
    """Pauses of the host that the rank waits for, per step over all its steps; all, or at one place (in one group)."""
    table = at_place(profile, rank, place, group)
    value = float((table["end_ns"] - table["start_ns"]).sum()) / 1e6 / max(len(profile.rank(rank).steps), 1)
    return of_rank(profile.rank(rank), value, lambda: table, "no operator, call, collective or device work")


@metric("%", "host pause share of the step", "How much of the step are pauses of the host?")
def host_pause_pct(profile: Profile, rank: int, place: int = 0, group: int = 0) -> Measurement:
    """The same as a share of the rank's steps."""
    table = at_place(profile, rank, place, group)
    value = 100.0 * float((table["end_ns"] - table["start_ns"]).sum()) / 1e6 / profile.rank(rank).wall_ms.sum()
    return of_rank(profile.rank(rank), value, lambda: table, "no operator, call, collective or device work")


@metric("%", "share of host pauses without a processor", "Does the host run during its pauses?")
def host_pause_off_cpu_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the pauses in which no training thread ran on a processor: it was blocked or not scheduled.

    UsageError where the scheduler's events of these threads are not recorded, or nothing pauses.
    """
    view, moments = profile.rank(rank), pauses(profile, rank)
    rows = np.flatnonzero((view.codes == view.code(OFF_CPU)) & view.on_training_thread)
    if not len(rows):
        raise UsageError(f"rank {rank} recorded no events of the scheduler (nsys profile --cpuctxsw=process-tree)")
    if not length(moments):
        raise UsageError(f"the host of rank {rank} does not pause")
    off = intersect(moments, view.covered(rows))
    value = 100.0 * length(off) / length(moments)
    return of_rank(view, value, lambda: view.events.frame.iloc[rows], "pauses in which the thread is on no processor")


@metric("ms", "host pause time in a step with such pauses", "How long does the host pause in such a step?")
def host_pause_each_ms(profile: Profile, rank: int, place: int = 0, group: int = 0) -> Measurement:
    """The median over the steps that have such pauses."""
    table = at_place(profile, rank, place, group)
    each = (table["end_ns"] - table["start_ns"]).groupby(table["step"]).sum()
    value = float(each.median()) / 1e6 if len(each) else 0.0
    return of_rank(profile.rank(rank), value, lambda: table, "pauses of one step, the median step that has some")


@metric("steps", "number of steps with a host pause", "In how many steps does the host pause at a place?")
def host_pause_steps(profile: Profile, rank: int, place: int = 0) -> Measurement:
    """Steps of the rank with a pause of the host at the place."""
    table = at_place(profile, rank, place)
    return of_rank(profile.rank(rank), float(table["step"].nunique()), lambda: table, "steps with such pauses")

"""Figures of what tools list: an event, a collective, a gap, events that share a label, a phase, the use of peaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import covered
from tools.metrics.idle import idle_time
from tools.metrics.measurement import NEAREST, Measurement, as_pct, choice, event_rows, metric, of_events
from tools.run.events import DEVICE_WORK, EventKind
from tools.run.row_ids import COLLECTIVE, EVENT, GAP, RowId, parse, row_id
from tools.views.communication.collectives import collectives
from tools.views.device.kernels import MATH_CLASSES, kernel_table, spec_for
from tools.views.device.roofline import costed_kernels, roofline
from tools.views.event_labels import BY, PHASES, Labels, labels
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.steps.phases import device_phases, host_phases, overlapping_collectives
from tools.views.work import own_ns

Rows = NDArray[np.int64]
ONE_KIND = ("kernel", "memcpy", "memset", "operator", "annotation", "runtime", "python", "sync")
KINDS: Mapping[str, tuple[EventKind, ...]] = {
    **{name: (EventKind[name.upper()],) for name in ONE_KIND},
    "device": DEVICE_WORK,
    "": tuple(kind for kind in EventKind if kind not in (EventKind.OTHER, EventKind.INSTANT)),
}
ALL_KINDS = (*KINDS, "collective")


@memoized
def kind_rows(profile: Profile, rank: int, kind: str) -> Rows:
    """Rows of a rank's events of a kind, ascending: a key of ``KINDS``, or "collective"."""
    view = profile.rank(rank)
    if choice("kind", kind, ALL_KINDS) == "collective":
        table = collectives(profile)
        return np.sort(table["row"].to_numpy()[(table["rank"] == rank).to_numpy()]).astype(np.int64)
    wanted = np.zeros(max(EventKind) + 1, dtype=bool)
    wanted[[int(each) for each in KINDS[kind]]] = True
    return np.flatnonzero(wanted[view.kind])


@memoized
def own_time(profile: Profile, rank: int, kind: str) -> Rows:
    """Nanoseconds of each of ``kind_rows`` without the events of that kind inside it on its thread."""
    view, rows = profile.rank(rank), kind_rows(profile, rank, kind)
    if kind in ("kernel", "memcpy", "memset", "device", "collective", "sync"):
        return np.asarray(view.end[rows] - view.start[rows], dtype=np.int64)
    return own_ns(view.track[rows], view.start[rows], view.end[rows])


def grouped(known: Labels, own: Rows, duration: Rows) -> pd.DataFrame:
    """Events by label: index code, columns count, own_ns, total_ns, longest_ns, longest and first (their places)."""
    codes = known.codes
    size = len(known.texts)
    count = np.bincount(codes, minlength=size)
    order = np.lexsort((-np.arange(len(codes)), duration, codes))  # the last of a code is its longest, earliest event
    longest = np.full(size, -1, dtype=np.int64)
    longest[codes[order]] = order
    first = np.full(size, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    own_sum, total = (np.zeros(size, dtype=np.int64) for _ in range(2))
    np.add.at(own_sum, codes, own)
    np.add.at(total, codes, duration)
    table = pd.DataFrame({"count": count, "own_ns": own_sum, "total_ns": total, "longest": longest, "first": first})
    table = table[(table["count"] > 0).to_numpy()]
    return table.assign(longest_ns=duration[table["longest"].to_numpy()])


@metric("ms", "duration of the event {event}", "How long is this event?")
def event_ms(profile: Profile, event: str) -> Measurement:
    """Duration of one event by its id (``e0.1520``)."""
    view, row = event_of(profile, parse(event))
    rows = np.array([row])
    steps = tuple(int(step) for step in view.step_of(rows) if step >= 0)
    window = (int(view.start[row]), int(view.end[row]))
    value = (window[1] - window[0]) / 1e6
    return Measurement(value, lambda: event_rows(view, rows), "one event", (view.rank.rank,), steps, window)


def event_of(profile: Profile, asked: RowId) -> tuple[RankProfile, int]:
    """The rank and row of an event's id."""
    if asked.letter != EVENT:
        raise UsageError(f"{asked.letter}{asked.rank} begins no event's id; events are called e0.1520")
    view = profile.rank(asked.rank)
    if not 0 <= asked.place < len(view.start):
        raise UsageError(
            f"rank {asked.rank} has no event e{asked.rank}.{asked.place}; it has rows 0 to {len(view.start) - 1}"
        )
    return view, asked.place


@dataclass(frozen=True, eq=False)
class Members:
    """The events that share a label: their rank, rows and own nanoseconds, and the number of steps they are of."""

    view: RankProfile
    rows: Rows
    own: Rows
    steps: tuple[int, ...]

    def measured(self, value: float) -> Measurement:
        """A figure about them, per step."""
        view, rows = self.view, self.rows
        listed = [view.rank.step(step) for step in self.steps]
        window = (listed[0].start_ns, listed[-1].end_ns)
        per_step = value / len(self.steps)
        return Measurement(
            per_step, lambda: event_rows(view, rows), "events that share a label", (view.rank.rank,), self.steps, window
        )


@metric("ms", "{kind} time per step of one {by} {name}", "How long do events that share this take?")
def events_ms(
    profile: Profile, rank: int, by: str, name: str, kind: str = "kernel", step: int | None = None
) -> Measurement:
    """Time per step (or in ``step``) in a rank's events of a kind that share a name, module, phase, shape, stack,
    stream or process group, without events of that kind inside them."""
    found = members(profile, rank, by, name, kind, step)
    return found.measured(float(found.own.sum()) / 1e6)


@metric("count", "number per step of {kind} events of one {by} {name}", "How many events share this?")
def events_count(
    profile: Profile, rank: int, by: str, name: str, kind: str = "kernel", step: int | None = None
) -> Measurement:
    """Number per step (or in ``step``) of the same events."""
    found = members(profile, rank, by, name, kind, step)
    return found.measured(float(len(found.rows)))


@memoized
def in_step_labels(profile: Profile, rank: int, by: str, kind: str) -> tuple[Rows, Labels]:
    """The events of a kind that start inside the steps, with their labels; computed once per profile."""
    rows = profile.rank(rank).in_steps(kind_rows(profile, rank, kind))
    return rows, labels(profile, rank, choice("grouping", by, BY), rows)


def members(profile: Profile, rank: int, by: str, name: str, kind: str, step: int | None) -> Members:
    """The events of that label; UsageError with the nearest labels where there is none in any step."""
    view = profile.rank(rank)
    rows, known = in_step_labels(profile, rank, by, kind)
    code = known.texts.index(choice(by, name, known.texts))
    chosen = known.codes == code
    if step is not None:
        chosen &= view.step_of(rows) == view.rank.step(step).number
    own = own_time(profile, rank, kind)[np.searchsorted(kind_rows(profile, rank, kind), rows[chosen])]
    steps = tuple(each.number for each in view.rank.steps) if step is None else (step,)
    return Members(view, rows[chosen], own, steps)


@metric("ms", "duration of the collective {collective}", "How long does this collective take?")
def instance_ms(profile: Profile, collective: str) -> Measurement:
    """Duration of one collective by its id (``c0.1520``), waiting for other ranks included."""
    record = collective_of(profile, parse(collective))
    return _of_collective(profile, record, int(record["end_ns"]) - int(record["start_ns"]))


@metric("ms", "overlap of the collective {collective} with compute", "How much of this collective is overlapped?")
def instance_overlap_ms(profile: Profile, collective: str, phase: str = "all") -> Measurement:
    """Time of one collective in which the rank computes as well: anything, or the work of one phase."""
    record = collective_of(profile, parse(collective))
    column = choice("phase", phase, ("all", *PHASES))
    return _of_collective(profile, record, int(record["overlapped_ns" if column == "all" else f"{column}_ns"]))


def _of_collective(profile: Profile, record: pd.Series[Any], nanoseconds: int) -> Measurement:
    view, rows = profile.rank(int(record["rank"])), np.array([int(record["row"])])
    steps = (int(record["step"]),) if record["step"] >= 0 else ()
    window = (int(record["start_ns"]), int(record["end_ns"]))
    return Measurement(
        nanoseconds / 1e6, lambda: event_rows(view, rows), "one collective", (view.rank.rank,), steps, window
    )


def collective_of(profile: Profile, asked: RowId) -> pd.Series[Any]:
    """The row of ``overlapping_collectives`` of an id; UsageError where there is no such collective."""
    table = overlapping_collectives(profile, profile.rank(asked.rank).rank.rank)
    found = table[(table["row"] == asked.place).to_numpy()]
    if asked.letter != COLLECTIVE or found.empty:
        have = ", ".join(row_id(COLLECTIVE, asked.rank, int(row)) for row in table["row"].head(NEAREST))
        raise UsageError(
            f"there is no collective {asked.letter}{asked.rank}.{asked.place}; "
            + (f"rank {asked.rank} has {len(table)}, among them {have}" if have else f"rank {asked.rank} has none")
        )
    return found.iloc[0]


@metric("ms", "duration of the device gap {gap}", "How long is this gap?")
def gap_ms(profile: Profile, gap: str) -> Measurement:
    """Length of one stretch of a step in which the device runs nothing, by its id (``g0.3.2``)."""
    view, record = gap_of(profile, parse(gap))
    window = (int(record["start_ns"]), int(record["end_ns"]))
    frame = pd.DataFrame([window], columns=["start_ns", "end_ns"])
    value = (window[1] - window[0]) / 1e6
    return Measurement(value, lambda: frame, "one device gap", (view.rank.rank,), (int(record["step"]),), window)


@memoized
def numbered_gaps(profile: Profile, rank: int) -> pd.DataFrame:
    """The rows of ``IdleTime.gaps`` with a column ``number``, from 0 in each step."""
    gaps = idle_time(profile, rank).gaps
    return gaps.assign(number=gaps.groupby("step").cumcount())


def gap_of(profile: Profile, asked: RowId) -> tuple[RankProfile, pd.Series[Any]]:
    """The rank and row of ``numbered_gaps`` of an id; UsageError where there is no such gap."""
    view, gaps = profile.rank(asked.rank), numbered_gaps(profile, asked.rank)
    view.rank.step(asked.place)
    mine = gaps[(gaps["step"] == asked.place).to_numpy()]
    found = mine[(mine["number"] == asked.second).to_numpy()]
    if asked.letter != GAP or found.empty:
        raise UsageError(
            f"there is no gap {asked.letter}{asked.rank}.{asked.place}.{asked.second}; "
            f"step {asked.place} of rank {asked.rank} has {len(mine)}, numbered from 0"
        )
    return view, found.iloc[0]


PLACES = ("device", "host")


@metric("ms", "{place} time per step in the {phase} phase", "How long does a phase of the step take?")
def phase_ms(profile: Profile, rank: int, phase: str, place: str = "device", step: int | None = None) -> Measurement:
    """Time per step (or in ``step``) in which a phase's kernels run, or in which the host works in it."""
    view = profile.rank(rank)
    if choice("place", place, PLACES) == "device" and not view.rank.has_device:
        raise UsageError(f"rank {rank} has no device; place host gives the time of its threads")
    moments = (device_phases if place == "device" else host_phases)(profile, rank)[choice("phase", phase, PHASES)]
    table = view.steps if place == "device" else view.host_steps
    table = table if step is None else table[(table["number"] == view.rank.step(step).number).to_numpy()]
    inside = covered(moments, table["start_ns"].to_numpy(), table["end_ns"].to_numpy())
    steps = tuple(int(number) for number in table["number"])
    window = (int(table["start_ns"].min()), int(table["end_ns"].max()))
    frame = table.assign(phase_ns=inside)
    return Measurement(float(inside.mean()) / 1e6, lambda: frame, f"{phase} on the {place}", (rank,), steps, window)


@metric("FLOP", "operations per step", "How many operations do the recorded shapes need per step?")
def model_flop(profile: Profile, rank: int) -> Measurement:
    """Operations per step of matrix operators and convolutions with recorded shapes, a multiply-add counted as two."""
    view, calls = profile.rank(rank), _known_math(profile, rank)
    rows = calls["operator"].to_numpy()
    return of_events(view, float(calls["flops"].sum()) / len(view.steps), rows, "operators with known operations")


@metric("TFLOP/s", "operations per second of a step", "At which rate does the device compute over a whole step?")
def achieved_tflops(profile: Profile, rank: int) -> Measurement:
    """Operations of a step with known shapes over the rank's mean traced step."""
    found = model_flop(profile, rank)
    return replace(found, value=found.value / (float(profile.rank(rank).wall_ms.mean()) * 1e9))


@metric("%", "share of matrix kernel time with known operations", "How much of the arithmetic is known?")
def flop_coverage_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the time of matrix, convolution and attention kernels that lies in operators with known operations."""
    calls, view, table = _known_math(profile, rank), profile.rank(rank), kernel_table(profile, rank)
    math = table[table["kernel_class"].isin(MATH_CLASSES).to_numpy()]
    whole = int(math["duration_ns"].sum())
    if not whole:
        raise UsageError(f"rank {rank} runs no kernel that multiplies matrices or convolves")
    known = costed_kernels(profile, rank)
    counted = known["operator"].isin(calls["operator"]).to_numpy()
    inside = np.isin(math["row"].to_numpy(), known["row"].to_numpy()[counted])
    value = 100.0 * int(math["duration_ns"].to_numpy()[inside].sum()) / whole
    return of_events(view, value, math["row"].to_numpy()[inside], "kernels of operators with known operations")


@metric("FLOP/s", "peak of the device for the precision in use", "What could the device do?")
def device_peak(profile: Profile, rank: int) -> Measurement:
    """Dense peak of the datasheet for the type, and the kind of unit, in which most of the operations were done."""
    view, calls = profile.rank(rank), _known_math(profile, rank)
    spec = spec_for(view)
    if spec is None:
        raise UsageError(f"the device of rank {rank} is not in the table of devices, so its peak is not known")
    sums = calls.groupby([calls["precision"].astype(str), "matrix"])["flops"].sum()
    most = sums.reset_index().iloc[int(sums.to_numpy().argmax())]
    precision, matrix = str(most["precision"]), bool(most["matrix"])
    peak = spec.peak_flops_per_s(precision, matrix) if precision else None
    if peak is None:
        raise UsageError("neither kernel names nor recorded types show in which precision the matrices were multiplied")
    unit = "matrix units" if matrix else "ordinary units"
    return of_events(view, peak, calls["operator"].to_numpy(), f"{spec.name}, {precision} on {unit}: {spec.source}")


@metric("%", "model FLOP utilization", "Which share of the device's peak does a step use (MFU)?")
def mfu_pct(profile: Profile, rank: int) -> Measurement:
    """Operations of a step over what the device could do in the rank's mean traced step."""
    return as_pct(
        model_flop(profile, rank), device_peak(profile, rank).value * float(profile.rank(rank).wall_ms.mean()) / 1e3
    )


def _known_math(profile: Profile, rank: int) -> pd.DataFrame:
    """Calls of matrix operators with known operations; UsageError that says what is missing where there is none."""
    view = profile.rank(rank)
    if not view.rank.has_device:
        raise UsageError(f"rank {rank} has no device, and the peak of its processor is not recorded")
    calls = roofline(profile, rank)
    calls = calls[calls["flops"].notna().to_numpy()]
    if calls.empty:
        raise UsageError("no matrix operator has recorded shapes; record with record_shapes=True")
    return calls

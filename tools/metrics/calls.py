"""Numbers, time and percentiles of events of a kind or a name, and the phase in which a call spends its time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.instances import KINDS, kind_rows
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, over_steps
from tools.run.events import DEVICE_WORK
from tools.views.event_labels import PHASES, labels
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import host_calls

Rows = NDArray[np.int64]


@metric("count", "{kind} events per step", "How many events of this kind does a step hold?")
def kind_count(
    profile: Profile, rank: int, kind: str, part: str = "", min_us: float = 0.0, max_us: float = 0.0, without: str = ""
) -> Measurement:
    """Events of a kind per step of a rank: those whose name holds ``part``, that take ``min_us`` or more, and, where
    ``max_us`` is given, less than that. ``part`` and ``without`` are parts of names, several with ``|`` between."""
    view, rows = _of_kind(profile, rank, kind, part, min_us, max_us, without)
    return of_events(view, len(rows) / len(view.steps), rows, _selector(kind, part, min_us, max_us))


@metric("ms", "time per step in {kind} events", "How long does at least one event of this kind run?")
def kind_ms(
    profile: Profile, rank: int, kind: str, part: str = "", min_us: float = 0.0, max_us: float = 0.0, without: str = ""
) -> Measurement:
    """Time per step in which at least one of the same events runs; what runs at the same time counts once."""
    view, rows = _of_kind(profile, rank, kind, part, min_us, max_us, without)
    on_device = view.rank.has_device and (kind == "collective" or KINDS[kind][0] in DEVICE_WORK)
    moments = view.covered(rows)
    per_step = view.per_step_ms(moments) if on_device else view.host_per_step_ms(moments)
    return of_events(view, float(np.mean(per_step)), rows, _selector(kind, part, min_us, max_us))


@metric("%", "share of the {of} in {kind} events", "Which share of a step, or of the device's busy time, are these?")
def kind_pct(
    profile: Profile, rank: int, kind: str, part: str = "", of: str = "step", without: str = ""
) -> Measurement:
    """The same time as a share of the step, or (``of`` busy) of the time in which any kernel runs."""
    view, own = profile.rank(rank), kind_ms(profile, rank, kind, part, without=without)
    if choice("whole", of, ("step", "busy")) == "step":
        return as_pct(own, float(view.wall_ms.mean()))
    kernels = kind_ms(profile, rank, "kernel").value
    if not kernels:
        raise UsageError(f"no kernel runs in the steps of rank {rank}")
    return as_pct(own, kernels)


@metric("ms", "{statistic} duration of single {kind} events", "How long is one event of this kind?")
def kind_each_ms(
    profile: Profile, rank: int, kind: str, part: str = "", statistic: str = "max", without: str = ""
) -> Measurement:
    """Duration of the single events of a kind in a rank's steps: median, mean, min, max, p95 or p99 of them."""
    view, rows = _of_kind(profile, rank, kind, part, 0.0, 0.0, without)
    if not len(rows):
        raise UsageError(f"no such event of kind {kind} starts in the steps of rank {rank}")
    taken_ms = (view.end[rows] - view.start[rows]) / 1e6
    return of_events(view, over_steps(taken_ms, statistic), rows, _selector(kind, part, 0.0, 0.0))


@metric("ms", "{statistic} duration of one {name}", "How long does a single call take?")
def call_ms(profile: Profile, rank: int, name: str, statistic: str = "median") -> Measurement:
    """Duration of the single events of exactly this name in a rank's steps: median, mean, p95, p99 or max of them."""
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero(view.codes == view.code(name)))
    if not len(rows):
        choice("event", name, view.distinct_names(view.in_steps(kind_rows(profile, rank, ""))))
    taken_ms = (view.end[rows] - view.start[rows]) / 1e6
    return of_events(view, over_steps(taken_ms, statistic), rows, "events of one name")


@metric("%", "share of the own time of {name} in the {phase} phase", "In which phase does this call spend its time?")
def call_phase_pct(profile: Profile, rank: int, name: str, phase: str) -> Measurement:
    """Share of the own host time of the training threads' calls of exactly this name inside one phase of the step."""
    view, table = profile.rank(rank), host_calls(profile, rank)
    table = table[table["name"] == view.code(name)]
    whole, rows = int(table["own_ns"].sum()), table["row"].to_numpy()
    if not whole:
        raise UsageError(f"no host call of that name takes time in the steps of rank {rank}")
    known = labels(profile, rank, "phase", rows)
    wanted = choice("phase", phase, PHASES)
    inside = np.array([known.texts[code] == wanted for code in known.codes], dtype=bool)
    value = 100.0 * int(table["own_ns"].to_numpy()[inside].sum()) / whole
    return of_events(view, value, rows[inside], f"calls of one name in the phase {wanted}")


def _of_kind(
    profile: Profile, rank: int, kind: str, part: str, min_us: float, max_us: float, without: str
) -> tuple[RankProfile, Rows]:
    view = profile.rank(rank)
    rows = view.in_steps(kind_rows(profile, rank, kind))
    length_ns = view.end[rows] - view.start[rows]
    rows = rows[(length_ns >= round(min_us * 1e3)) & ((length_ns < round(max_us * 1e3)) | (max_us <= 0))]
    if part:
        wanted, others = (text.casefold().split("|") if text else [] for text in (part, without))
        present = np.unique(view.codes[rows])
        names = [str(view.categories[code]).casefold() for code in present]
        held = [any(each in name for each in wanted) and not any(each in name for each in others) for name in names]
        rows = rows[np.isin(view.codes[rows], present[np.array(held, dtype=bool)])]
    return view, rows


def _selector(kind: str, part: str, min_us: float, max_us: float) -> str:
    text = f"events of kind {kind or 'any'}"
    text += f" whose name holds {part}" if part else ""
    text += f", at least {min_us:.10g} us long" if min_us else ""
    return text + (f", shorter than {max_us:.10g} us" if max_us > 0 else "")

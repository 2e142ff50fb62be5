"""Achieved rates of matrix operators that compute on the host."""

from __future__ import annotations

import numpy as np

from tools.errors import UsageError
from tools.intervals import length, union
from tools.metrics.measurement import Measurement, metric, of_events
from tools.views.host.call_costs import costly_calls
from tools.views.host.held_up import held_up, taken_share
from tools.views.host.rates import host_rates, reference_gflops, rows_of, slow_math
from tools.views.host.scheduler_ticks import on_ticks
from tools.views.profile import Profile


@metric("%", "share of the step in slow matrix operators", "How much of the step do slow matrix operators take?")
def slow_math_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the step in matrix operators that stay far below the fastest one of the rank."""
    view, slow = profile.rank(rank), slow_math(profile, rank)
    wall_ns = float(view.breakdown["wall_ns"].sum())
    share = 100.0 * float(slow["total_ns"].sum()) / wall_ns
    return of_events(view, share, rows_of(slow), "matrix operators far below the fastest one's rate")


@metric("GFLOP/s", "rate of the {which} matrix operator", "Which rate do matrix operators reach?")
def math_gflops(profile: Profile, which: str, rank: int) -> Measurement:
    """Rate of the second-fastest operator, at least what any core reaches (``fast``), or of the longest slow one."""
    view = profile.rank(rank)
    chosen = {"fast": host_rates(profile, rank), "slow": slow_math(profile, rank)}.get(which)
    if chosen is None:
        raise UsageError(f"there is no {which!r} matrix operator; choose fast or slow")
    if chosen.empty:
        raise UsageError("no matrix operator of known shape ran often enough on the host")
    order = np.argsort(chosen["gflops" if which == "fast" else "total_ns"].to_numpy(dtype=float))
    row = chosen.iloc[int(order[-2] if which == "fast" and len(order) > 1 else order[-1])]
    value = (
        max(float(row["gflops"]), reference_gflops(chosen, profile.thresholds["plain_core_gflops"]))
        if which == "fast"
        else float(row["gflops"])
    )
    return of_events(view, value, row["rows"], f"calls of {row['name']} {row['dims']}")


def slow_factor(profile: Profile, rank: int) -> float:
    """What would be left of the slow operators' time at the fastest operator's rate; 1.0 where none is slow."""
    slow = slow_math(profile, rank)
    if slow.empty:
        return 1.0
    ideal_ns = (slow["total_ns"] * slow["gflops"]).sum() / reference_gflops(
        host_rates(profile, rank), profile.thresholds["plain_core_gflops"]
    )
    return float(ideal_ns / slow["total_ns"].sum())


@metric("%", "share of the step in which operators are held up", "How much of the step are operators held up?")
def delayed_calls_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the rank's steps by which calls of operators exceed what the same operator usually takes."""
    view, calls = profile.rank(rank), held_up(profile, rank)
    lost_ns = float((calls["own_ns"] - calls["usual_ns"]).sum())
    value = 100.0 * lost_ns / float(view.breakdown["wall_ns"].sum())
    return of_events(view, value, calls["row"].to_numpy(np.int64), "operators far over their own median")


@metric("calls", "number of held-up operator calls per step", "How many operator calls of a step are held up?")
def delayed_calls_count(profile: Profile, rank: int) -> Measurement:
    """Calls per step that take far longer than the same operator usually does."""
    view, calls = profile.rank(rank), held_up(profile, rank)
    rows = calls["row"].to_numpy(np.int64)
    return of_events(view, len(calls) / len(view.steps), rows, "operators far over their own median")


@metric("%", "share of brief operators' time for which the core is taken away", "Does anybody take the core?")
def core_taken_pct(profile: Profile, rank: int) -> Measurement:
    """Delay of calls far shorter than a scheduler's slice as a share of their time; known where enough are due."""
    view, share, calls = profile.rank(rank), taken_share(profile, rank), held_up(profile, rank)
    if share is None:
        raise UsageError(f"rank {rank} has too few calls of operators far shorter than a scheduler's slice")
    return of_events(view, 100.0 * share, calls["row"].to_numpy(np.int64), "held-up calls far shorter than a slice")


@metric("%", "share of the step in operators on the scheduler's ticks", "Do operators last multiples of a tick?")
def tick_calls_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the rank's steps in operators that last a whole number of the scheduler's ticks, whatever their work."""
    view, rows = profile.rank(rank), on_ticks(profile, rank)
    value = 100.0 * length(union(view.start[rows], view.end[rows])) / float(view.breakdown["wall_ns"].sum())
    return of_events(view, value, rows, "operators that last a multiple of the scheduler's tick")


@metric("ms", "time per step in calls far longer than others of the same operator", "What do such calls cost?")
def costly_calls_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in the calls that in every step cost many times as much as others of the same operator."""
    view, calls = profile.rank(rank), costly_calls(profile, rank)
    chosen = calls[calls["costly"]]
    value = float(chosen["own_ns"].sum()) / 1e6 / max(len(view.steps), 1)
    return of_events(view, value, chosen["row"].to_numpy(np.int64), "calls far longer than others of one operator")


@metric("ms", "median {which} call of the operator with the most unequal calls", "How long do its calls take?")
def unequal_call_ms(profile: Profile, rank: int, which: str) -> Measurement:
    """Median of the ``long`` or of the ``short`` calls of the operator that ``costly_calls_ms`` is about."""
    view, calls = profile.rank(rank), costly_calls(profile, rank)
    wanted = {"long": calls["costly"], "short": ~calls["costly"]}.get(which)
    if wanted is None:
        raise UsageError(f"there are no {which!r} calls; choose long or short")
    if calls.empty:
        raise UsageError("no operator has calls of very different cost, or shapes are recorded")
    chosen = calls[wanted]
    value = float(chosen["own_ns"].median()) / 1e6
    return of_events(view, value, chosen["row"].to_numpy(np.int64), f"{which} calls of one operator")

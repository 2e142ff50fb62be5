"""Pauses of the host inside the steps: garbage collection and compilation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.figures import by_rank, host_saving, measure_all, measure_ranks, measured, overlapped
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Saving, Sentence
from tools.metrics.host.compiled import versions
from tools.metrics.host.program import span_rows
from tools.metrics.recorded.series import part_ms
from tools.metrics.registry import measure
from tools.views.host.records import HostRecords
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.steps.coarse import capture_of
from tools.views.steps.series import RunSeries

COLLECTING, COMPILING = "garbage_collection", "compilation"  # name patterns of spans
METHOD = "pauses of the collector, the longest rank of each step"
AS_LONG = 0.8  # of the longest rank's pause: a rank that collects nearly as long holds the step up as well
CALLED = 2.0  # times what the thresholds allow: then at least half of the full collections are called for
APART = 1.3  # times the worst rank's own pauses: what all cost together when they do not collect in the same steps
MOST_LONG = 2.0  # long steps per compilation seen: a trace shows the versions of a few steps only
OPEN = "What the thread computes in the long steps is not recorded; an evaluation would look the same."
SEVERAL = "The traced steps use several versions of one region: their inputs differ in shape."
RECURS = "Compiled regions were recompiled before, {0} or more, so it recurs."
SOME_LEAST, SOME_MOST = (
    0.3,
    1.3,
)  # of what recorded steps lose that compile now and then: another window holds less or more
NOT_COUNTED = "no trace was read, and the records count no compilation worth noting"


def _exposed(profile: Profile, pattern: str) -> dict[int, Fact]:
    """Share of the step that recorded spans of these names hold up, on the ranks that have some."""
    views = profile.ranks if profile.traced else ()
    ranks = [view.rank.rank for view in views if len(span_rows(view, pattern))]
    return measure_ranks(profile, ranks, "host_span_exposed_pct", pattern=pattern)


def _steps(view: RankProfile, pattern: str) -> tuple[int, ...]:
    return tuple(int(step) for step in np.unique(view.step_of(span_rows(view, pattern))))


@check(
    *("cpu.garbage_collection", "Garbage collection", "Do garbage-collection pauses hold up the steps?"),
    causes=("garbage_collection",),
    mechanisms=("explicit_collection",),
    from_records="host",
)
def garbage_collection(profile: Profile) -> Check | Finding:
    """Collections recorded inside the steps; without recorded ones there is no answer."""
    if profile.series is not None and profile.series.origin == "monitor":
        return _recorded_collections(profile, profile.series)
    shares, limits = _exposed(profile, COLLECTING), profile.thresholds
    if not shares:
        return cannot_answer(
            "no collections are recorded, and a profiler does not record automatic ones by itself",
            "the run under the monitor, torch.profiler with _ExperimentalConfig(record_python_gc_info=True), or a"
            " gc.callbacks hook that opens a record_function span",
        )
    worst, chosen = worst_of(shares), affected(shares, limits["noted_pct"])
    metrics = ("host_span_count", "host_span_exposed_ms", "host_span_longest_ms")
    count, exposed, longest = measure_all(profile, *metrics, rank=worst, pattern=COLLECTING)
    if not chosen or longest.value < limits["garbage_collection_ms"]:
        text = "{0} of the garbage collector are recorded in the steps, the longest {1}."
        return clean(say(text, count, longest))
    text = "{0} of Python's garbage collector hold the recorded steps up for {1} per step, the longest for {2}."
    return Finding(
        cause="garbage_collection",
        claim=say(text, count, exposed, longest),
        confidence=confidence((shares[worst].value, limits["cause_share_pct"])),
        ranks=chosen,
        steps=_steps(profile.rank(worst), COLLECTING),
        # Collections cannot be done without, but rarer: a tenth remains at best, half in the cautious view.
        change=shortened_on(profile, chosen, lambda view: span_rows(view, COLLECTING), 0.1, 0.5),
    )


def _recorded_collections(profile: Profile, series: RunSeries) -> Check | Finding:
    """By the monitor, which notes every collection: a step is as long as its rank that collects longest."""
    shares = {rank: 100.0 * float(part_ms(series, "gc", rank).mean()) / series.mean_ms for rank in series.ranks}
    worst, limits = worst_of(shares), profile.thresholds
    cost, longest = measure(profile, "collector_cost_ms"), measure(profile, "collector_longest_ms", rank=worst)
    cost_pct = 100.0 * cost.value / series.mean_ms
    if cost_pct < limits["collector_pct"] or longest.value < limits["garbage_collection_ms"]:
        text = "Steps wait {0} for Python's collector on average; its longest pause is {1}."
        return clean(say(text, cost, longest))
    collecting = affected(shares, limits["noted_pct"] / 2)
    ranks = affected(_held_up(series), limits["noted_pct"] / 2)
    if hidden := overlapped(profile, ranks, cost, rare=True):
        return hidden
    own = measure(profile, "series_part_ms", part="gc", rank=worst)
    runs = measure(profile, "collector_runs_per_step", rank=worst)
    details = [say(f"On rank {worst} collections take {{0}} per step, {{1}} of them.", own, runs)]
    objects = measured(profile, "tracked_objects", rank=worst)
    if objects is not None:
        details.append(say(f"A full collection on rank {worst} looks at {{0}}.", objects))
    called = _called(profile, worst)
    if called is not None:
        details.append(called)
    shorter = {rank: shares[rank] for rank in collecting if rank not in ranks}
    if shorter:
        other = worst_of(shorter)
        text = f"Collections on rank {other} take {{0}} per step: less, but the saving needs the same change there."
        details.append(say(text, measure(profile, "series_part_ms", part="gc", rank=other)))
    if len(ranks) > 1 and cost.value > APART * own.value:
        text = "The ranks collect in different steps: together they hold up {0} per step, the worst alone {1}."
        details.append(say(text, cost, own))
    others = ", and not on all ranks: the others wait" if len(collecting) < len(profile.rank_numbers) else ""
    text = f"Python's garbage collector holds the steps up for {{0}} on average, at most for {{1}} at a time{others}."
    return Finding(
        cause="garbage_collection",
        mechanism=None if called is None else "explicit_collection",
        claim=say(text, cost, longest),
        confidence=confidence((cost_pct, limits["collector_pct"]), (longest.value, limits["garbage_collection_ms"])),
        ranks=ranks,
        also_on=tuple(sorted(shorter)),
        saving=host_saving(profile, ranks, 0.95 * cost.value, (0.6, 1.1), METHOD, rare=True),
        details=tuple(details),
    )


def _held_up(series: RunSeries) -> dict[int, float]:
    """By rank: the percentage of the mean step that it collects in steps in which no rank collects much longer."""
    usual = series.usual
    long = usual["gc_ms"] >= AS_LONG * usual.groupby("step")["gc_ms"].transform("max")
    own = usual["gc_ms"].where(long, 0.0).groupby(usual["rank"]).mean()
    return {rank: 100.0 * float(own.loc[rank]) / series.mean_ms for rank in series.ranks}


def _called(profile: Profile, rank: int) -> Sentence | None:
    """That the code calls the collector; None where the thresholds can explain the full collections."""
    full = measured(profile, "full_collections_pct", rank=rank)
    automatic = measured(profile, "automatic_full_pct", rank=rank)
    if full is None or automatic is None or full.value <= CALLED * automatic.value or not full.value:
        return None
    text = (
        "Of the collections {0} are full ones, where the collector's thresholds cause {1} at most: the program or a"
        " library calls `gc.collect()`."
    )
    return say(text, full, automatic)


@check(
    *("cpu.operator_compilation", "Compilation", "Is code compiled during the steps?"),
    causes=("operator_compilation",),
    mechanisms=("dynamic_shape", "graph_recapture", "cold_start"),
    from_records="host",
)
def operator_compilation(profile: Profile) -> Check | Finding:
    """Compile events inside the recorded steps, and compilation in the unprofiled ones."""
    if not profile.traced:
        return _unprofiled_compilation(profile) or cannot_answer(NOT_COUNTED, capture_of(profile))
    shares = _exposed(profile, COMPILING)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        return _unprofiled_compilation(profile) or _little_compilation(profile, shares)
    worst = worst_of(shares)
    facts = measure_all(profile, "host_span_count", "host_span_exposed_ms", rank=worst, pattern=COMPILING)
    text = "{0} of a compiler lie inside the recorded steps and hold them up for {1} per step on average."
    view = profile.rank(worst)
    steps = _steps(view, COMPILING)
    first = steps == (int(view.steps["number"].iloc[0]),)
    captured = bool(view.in_steps(np.flatnonzero(view.named("graph_capture"))).size)
    again = measure(profile, "compiled_again", rank=worst)
    recurs = again.value >= profile.thresholds["compiled_again"]
    change = shortened_on(profile, chosen, lambda view: span_rows(view, COMPILING), 0.0)
    return Finding(
        cause="operator_compilation",
        mechanism="graph_recapture" if captured else "cold_start" if first else "dynamic_shape",
        claim=say(text, *facts),
        confidence=confidence((shares[worst].value, profile.thresholds["cause_share_pct"])),
        ranks=chosen,
        steps=steps,
        # In some of the steps only a replay knows no frequency; that it recurs is known by the versions so far.
        change=() if recurs and len(steps) < len(view.steps) else change,
        saving=_of_some_steps(profile, facts[1].value) if recurs and len(steps) < len(view.steps) else None,
        details=(say(RECURS, again),) if recurs else (),
    )


def _of_some_steps(profile: Profile, cost_ms: float) -> Saving:
    """All of it, by the recorded steps; how often other steps compile is less sure."""
    step_ms = profile.mean_step_ms
    most_ms = min(SOME_MOST * cost_ms, step_ms)
    return Saving(step_ms, cost_ms, SOME_LEAST * cost_ms, most_ms, "compilation, mean of the recorded steps")


def _little_compilation(profile: Profile, shares: dict[int, Fact]) -> Check:
    if shares:
        metrics = ("host_span_count", "host_span_exposed_ms")
        facts = measure_all(profile, *metrics, rank=worst_of(shares), pattern=COMPILING)
        return clean(say("{0} of a compiler are recorded; the device waits {1} per step for them.", *facts))
    compiled = [view.rank.rank for view in profile.ranks if view.named("compiled_region").any()]
    if compiled:
        fact = measure(profile, "host_span_count", rank=compiled[0], pattern=COMPILING)
        return clean(say("Compiled regions run, and {0} of the compiler lie inside the steps.", fact))
    return cannot_answer(
        "neither compile events nor compiled regions are recorded, and other compilers leave no trace",
        "a trace with with_stack=True, or the log of TORCH_LOGS=recompiles",
    )


def _unprofiled_compilation(profile: Profile) -> Finding | None:
    """The finding of the unprofiled steps; None where they show no compilation worth noting."""
    if profile.series is None:
        return None
    finding = None if profile.host_records is None else _counted(profile, profile.series, profile.host_records)
    return finding or (_by_versions(profile, profile.series) if profile.traced else _by_limit(profile, profile.series))


def _by_limit(profile: Profile, series: RunSeries) -> Finding | None:
    """By the output: a function ran into the limit of recompilations, and steps are longer since it runs uncompiled."""
    sides = (measured(profile, "recompile_limit_step_ms", side=side) for side in ("before", "after"))
    (before, after), cost = sides, measured(profile, "recompile_limit_cost_ms")
    if before is None or after is None or cost is None:
        return None
    longer_pct = 100.0 * (after.value / max(before.value, 1e-9) - 1.0)
    if longer_pct < profile.thresholds["fluctuation_pct"]:
        return None
    text = "A compiled function ran into the limit of recompilations and runs uncompiled since: a step took {0} before"
    claim = say(
        f"{text}, takes {{1}} after, and with the long steps before it loses {{2}} on average.", *(before, after, cost)
    )
    sure = confidence((longer_pct, profile.thresholds["fluctuation_pct"]), at_most=0.8)
    found = _recompiled(profile, series.ranks, claim, sure, "mean step less the median one before the limit")
    return replace(found, steps=())


def _counted(profile: Profile, series: RunSeries, records: HostRecords) -> Finding | None:
    costs = by_rank(profile, records, "counter_ms_per_step", field="compile_us")
    shares = {rank: 100.0 * cost.value / series.mean_ms for rank, cost in costs.items()}
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen or overlapped(profile, chosen, costs[worst_of(shares)], rare=True):
        return None
    worst = worst_of(shares)
    rate = measure(profile, "counter_per_second", rank=worst, field="compilations")
    claim = say("Code is compiled while the training runs, at {0}, which takes {1} per step.", rate, costs[worst])
    sure = confidence((shares[worst], profile.thresholds["cause_share_pct"]), at_most=0.92)
    return _recompiled(profile, chosen, claim, sure, "time that torch compiled for")


def _by_versions(profile: Profile, series: RunSeries) -> Finding | None:
    """By compiled regions that have many versions, and long steps in which the thread computes."""
    limits, again = profile.thresholds, measure_ranks(profile, profile.run.rank_numbers, "compiled_again")
    costs: dict[int, Fact] = {}
    for rank, count in again.items():
        cost, long = (measured(profile, name, rank=rank) for name in ("computing_long_ms", "computing_long_steps"))
        often = count.value >= limits["compiled_again"]
        if cost is not None and long is not None and often and 0 < long.value <= MOST_LONG * count.value:
            costs[rank] = cost
    shares = {rank: 100.0 * cost.value / series.mean_ms for rank, cost in costs.items()}
    chosen = affected(shares, limits["noted_pct"])
    if not chosen:
        return None
    worst = worst_of(shares)
    claim = say(
        "Compiled regions were recompiled, {0} or more; in {1} far above the median the thread computes, {2} per step.",
        *(again[worst], measure(profile, "computing_long_steps", rank=worst), costs[worst]),
    )
    passed = (again[worst].value, limits["compiled_again"]), (shares[worst], limits["cause_share_pct"])
    method = "long steps in which the thread computes, without collections"
    finding = _recompiled(profile, chosen, claim, confidence(*passed, at_most=0.8), method)
    return replace(finding, against=(say(OPEN),))


def _recompiled(profile: Profile, ranks: tuple[int, ...], claim: Sentence, sure: float, method: str) -> Finding:
    """The finding of unprofiled steps; the last figure of the claim is the cost per step."""
    traced = [profile.rank(rank) for rank in ranks if rank in profile.run.rank_numbers]
    shapes = any((versions(view)["in_use"] > 1).any() for view in traced)
    cost = claim.facts[-1]
    return Finding(
        cause="operator_compilation",
        mechanism="dynamic_shape" if shapes else None,
        claim=claim,
        confidence=sure,
        ranks=ranks,
        steps=cost.steps,
        saving=host_saving(profile, ranks, cost.value, (0.6, 1.2), method, rare=True),
        details=(say(SEVERAL),) if shapes else (),
    )

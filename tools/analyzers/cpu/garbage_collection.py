"""Do pauses of Python's garbage collector stop the host? From monitor records, else from spans in the trace."""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, measure_all, say, worst_of
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.recorded import host_saving, measured, overlapped
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding
from tools.metrics.host.program import span_rows
from tools.metrics.recorded.series import part_ms
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.series import RunSeries

PATTERN = "garbage_collection"
DISPROVED = "the steps are as long with gc.disable() for a few hundred steps"
SIGNALS = ("gen-2 collections inside steps", "host pauses that differ by rank and step")
METHOD = "pauses of the collector, the longest rank of each step"
APART = 1.3  # times the worst rank's own pauses: what all cost together when they do not collect in the same steps


@check(
    *("cpu.garbage_collection", "Garbage collection", "Do garbage-collection pauses hold up the steps?"),
    causes=("garbage_collection",),
    from_records="host",
)
def garbage_collection(profile: Profile) -> Check | Finding:
    """Collections recorded inside the steps; without recorded ones there is no answer."""
    if profile.series is not None and profile.series.origin == "monitor":
        return _recorded(profile, profile.series)
    return _traced(profile)


def _recorded(profile: Profile, series: RunSeries) -> Check | Finding:
    """What the monitor noted of every collection: a step is as long as its rank that collects longest."""
    shares = {rank: 100.0 * float(part_ms(series, "gc", rank).mean()) / series.mean_ms for rank in series.ranks}
    worst, limits = worst_of(shares), profile.thresholds
    cost, longest = measure(profile, "collector_cost_ms"), measure(profile, "collector_longest_ms", rank=worst)
    few = 100.0 * cost.value / series.mean_ms < limits["collector_pct"]
    if few or longest.value < limits["garbage_collection_ms"]:
        text = "Steps wait {0} for Python's collector on average; its longest pause is {1}."
        return clean(say(text, cost, longest))
    chosen = affected(shares, limits["noted_pct"] / 2)
    return overlapped(profile, chosen, cost, rare=True) or _from_records(profile, chosen, worst, cost, longest)


def _from_records(profile: Profile, ranks: tuple[int, ...], worst: int, cost: Fact, longest: Fact) -> Finding:
    assert profile.series is not None
    own = measure(profile, "series_part_ms", part="gc", rank=worst)
    runs = measure(profile, "collector_runs_per_step", rank=worst)
    details = [say(f"On rank {worst} collections take {{0}} per step, {{1}} of them.", own, runs)]
    objects = measured(profile, "tracked_objects", rank=worst)
    if objects is not None:
        details.append(say(f"A full collection on rank {worst} looks at {{0}}.", objects))
    if len(ranks) > 1 and cost.value > APART * own.value:
        text = "The ranks collect in different steps: together they hold up {0} per step, the worst alone {1}."
        details.append(say(text, cost, own))
    return Finding(
        cause="garbage_collection",
        claim=say(
            "Python's garbage collector holds the steps up for {0} on average, at most for {1} at a time"
            + (", and not on all ranks: the others wait." if len(ranks) < len(profile.rank_numbers) else "."),
            *(cost, longest),
        ),
        confidence=confidence(
            (100.0 * cost.value / profile.series.mean_ms, profile.thresholds["collector_pct"]),
            (longest.value, profile.thresholds["garbage_collection_ms"]),
        ),
        ranks=ranks,
        saving=host_saving(profile, ranks, 0.95 * cost.value, (0.6, 1.1), METHOD, rare=True),
        details=tuple(details),
        disproved_by=DISPROVED,
        signals=SIGNALS,
    )


def _traced(profile: Profile) -> Check | Finding:
    ranks = [view.rank.rank for view in profile.ranks if len(span_rows(view, PATTERN))]
    if not ranks:
        return cannot_answer(
            "no collections are recorded, and a profiler does not record automatic ones by itself",
            "the run under the monitor, torch.profiler with _ExperimentalConfig(record_python_gc_info=True), or a"
            " gc.callbacks hook that opens a record_function span",
        )
    shares = {rank: measure(profile, "host_span_exposed_pct", rank=rank, pattern=PATTERN) for rank in ranks}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    metrics = ("host_span_count", "host_span_exposed_ms", "host_span_longest_ms")
    count, exposed, longest = measure_all(profile, *metrics, rank=worst, pattern=PATTERN)
    if not chosen or longest.value < profile.thresholds["garbage_collection_ms"]:
        text = "{0} of the garbage collector are recorded in the steps, the longest {1}."
        return clean(say(text, count, longest))
    view = profile.rank(worst)
    return Finding(
        cause="garbage_collection",
        claim=say(
            "{0} of Python's garbage collector in the recorded steps hold the step up for {1} per step, the longest"
            " for {2}.",
            *(count, exposed, longest),
        ),
        confidence=confidence((shares[worst].value, profile.thresholds["cause_share_pct"])),
        ranks=chosen,
        steps=tuple(int(step) for step in np.unique(view.step_of(span_rows(view, PATTERN)))),
        # Collections cannot be done without, but rarer: a tenth remains at best, half in the cautious view.
        change=shortened_on(profile, chosen, lambda view: span_rows(view, PATTERN), 0.1, 0.5),
        disproved_by=DISPROVED,
        signals=SIGNALS,
    )

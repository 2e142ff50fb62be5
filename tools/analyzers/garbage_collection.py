"""Do pauses of Python's garbage collector stop the host?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.margin import confidence
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.intervals import union
from tools.metrics.cpu import span_rows
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.whatif.change import Change, Scale

NAME = "cpu.garbage_collection"
PATTERN = "garbage_collection"


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Collections recorded inside the steps; without recorded ones there is no answer."""
    pauses = {view.rank.rank: span_rows(view, PATTERN) for view in profile.ranks}
    ranks = [rank for rank, rows in pauses.items() if len(rows)]
    if not ranks:
        return (
            cannot_answer(
                NAME,
                "no collections are recorded, and a profiler does not record automatic ones by itself",
                "torch.profiler with _ExperimentalConfig(record_python_gc_info=True), or a gc.callbacks hook that opens"
                " a record_function span",
            ),
        )
    shares = {rank: _exposed_pct(profile, rank) for rank in ranks}
    chosen = affected(shares, profile.thresholds["noted_pct"])
    worst = worst_of(shares)
    count = measure(profile, "host_span_count", rank=worst, pattern=PATTERN)
    longest = measure(profile, "host_span_longest_ms", rank=worst, pattern=PATTERN)
    if not chosen or longest.value < profile.thresholds["garbage_collection_ms"]:
        text = "{0} of the garbage collector are recorded in the steps, the longest {1}."
        return (clean(NAME, Sentence(text, (count, longest))),)
    return (found(NAME, _pauses(profile, chosen, worst, shares[worst])),)


def _pauses(profile: Profile, ranks: tuple[int, ...], worst: int, share_pct: float) -> Finding:
    facts = (
        measure(profile, "host_span_count", rank=worst, pattern=PATTERN),
        measure(profile, "host_span_exposed_ms", rank=worst, pattern=PATTERN),
        measure(profile, "host_span_longest_ms", rank=worst, pattern=PATTERN),
    )
    view = profile.rank(worst)
    return Finding(
        cause="garbage_collection",
        claim=Sentence(
            "{0} of Python's garbage collector in the recorded steps hold the step up for {1} per step, the longest"
            " for {2}.",
            facts,
        ),
        confidence=confidence((share_pct, profile.thresholds["cause_share_pct"])),
        ranks=ranks,
        steps=tuple(int(step) for step in np.unique(view.step_of(span_rows(view, PATTERN)))),
        change=_removal(profile, ranks),
        disproved_by="the steps are as long with gc.disable() for a few hundred steps",
        signals=("gen-2 collections inside steps", "host pauses that differ by rank and step"),
    )


def _exposed_pct(profile: Profile, rank: int) -> float:
    wall_ms = float(profile.rank(rank).breakdown["wall_ns"].mean()) / 1e6
    return 100.0 * measure(profile, "host_span_exposed_ms", rank=rank, pattern=PATTERN).value / wall_ms


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """Collections cannot be done without, but rarer: a tenth remains at best, half in the cautious view."""
    changes = []
    for rank in ranks:
        view = profile.rank(rank)
        rows = span_rows(view, PATTERN)
        for track in np.unique(view.track[rows]):
            mine = rows[view.track[rows] == track]
            changes.append(Scale(rank, int(track), union(view.start[mine], view.end[mine]), 0.1, 0.5))
    return tuple(changes)

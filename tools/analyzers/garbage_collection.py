"""Do pauses of Python's garbage collector stop the host?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.margin import confidence
from tools.analyzers.row_change import shortened
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.cpu import span_rows
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.whatif.change import Change

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
    shares = {rank: measure(profile, "host_span_exposed_pct", rank=rank, pattern=PATTERN).value for rank in ranks}
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


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """Collections cannot be done without, but rarer: a tenth remains at best, half in the cautious view."""
    views = [profile.rank(rank) for rank in ranks]
    return tuple(scale for view in views for scale in shortened(view, span_rows(view, PATTERN), 0.1, 0.5))

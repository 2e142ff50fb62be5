"""Are operators compiled while steps run?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.margin import confidence
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.intervals import union
from tools.metrics.cpu import span_rows
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.whatif.change import Change, Scale

NAME = "cpu.operator_compilation"
PATTERN = "compilation"


def operator_compilation(profile: Profile) -> Check:
    """Compile events inside the recorded steps."""
    ranks = [view.rank.rank for view in profile.ranks if len(span_rows(view, PATTERN))]
    if not ranks:
        return _nothing_seen(profile)
    shares = {rank: _exposed_pct(profile, rank) for rank in ranks}
    worst = worst_of(shares)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    count = measure(profile, "host_span_count", rank=worst, pattern=PATTERN)
    exposed = measure(profile, "host_span_exposed_ms", rank=worst, pattern=PATTERN)
    if not chosen:
        text = "{0} of a compiler are recorded; the device waits {1} per step for them."
        return clean(NAME, Sentence(text, (count, exposed)))
    mechanism, steps = _mechanism(profile.rank(worst))
    return found(
        NAME,
        Finding(
            cause="operator_compilation",
            mechanism=mechanism,
            claim=Sentence(
                "{0} of a compiler lie inside the recorded steps and hold them up for {1} per step on average.",
                (count, exposed),
            ),
            confidence=confidence((shares[worst], profile.thresholds["cause_share_pct"])),
            ranks=chosen,
            steps=steps,
            change=_removal(profile, chosen),
            disproved_by="the compile events end once the same shapes have been seen",
            signals=("compile or recompile events inside steady steps",),
        ),
    )


def _nothing_seen(profile: Profile) -> Check:
    compiled = [view.rank.rank for view in profile.ranks if view.named("compiled_region").any()]
    if compiled:
        fact = measure(profile, "host_span_count", rank=compiled[0], pattern=PATTERN)
        return clean(NAME, Sentence("Compiled regions run, and {0} of the compiler lie inside the steps.", (fact,)))
    return cannot_answer(
        NAME,
        "neither compile events nor compiled regions are recorded, and a compiler outside torch.compile would leave"
        " no trace here",
        "a trace with with_stack=True, or the log of TORCH_LOGS=recompiles",
    )


def _exposed_pct(profile: Profile, rank: int) -> float:
    walls = profile.rank(rank).breakdown["wall_ns"].mean() / 1e6
    return 100.0 * measure(profile, "host_span_exposed_ms", rank=rank, pattern=PATTERN).value / float(walls)


def _mechanism(view: RankProfile) -> tuple[str, tuple[int, ...]]:
    steps = np.unique(view.step_of(span_rows(view, PATTERN)))
    if view.in_steps(np.flatnonzero(view.named("graph_capture"))).size:
        mechanism = "graph_recapture"
    elif len(steps) == 1 and steps[0] == view.steps["number"].iloc[0]:
        mechanism = "cold_start"
    else:
        mechanism = "dynamic_shape"
    return mechanism, tuple(int(step) for step in steps)


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    changes = []
    for rank in ranks:
        view = profile.rank(rank)
        rows = span_rows(view, PATTERN)
        for track in np.unique(view.track[rows]):
            mine = rows[view.track[rows] == track]
            changes.append(Scale(rank, int(track), union(view.start[mine], view.end[mine]), 0.0, 0.5))
    return tuple(changes)

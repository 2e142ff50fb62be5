"""Are operators compiled while steps run?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.compilation_records import recorded_compilation
from tools.analyzers.margin import confidence
from tools.analyzers.row_change import shortened
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.cpu import span_rows
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.whatif.change import Change

NAME = "cpu.operator_compilation"
PATTERN = "compilation"


def operator_compilation(profile: Profile) -> Check:
    """Compile events inside the recorded steps."""
    recorded = recorded_compilation(profile, NAME)
    ranks = [view.rank.rank for view in profile.ranks if len(span_rows(view, PATTERN))]
    if not ranks:
        return recorded or _nothing_seen(profile)
    shares = {rank: measure(profile, "host_span_exposed_pct", rank=rank, pattern=PATTERN).value for rank in ranks}
    worst = worst_of(shares)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    count = measure(profile, "host_span_count", rank=worst, pattern=PATTERN)
    exposed = measure(profile, "host_span_exposed_ms", rank=worst, pattern=PATTERN)
    if not chosen and recorded is not None:
        return recorded
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
    views = [profile.rank(rank) for rank in ranks]
    return tuple(scale for view in views for scale in shortened(view, span_rows(view, PATTERN), 0.0, 0.5))

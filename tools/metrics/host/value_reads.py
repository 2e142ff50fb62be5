"""Values of tensors that the program reads in loops: how many, and how long that takes."""

from __future__ import annotations

from tools.intervals import length
from tools.metrics.measurement import Measurement, as_pct, metric, of_events, of_moments
from tools.views.host.value_reads import read_loops
from tools.views.profile import Profile

SELECTOR = "from one aten::item or aten::resolve_neg to the next, with at most ten operators between them"


@metric("values", "values read in loops per step", "How many values of tensors does a step read in loops?")
def value_reads_per_step(profile: Profile, rank: int) -> Measurement:
    """Calls of ``item()`` or ``numpy()`` per step that follow another one after a few operators."""
    view, reads = profile.rank(rank), read_loops(profile, rank).reads
    return of_events(view, len(reads) / max(len(view.steps), 1), reads, SELECTOR)


@metric("ms", "time per step in loops that read values", "How long do loops that read values take?")
def value_read_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in those loops: operators that make the values, reading them, and Python code in between."""
    view, moments = profile.rank(rank), read_loops(profile, rank).moments
    return of_moments(view, length(moments) / 1e6 / max(len(view.steps), 1), moments, SELECTOR)


@metric("%", "share of the step in loops that read values", "How much of the step are loops that read values?")
def value_read_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    return as_pct(value_read_ms(profile, rank), float(profile.rank(rank).wall_ms.mean()))

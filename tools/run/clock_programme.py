"""Least squares of clock differences that keep every collective possible: dPRO's convex programme, over clocks.

Minimise the squares of ``(design @ offsets - measured) / spread`` where each pair of clocks keeps its lead within the
limits that causality sets (dPRO, MLSys'22: no receive ends before its send). Solved by coordinate ascent of the dual
(Hildreth 1957), which for as many pairs as there are clocks is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
MOST_ROUNDS = 200
SETTLED_NS = 1.0


def excess_ns(leads: Numbers, least: Numbers, most: Numbers) -> float:
    """The most by which a lead is outside its limits, 0 where all are inside."""
    return float(np.maximum(least - leads, leads - most).max(initial=0.0))


def bounded_offsets(design: Numbers, inverse: Numbers, offsets: Numbers, least: Numbers, most: Numbers) -> Numbers:
    """The offsets nearest to the unbounded optimum ``offsets`` whose leads, ``design @ offsets``, keep the limits.

    ``design`` has a row per pair, ``inverse`` is that of the weighted normal equations; all in ns. Limits that
    contradict each other are met as nearly as the rounds allow.
    """
    moved_by = design @ inverse  # a row per pair
    stiffness = np.einsum("pc,pc->p", design, moved_by)
    solved, multipliers = offsets.copy(), np.zeros(len(design))
    for _ in range(MOST_ROUNDS):
        largest, leads = 0.0, design @ solved
        for pair in np.flatnonzero((leads < least) | (leads > most) | (multipliers != 0)):
            free = design[pair] @ solved + multipliers[pair] * stiffness[pair]
            change = (free - np.clip(free, least[pair], most[pair])) / stiffness[pair] - multipliers[pair]
            multipliers[pair] += change
            solved -= moved_by[pair] * change
            largest = max(largest, abs(change) * stiffness[pair])
        if largest < SETTLED_NS:
            break
    return solved

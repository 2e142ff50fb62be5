"""Whether a fitted map would better the stated confidences: fitted on all origins but one, and judged on that one.

The map is the share of right first causes per bin of stated confidence, drawn towards the stated one by
``PSEUDO_CASES``, made monotone (pool adjacent violators, Barlow et al., "Statistical Inference under Order
Restrictions", 1972) and interpolated between the bins. Origins weigh the same; the split test is never read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evals.results.calibration import EDGES, Bin, answered, calibration_error, curve_of
from evals.suite.origins import ORIGINS
from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record

PSEUDO_CASES = 6.0  # of each bin: with fewer cases than this the stated confidence counts for more
FEWEST = 10  # cases of an origin to be judged on
Values = NDArray[np.float64]


class HeldOut(Record):
    """Calibration on one origin as stated, and by a map that was fitted on the others."""

    origin: str
    cases: int
    error_stated: float  # expected calibration error
    error_mapped: float
    brier_stated: float  # mean square of confidence less 1 (right) or 0 (wrong)
    brier_mapped: float
    curve: list[Bin]  # as mapped


def held_out(results: Sequence[CaseResult]) -> list[HeldOut]:
    """One row for each origin with enough cases of the split dev; none with fewer than two origins."""
    dev = [r for r in results if r.tags.split == "dev" and r.tags.sources == "all"]
    pairs = {
        origin: answered([r for r in dev if r.tags.source == source])
        for source, origin in ORIGINS.items()
        if any(r.tags.source == source for r in dev)
    }
    known = {origin: each for origin, each in pairs.items() if len(each[0]) >= FEWEST}
    if len(known) < 2:
        return []
    rows = []
    for origin, (stated, right) in known.items():
        mapped = fitted([each for name, each in known.items() if name != origin])
        given = np.interp(stated, *mapped)
        rows.append(
            HeldOut(
                origin=origin,
                cases=len(stated),
                error_stated=calibration_error(stated, right),
                error_mapped=calibration_error(given, right),
                brier_stated=float(((stated - right) ** 2).mean()),
                brier_mapped=float(((given - right) ** 2).mean()),
                curve=curve_of(given, right),
            )
        )
    return rows


def fitted(origins: Sequence[tuple[Values, Values]]) -> tuple[Values, Values]:
    """Stated confidences and what they are mapped to, one for each bin, from (stated, right) of several origins."""
    stated = np.concatenate([each for each, _ in origins])
    right = np.concatenate([each for _, each in origins])
    weight = np.concatenate([np.full(len(each), 1.0 / len(each)) for each, _ in origins])
    weight *= len(stated) / weight.sum()
    place = np.digitize(stated, EDGES[1:-1])
    middles = (np.array(EDGES[:-1]) + np.array(EDGES[1:])) / 2.0
    at = [float(stated[place == b].mean()) if (place == b).any() else middle for b, middle in enumerate(middles)]
    cases = np.array([weight[place == b].sum() for b in range(len(middles))])
    hits = np.array([(weight * right)[place == b].sum() for b in range(len(middles))])
    stated_at = np.array(at)
    return stated_at, monotone((hits + PSEUDO_CASES * stated_at) / (cases + PSEUDO_CASES), cases + PSEUDO_CASES)


def monotone(values: Values, weights: Values) -> Values:
    """The nearest values that never fall, by weighted squares: neighbours that fall are pooled until none does."""
    pooled: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, whole, members = float(value), float(weight), 1
        while pooled and pooled[-1][0] > mean:
            before, own, more = pooled.pop()
            mean, whole, members = (before * own + mean * whole) / (own + whole), own + whole, members + more
        pooled.append((mean, whole, members))
    return np.repeat([mean for mean, _, _ in pooled], [members for _, _, members in pooled])

"""Groups of steps: step times that fall into two or more groups, and which steps each holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.views.profile import Profile, memoized
from tools.views.steps.coarse import step_series
from tools.views.steps.shape import StepSeries

FEWEST_STEPS, MOST_MODES = 6, 4  # steps that can show groups, and groups that are still a description
LEAST_MEMBERS, LEAST_SHARE = 2, 0.05  # of a group; a single long step is a spike, rare ones are stalls
EVERY, REGULAR = 0.8, 3  # share of the steps that counts as all of them, and steps that show a rhythm


@dataclass(frozen=True)
class Mode:
    """A group of steps of about the same length; numbers ascending."""

    steps: tuple[int, ...]
    median_ms: float


def modes_of(series: StepSeries, gap_pct: float, by_chance: float) -> tuple[Mode, ...]:
    """The groups of a series, shortest first; () where its steps form one.

    Sorted durations are split at their largest gap where it is at least ``gap_pct`` of the shorter side and chance
    makes so large a gap less often than ``by_chance`` (``_chance``). Each side is split again, at half that level.
    Single steps far above all others belong to no group, nor do shorter steps that are few: the rest is the usual step.
    """
    order = np.argsort(series.ms, kind="stable")
    least = max(LEAST_MEMBERS, math.ceil(LEAST_SHARE * len(order)))
    found = _split(series.ms, order, gap_pct / 100.0, by_chance, least)
    while len(found) > 1 and sum(map(len, found[1:])) >= EVERY * len(order):
        found = found[1:]
    if not 1 < len(found) <= MOST_MODES:
        return ()
    groups = (tuple(sorted(series.numbers[group].tolist())) for group in found)
    return tuple(Mode(steps, float(np.median(series.ms[group]))) for steps, group in zip(groups, found, strict=True))


def _split(
    ms: NDArray[np.float64], order: NDArray[np.intp], gap: float, by_chance: float, least: int
) -> list[NDArray[np.intp]]:
    """Places of the steps of each group, shortest group first; ``order`` are places by ascending duration."""
    count, values = len(order), ms[order]
    if count < FEWEST_STEPS:
        return [order]
    gaps = np.diff(values)
    at = int(gaps.argmax()) + 1
    if count - at < least and count - at <= max(1, count // 10) and gaps[at - 1] > gap * values[at - 1]:
        return _split(ms, order[:at], gap, by_chance, least)  # spikes
    if min(at, count - at) < least or gaps[at - 1] < gap * float(np.median(values[:at])):
        return [order]
    lower, upper = (_split(ms, side, gap, by_chance / 2.0, least) for side in (order[:at], order[at:]))
    near = np.concatenate((lower[-1], upper[0]))  # groups further off say nothing about this gap
    return [order] if _chance(ms[near], len(lower[-1])) > by_chance else [*lower, *upper]


def _chance(values: NDArray[np.float64], at: int) -> float:
    """Upper bound of the probability that chance makes a gap as large as the one before place ``at``.

    The larger of two: durations spread evenly, and durations with a long tail to the right (Pareto), as other programs
    on a machine make them. Of n values spread evenly one gap holds a share x of their range with a probability of at
    most (n - 1)(1 - x)^(n - 2). The logarithms of a Pareto tail have gaps that are, each times the number of values
    above it, independent and of one exponential distribution (Renyi), so the same bound holds for their shares.
    """
    gaps = np.diff(values)
    tail = np.diff(np.log(values)) * np.arange(len(values) - 1, 0, -1) if values[0] > 0.0 else gaps
    share = min(float(each[at - 1] / each.sum()) for each in (gaps, tail))
    return float((len(values) - 1) * (1.0 - share) ** (len(values) - 2))


@memoized
def common_steps(profile: Profile) -> StepSeries:
    """The steps that every rank traced, by the slowest rank of each: in others a slower rank may be missing."""
    series, traced = step_series(profile), profile.breakdown.groupby("number")["rank"].nunique()
    common = np.isin(series.numbers, traced.index[traced == len(profile.run.rank_numbers)].to_numpy())
    return StepSeries(series.numbers[common], series.ms[common])


@memoized
def step_modes(profile: Profile) -> tuple[Mode, ...]:
    """The groups of the steps that every rank traced, by the slowest rank of each; () where they form one."""
    limits = profile.thresholds
    return modes_of(common_steps(profile), limits["fluctuation_pct"], limits["step_groups_by_chance"])


def steps_text(present: Sequence[int], of: Sequence[int]) -> str:
    """Which steps: ``every step``, ``every 5th step``, ``from step 12 on``, ``step 4 of 7``, ``3 of 7 steps``."""
    if len(present) >= EVERY * len(of):
        return "every step"
    if len(present) == 1:
        return f"step {present[0]} (1 of {len(of)})"
    held, ordered = sorted(present), sorted(of)
    if len(held) >= REGULAR and held == ordered[-len(held) :]:
        return f"every step from {held[0]} on"
    if len(held) >= REGULAR and held == ordered[: len(held)]:
        return f"every step up to {held[-1]}"
    gaps = np.diff(held)
    if len(held) >= REGULAR and len(set(gaps.tolist())) == 1 and gaps[0] > 1:
        whole = held[0] - ordered[0] <= gaps[0] and ordered[-1] - held[-1] <= gaps[0]  # from one end to the other
        return f"every {_ordinal(int(gaps[0]))} step" if whole else f"{len(held)} of {len(ordered)} steps"
    return f"{len(present)} of {len(of)} steps"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

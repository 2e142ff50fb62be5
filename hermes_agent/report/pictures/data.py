"""The figures of each picture: pure functions of a diagnosis or of a tool's result, without a width or a sign."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hermes_agent.model.display import PART_TITLES
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import BreakdownRow, Diagnosis
    from tools.agent_tools.result import Result

PARTS = tuple(PART_TITLES)
NO_STEPS = "No step of this run was traced, so there is nothing to draw; capture one with hermes-dx monitor profile."
MEASURES = {
    "own": "own time (step without exposed communication)",
    "wall": "step time",
    **{part: title for part, title in PART_TITLES.items() if part != "compute"},
    "compute": "computation",
}


@dataclass(frozen=True)
class StepPoint:
    """One step on the rank that took longest for it; ``long`` is over the limit for usual steps.

    ``rank`` is None where the step is known of the job as a whole. ``traced`` marks the profiled ones among steps of
    records; what makes them longer may be the profiler.
    """

    step: int
    rank: int | None
    ms: float
    long: bool
    traced: bool = False


@dataclass(frozen=True)
class StepTimes:
    """Steps in order. ``limit_ms`` is the median and ``limit_pct`` on top: a longer step is not a usual one."""

    points: tuple[StepPoint, ...]
    median_ms: float
    limit_pct: float

    @property
    def limit_ms(self) -> float:
        """The longest usual step."""
        return self.median_ms * (1.0 + self.limit_pct / 100.0)

    @property
    def long(self) -> tuple[StepPoint, ...]:
        """The steps over the limit, longest first."""
        return tuple(sorted((point for point in self.points if point.long), key=lambda point: -point.ms))


@dataclass(frozen=True)
class Heat:
    """One value per rank and step in ms, NaN-free; a step that a rank has not is absent.

    ``traced`` are the profiled ones among steps of records; empty where all steps are traced ones.
    """

    measure: str
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    values: dict[tuple[int, int], float]  # (rank, step) -> ms
    traced: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PathShare:
    """A family of work on the critical path of a step, ms; ``saved_ms`` None where it cannot be taken away."""

    family: str
    ms: float
    saved_ms: float | None
    ids: tuple[str, ...]  # of the figures, "" outside a diagnosis


@dataclass(frozen=True)
class CriticalPath:
    """The critical path of a mean step, largest share first."""

    step_ms: float
    step_id: str
    shares: tuple[PathShare, ...]


@dataclass(frozen=True)
class Lane:
    """One rank over the time of a step: per bin the ms of each part, in the order of ``PARTS``; all 0 outside it."""

    rank: int
    bins: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Lanes:
    """Ranks over the time of one step, on the same axis."""

    step: int
    ms: float
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class ChosenRanks:
    """Ranks to draw, ascending: all, or the outliers and a few typical ones."""

    ranks: tuple[int, ...]
    typical: tuple[int, ...]  # empty where all are drawn
    left_out: int

    @property
    def outliers(self) -> tuple[int, ...]:
        """The ranks that differ most; all where none is left out."""
        return tuple(rank for rank in self.ranks if rank not in self.typical)


MOST_RANKS = 16
TYPICAL_RANKS = 3


def chosen_ranks(figures: Mapping[int, Sequence[float]], known: int = 0) -> ChosenRanks:
    """The ranks that differ most from the others, and those nearest to the median of every figure.

    ``figures`` holds the same figures of each rank, in ms; ``known`` ranks are in the run, if more than those.
    """
    total = max(known, len(figures))
    if len(figures) <= MOST_RANKS:
        return ChosenRanks(tuple(sorted(figures)), (), total - len(figures))
    ordered = by_distance(figures)
    outliers, typical = ordered[: MOST_RANKS - TYPICAL_RANKS], ordered[-TYPICAL_RANKS:]
    return ChosenRanks(tuple(sorted((*outliers, *typical))), tuple(sorted(typical)), total - MOST_RANKS)


def by_distance(figures: Mapping[int, Sequence[float]]) -> list[int]:
    """The ranks, the one first whose figures differ most from the median rank's, in ms over all figures."""
    medians = [_median(sorted(each)) for each in zip(*figures.values(), strict=True)]
    distance = {
        rank: sum(abs(value - median) for value, median in zip(values, medians, strict=True))
        for rank, values in figures.items()
    }
    return sorted(distance, key=lambda rank: (-distance[rank], rank))


def known_ranks(diagnosis: Diagnosis) -> int:
    """The ranks of the run, also those that were compared by summary alone."""
    screening = diagnosis.run.screening
    return len(diagnosis.run.ranks) if screening is None else screening.found


def steps_of(diagnosis: Diagnosis) -> tuple[BreakdownRow, ...]:
    """The rows of single steps; raises UsageError where no step was traced."""
    rows = tuple(row for row in diagnosis.breakdown if row.step is not None)
    if not rows:
        raise UsageError(NO_STEPS)
    return rows


def means_of(diagnosis: Diagnosis) -> tuple[BreakdownRow, ...]:
    """The mean over steps of each rank."""
    rows = tuple(row for row in diagnosis.breakdown if row.step is None)
    if not rows:
        raise UsageError(NO_STEPS)
    return rows


def rows_of_step(diagnosis: Diagnosis, step: int | None) -> tuple[BreakdownRow, ...]:
    """The rows of a step, the longest rank first; without a number of the longest step."""
    rows = sorted(steps_of(diagnosis), key=lambda row: (-row.wall_ms, row.rank))
    number = rows[0].step if step is None else step
    found = tuple(row for row in rows if row.step == number)
    if not found:
        numbers = [_number(row) for row in rows]
        raise UsageError(f"There is no traced step {number}; there are {min(numbers)} to {max(numbers)}.")
    return found


def part_ms(row: BreakdownRow) -> tuple[float, ...]:
    """The parts of a row in ms, in the order of ``PARTS``; they add up to its step."""
    return tuple(float(getattr(row, f"{part}_ms")) for part in PARTS)


def step_times(diagnosis: Diagnosis, limit_pct: float) -> StepTimes:
    """The traced steps, as the tool ``series`` gives them, and which of them are over the usual one."""
    slowest: dict[int, BreakdownRow] = {}
    for row in sorted(steps_of(diagnosis), key=lambda row: (-row.wall_ms, row.rank)):
        slowest.setdefault(_number(row), row)
    return _times(((row.rank, step, row.wall_ms) for step, row in sorted(slowest.items())), limit_pct)


def recorded_times(
    rank: int | None, times: Iterable[tuple[int, float]], limit_pct: float, traced: Iterable[tuple[int, float]] = ()
) -> StepTimes:
    """The steps of one rank, or of the job as a whole, by records: number and ms, in order.

    The median is that of the unprofiled ones.
    """
    profiled = dict(traced)
    usual = {step: ms for step, ms in times if step not in profiled}
    found = ((rank, step, ms) for step, ms in sorted({**usual, **profiled}.items()))
    return _times(found, limit_pct, frozenset(profiled) if usual else frozenset())


def _times(
    found: Iterable[tuple[int | None, int, float]], limit_pct: float, traced: frozenset[int] = frozenset()
) -> StepTimes:
    known = tuple(found)
    usual = _median(sorted(ms for _, step, ms in known if step not in traced))
    limit = usual * (1.0 + limit_pct / 100.0)
    points = tuple(
        StepPoint(step, rank, ms, ms > limit and step not in traced, step in traced) for rank, step, ms in known
    )
    return StepTimes(points, usual, limit_pct)


def _median(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def heat(diagnosis: Diagnosis, measure: str = "own") -> Heat:
    """Each rank in each step: its own time, its step, or one part of it, as ``rank_comparison`` and ``series`` do."""
    if measure not in MEASURES:
        raise UsageError(f"There is no heatmap of {measure!r}; there are {', '.join(MEASURES)}.")
    rows = steps_of(diagnosis)
    values = {(row.rank, _number(row)): _measured(row, measure) for row in rows}
    return Heat(
        measure,
        tuple(sorted({row.rank for row in rows})),
        tuple(sorted({_number(row) for row in rows})),
        values,
    )


def rank_figures(found: Heat) -> dict[int, tuple[float, float]]:
    """The mean and the longest value of each rank."""
    of_rank: dict[int, list[float]] = {}
    for (rank, _), value in found.values.items():
        of_rank.setdefault(rank, []).append(value)
    return {rank: (sum(values) / len(values), max(values)) for rank, values in of_rank.items()}


def _measured(row: BreakdownRow, measure: str) -> float:
    if measure == "own":
        return row.wall_ms - row.exposed_communication_ms
    return float(getattr(row, f"{measure}_ms"))


def _number(row: BreakdownRow) -> int:
    assert row.step is not None
    return row.step


def critical_path(result: Result) -> CriticalPath:
    """The figures of the tool ``critical_path``; raises UsageError where it could not measure the path."""
    by_metric = {(fact.metric, str(fact.arguments.get("family", ""))): fact for fact in result.facts}
    whole = by_metric.get(("critical_path_step_ms", ""))
    if whole is None:
        raise UsageError(" ".join(result.notes[:1]) or "The critical path of this run cannot be measured.")
    shares = []
    for (metric, family), fact in by_metric.items():
        if metric == "critical_path_ms" and fact.value > 0:
            saved = by_metric.get(("family_saving_ms", family))
            ids = tuple(each.id for each in (fact, saved) if each is not None)
            shares.append(PathShare(family, fact.value, None if saved is None else saved.value, ids))
    return CriticalPath(whole.value, whole.id, tuple(sorted(shares, key=lambda share: -share.ms)))


def binned(count: int, room: int) -> Sequence[range]:
    """``count`` places in order put into at most ``room`` bins of nearly equal size."""
    bins = max(min(count, room), 1)
    edges = [count * place // bins for place in range(bins + 1)]
    return [range(first, last) for first, last in pairwise(edges)]

"""The times of steps that a progress bar shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.run.recorded.job_log import StepTime
from tools.sources.job_log.bars import LEAST_PART_S, LEAST_POINTS, RESOLUTION_S, Bar

FEW_UPDATES, LEAST_FEW_S = 4, 5.0  # of so few each long step is stated by itself: whole seconds show which is longer
LEAST_WHOLE_S = 3 * LEAST_PART_S  # between the first and the last update: else the time before the first counts too
# Of the step by its rate, between this and the time over the steps done: whole seconds are exact to as much after
# LEAST_PART_S. A bar that goes on from a checkpoint counts steps that it has no time of, and differs by their share.
FROM_START = 0.05
LEAST_REST_S = 10.0  # after a first step that is one of its own: whole seconds are exact to 10 % of it


@dataclass(frozen=True, slots=True)
class BarRow:
    """So many steps up to ``step`` and the mean time of one."""

    step: int
    span: int
    wall_ms: float
    line: int


def bar_rows(bar: Bar) -> tuple[list[BarRow], StepTime]:
    """The time of its steps by its clock, "bar"; of a first step alone as its rate states it, "step"; where it is too
    short for whole seconds its rates, which are "smoothed"."""
    if bar.done[-1] == 1 and bar.step_ms[-1] > 0:  # smoothed over one step
        return [BarRow(1, 1, bar.step_ms[-1], bar.line[-1])], "step"
    from_start = _from_start(bar)
    if not bar.mixed:
        if bar.mostly_ends and len(bar.done) > 1 and max(bar.elapsed_s) >= LEAST_PART_S:
            return list(_by_clock(bar, True, 1.0)), "bar"
        if bar.seconds >= LEAST_WHOLE_S:
            part_s = min(bar.part_s, bar.seconds / LEAST_POINTS)
            return [*_first_step(bar), *_by_clock(bar, from_start and bar.done[0] == 0, part_s)], "bar"
        whole_s = max(bar.elapsed_s) if from_start else bar.seconds
        if whole_s >= LEAST_PART_S and (first := _first_step(bar)):
            least_s = max(LEAST_REST_S, min(LEAST_PART_S, bar.seconds / 2))
            rest = list(_by_clock(bar, False, least_s))
            return [*first, *rest], "bar" if rest else "step"
        if whole_s >= LEAST_PART_S:
            part_s = LEAST_FEW_S if len(bar.done) <= FEW_UPDATES else min(LEAST_PART_S, whole_s / 2)
            return list(_by_clock(bar, from_start, part_s)), "bar"
    updates = zip(bar.done, bar.step_ms, bar.line, strict=True)
    return [BarRow(done, 1, step_ms, line) for done, step_ms, line in updates if done and step_ms > 0], "smoothed"


def _from_start(bar: Bar) -> bool:
    """Whether its time is that of all steps that it counts, and not of those since a checkpoint: it shows its first
    step, or time and steps of its first and of its last update agree with its rate."""
    counted = [row for row, done in enumerate(bar.done) if done > 0]
    if not counted:
        return False
    first = counted[0]
    return bar.done[first] == 1 or (_agrees(bar, first) and _agrees(bar, -1))


def _agrees(bar: Bar, row: int) -> bool:
    """Whether the time over the steps done is the step by the rate shown; elapsed seconds are cut, not rounded."""
    done, elapsed_s, step_s = bar.done[row], bar.elapsed_s[row], bar.step_ms[row] / 1e3
    if elapsed_s < 0 or step_s <= 0:
        return False
    middle_s = elapsed_s + RESOLUTION_S / 2
    return abs(middle_s - done * step_s) <= FROM_START * done * step_s + RESOLUTION_S / 2


def _first_step(bar: Bar) -> list[BarRow]:
    """Its first step, of which the rate is the time, where the clock is read from that update on."""
    if bar.done[0] == 1 and bar.step_ms[0] > 0:
        return [BarRow(1, 1, bar.step_ms[0], bar.line[0])]
    return []


def _by_clock(bar: Bar, from_start: bool, part_s: float = LEAST_PART_S) -> Iterator[BarRow]:
    """Parts of so many seconds, from the start of the bar or from its first update; one of 0 steps is no start: a
    trainer that goes on from a checkpoint draws it, and then counts the steps of the checkpoint at once."""
    done, began_s = (0, 0.0) if from_start else (-1, 0.0)
    for now, elapsed_s, line, rate_ms in zip(bar.done, bar.elapsed_s, bar.line, bar.step_ms, strict=True):
        if elapsed_s < 0 or now == 0:
            continue
        if done < 0:
            done, began_s = now, elapsed_s
        elif elapsed_s - began_s >= part_s and now > done:
            wall_ms = 1e3 * (elapsed_s - began_s) / (now - done)
            exact = now == 1 and abs(rate_ms - wall_ms) <= 1e3 * RESOLUTION_S  # its rate is not cut to whole seconds
            yield BarRow(now, now - done, rate_ms if exact else wall_ms, line)
            done, began_s = now, elapsed_s

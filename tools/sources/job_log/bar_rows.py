"""The times of steps that a progress bar shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.run.recorded.job_log import StepTime
from tools.sources.job_log.bar import LEAST_PART_S, LEAST_POINTS, RESOLUTION_S, Bar, Pass
from tools.sources.job_log.bar_work import AGREES_S, RATE_DIGITS

FEW_UPDATES, LEAST_FEW_S = 4, 5.0  # of so few each long step is stated by itself: whole seconds show which is longer
LEAST_WHOLE_S = 3 * LEAST_PART_S  # between the first and the last update: else the time before the first counts too
# Of the step by its rate, between this and the time over the steps done: whole seconds are exact to as much after
# LEAST_PART_S. A bar that goes on from a checkpoint counts steps that it has no time of, and differs by their share.
FROM_START = 0.05
EXACT_PART_S, MANY_PARTS = 100.0, 100  # whole seconds are exact to 1 % of it; taken where that leaves many parts
BY_MEAN_S = 100.0  # whole seconds are exact to 1 % of it, about as far as the digits of a rate
FIRST_STEPS = 0.05  # of the time of its pass: a first step that is so long is a row of its own
LEAST_REST_S = 10.0  # after a first step that is one of its own: whole seconds are exact to 10 % of it


@dataclass(frozen=True, slots=True)
class BarRow:
    """So many steps up to ``step`` and the mean time of one."""

    step: int
    span: int
    wall_ms: float
    line: int
    rounding: float = 0.0  # share of the time that whole seconds, or the digits of a rate, do not show


def bar_rows(bar: Bar) -> tuple[list[BarRow], StepTime]:
    """The time of its steps by its clock, "bar"; of a first step alone as its rate states it, "step"; where it is too
    short for whole seconds its rates, which are "smoothed"."""
    if bar.done[-1] == 1 and bar.step_ms[-1] > 0:  # smoothed over one step
        return [BarRow(1, 1, bar.step_ms[-1], bar.line[-1])], "step"
    from_start = _from_start(bar)
    if not bar.mixed:
        if (rows := _of_passes(bar)) is not None:
            return rows, "bar"
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


def _of_passes(bar: Bar) -> list[BarRow] | None:
    """Parts of passes of which each ends where its pass ends: a finished pass states its time. None where no pass is
    finished, or all together are too short for whole seconds."""
    passes = [each for each in bar.passes if bar.elapsed_s[each.end - 1] >= 0]
    if not any(each.finished for each in passes) or bar.shown_s:
        return None
    rows: list[BarRow] = []
    short: list[tuple[int, float]] = []  # steps and seconds of passes that are too short for whole seconds
    at, together_s = 0, bar.elapsed_s[passes[-1].end - 1]
    part_s = EXACT_PART_S if len(passes) > 1 and together_s >= MANY_PARTS * EXACT_PART_S else LEAST_PART_S
    for each in passes:
        whole_s, by_mean = _pass_s(bar, each)
        is_short = each.finished and whole_s < LEAST_PART_S and not by_mean
        if short and (not is_short or sum(seconds for _, seconds in short) >= LEAST_PART_S):
            rows.append(_joined(bar, at, short))
            short = []
        if is_short:
            at = each.end - 1
            short.append((bar.done[at] - each.before, whole_s))
        else:
            rows += _of_pass(bar, each, whole_s, by_mean, part_s)
    rows += [_joined(bar, at, short)] if short else []
    return rows if sum(row.span * row.wall_ms for row in rows) >= 1e3 * LEAST_PART_S else None


def _joined(bar: Bar, last: int, short: list[tuple[int, float]]) -> BarRow:
    return _row(bar, last, sum(steps for steps, _ in short), sum(seconds for _, seconds in short))


def _pass_s(bar: Bar, each: Pass) -> tuple[float, bool]:
    """The seconds of a pass up to its last update: those of its clock, which is cut to whole seconds, or where it is
    short and its end was drawn again, those by its mean rate, if both agree; and whether they are by that."""
    last = each.end - 1
    shown_s = bar.elapsed_s[last] - each.before_s
    by_mean_s = (bar.done[last] - each.before) * bar.step_ms[last] / 1e3
    agrees = by_mean_s > 0 and abs(by_mean_s - shown_s - AGREES_S) <= AGREES_S + RATE_DIGITS * by_mean_s
    if each.finished and shown_s < BY_MEAN_S and agrees and (last in bar.means or each.end - each.first == 1):
        return by_mean_s, True
    return (shown_s if shown_s >= LEAST_PART_S or not each.finished else shown_s + RESOLUTION_S / 2), False


def _of_pass(bar: Bar, each: Pass, whole_s: float, by_mean: bool, part_s: float) -> Iterator[BarRow]:
    """Parts of so many seconds, of which the last goes on to the end of a finished pass."""
    done, began_s, first = each.before, 0.0, each.first + (bar.done[each.first] == each.before)
    if first == each.end:
        return
    if each.before == 0 and not bar.mostly_ends and not _from_start(bar):  # goes on from a checkpoint
        done, began_s, first = bar.done[first], bar.elapsed_s[first], first + 1
    elif each.before == 0 and bar.step_ms[first] > 0 and 1 <= bar.done[first] <= 1 < each.end - first:
        first_s = bar.step_ms[first] / 1e3
        if abs(first_s - bar.elapsed_s[first]) <= RESOLUTION_S and first_s >= min(FIRST_STEPS * whole_s, LEAST_PART_S):
            yield BarRow(bar.done[first], 1, bar.step_ms[first], bar.line[first])
            done, began_s, first = bar.done[first], first_s, first + 1
    last_s = max(whole_s, began_s)
    for row in range(first, each.end):
        at_s = last_s if row == each.end - 1 else bar.elapsed_s[row] - each.before_s
        rest = row == each.end - 1 and (each.finished or (each.before > 0 and at_s - began_s >= LEAST_REST_S))
        ends = rest or (not each.finished and at_s - began_s >= part_s)
        if bar.elapsed_s[row] < 0 or bar.done[row] == done:
            continue
        if ends or (at_s - began_s >= part_s and (last_s - at_s >= part_s or not each.finished)):
            exact = by_mean and ends and done == each.before
            yield _row(bar, row, bar.done[row] - done, at_s - began_s, exact)
            done, began_s = bar.done[row], at_s


def _row(bar: Bar, row: int, steps: int, seconds: float, exact: bool = False) -> BarRow:
    return BarRow(bar.done[row], steps, 1e3 * seconds / steps, bar.line[row], RATE_DIGITS if exact else 1.0 / seconds)


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
            rounding = RATE_DIGITS if exact else RESOLUTION_S / (elapsed_s - began_s)
            yield BarRow(now, now - done, rate_ms if exact else wall_ms, line, rounding)
            done, began_s = now, elapsed_s

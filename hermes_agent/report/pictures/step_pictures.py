"""The pictures of steps: their times, and ranks by steps; from records where these hold more steps than the traces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import counted
from hermes_agent.report.pictures import charts, data
from hermes_agent.report.pictures.drawn import Drawn
from hermes_agent.report.pictures.rows import Grid, columns, grid
from tools.errors import UsageError
from tools.knowledge.thresholds import Thresholds

if TYPE_CHECKING:
    from tools.views.profile import Profile
    from tools.views.steps.series import RunSeries

MOST_TABLE_ROWS = 64
UNPROFILED = ("monitor", "step_log")  # records of these leave out the steps that a profiler touched
WAITING_INCLUDED = "Whole steps: what a rank waits for the others is part of its step."
ONE_RANK = "A heatmap compares ranks, and one was traced; the step series shows the same."
ONE_RECORDED = "A heatmap compares ranks, and the steps of one are recorded; the step series shows the same."
OF_THE_JOB = "A heatmap compares ranks, and the job's output gives one step time for all of them."


def series(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """Step times: the unprofiled steps of records where these hold more steps than the traces, else the traced ones."""
    limit_pct = (Thresholds() if profile is None else profile.thresholds)["fluctuation_pct"]
    found, averaged = _recorded(diagnosis, profile), ""
    if found is not None:
        from hermes_agent.report.pictures import recorded

        steps, rank = found.slowest_ms, recorded.named_rank(found)
        recorded_ms = zip(steps.index.astype(int).tolist(), steps.astype(float).tolist(), strict=True)
        times = data.recorded_times(rank, recorded_ms, limit_pct)
        slowest = f", rank {rank}" if len(found.ranks) > 1 else ""
        title, source = f"Step time{_of_unprofiled(found)} by {recorded.SOURCES[found.origin]}{slowest}", "records"
        averaged = found.averaged
    else:
        times, title, source = data.step_times(diagnosis, limit_pct), "Step time, slowest rank of each step", "trace"
    ranks_known = all(point.rank is not None for point in times.points)
    return Drawn(
        "series",
        title,
        _long_steps(times) + (f" {averaged[:1].upper()}{averaged[1:]}." if averaged else ""),
        lambda canvas: charts.series(times, canvas),
        ("step", *(("rank",) if ranks_known else ()), "ms", ""),
        tuple(
            (
                each.label,
                *((str(each.longest.rank),) if ranks_known else ()),
                f"{each.longest.ms:.2f}",
                "long step" if each.longest.long else "",
            )
            for each in columns(times, MOST_TABLE_ROWS)
        ),
        f'hermes-dx tool series RUN --args \'{{"source": "{source}", "sort": "step"}}\'',
    )


def _recorded(diagnosis: Diagnosis, profile: Profile | None) -> RunSeries | None:
    """The records of whole steps where they hold more steps than the traces; UsageError where neither holds any."""
    found = None if profile is None else profile.series
    traced = len({row.step for row in diagnosis.breakdown if row.step is not None})
    if not traced and found is None:
        raise UsageError(data.NO_STEPS)
    return found if found is not None and len(found.slowest_ms) > traced else None


def _of_unprofiled(found: RunSeries) -> str:
    return " of unprofiled steps" if found.origin in UNPROFILED else ""


def _long_steps(times: data.StepTimes) -> str:
    over = f"{written(times.limit_ms, 'ms')} (median + {times.limit_pct:g} %)"
    if not times.long:
        return f"The median is {written(times.median_ms, 'ms')}; no step is longer than {over}."
    first = times.long[0]
    longest = f"the longest is step {first.step} with {written(first.ms, 'ms')}"
    verb = "is" if len(times.long) == 1 else "are"
    return f"{len(times.long)} of {counted(len(times.points), 'step')} {verb} longer than {over}; {longest}."


def heatmap(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """Each rank in each step: its own time by records, else by the traces; where neither has it the whole step."""
    records = _recorded(diagnosis, profile)
    if records is not None and (own := _recorded_heatmap(records, "own")) is not None:
        return own
    traced = {row.rank for row in diagnosis.breakdown if row.step is not None}
    if len(traced) > 1:
        shown = "rank" if diagnosis.run.screening is None else "rank (those read in full)"
        heat = data.heat(diagnosis)
        return _heatmap(heat, f"{_measure(heat)} by {shown} and step", "", "trace")
    if records is None or (whole := _recorded_heatmap(records, "wall")) is None:
        raise UsageError(_no_ranks(records, bool(traced)))
    return whole


def _no_ranks(records: RunSeries | None, traced: bool) -> str:
    from hermes_agent.report.pictures import recorded

    if records is not None and recorded.named_rank(records) is None:
        return OF_THE_JOB
    return ONE_RANK if traced else ONE_RECORDED


def _recorded_heatmap(series: RunSeries, measure: str) -> Drawn | None:
    """The heatmap of the unprofiled steps in the records; None where they have no such measure or one rank alone."""
    from hermes_agent.report.pictures import recorded

    if len(series.ranks) < 2:
        return None
    found = recorded.heat(replace(series, captured=series.captured.iloc[:0]), measure)
    if found is None:
        return None
    shown = "rank"
    if found.chosen.left_out:
        differing, typical = len(found.chosen.outliers), len(found.chosen.typical)
        shown = f"rank ({differing} that differ most and {typical} typical ones of {len(series.ranks):,})"
    what = f"{_measure(found.heat)}{_of_unprofiled(series)}"
    title = f"{what} by {shown} and step, from {recorded.SOURCES[series.origin]}"
    before = f"{counted(found.before, 'step')} recorded before are not drawn." if found.before else ""
    waiting = WAITING_INCLUDED if measure == "wall" else ""
    return _heatmap(found.heat, title, " ".join(filter(None, (waiting, before))), "records")


def _measure(heat: data.Heat) -> str:
    title = data.MEASURES[heat.measure]
    return title[:1].upper() + title[1:]


def _heatmap(heat: data.Heat, title: str, notes: str, source: str) -> Drawn:
    rank, step = max(heat.values, key=lambda place: heat.values[place])
    found = grid(heat, most_columns=MOST_TABLE_ROWS // 2)
    longest = f"The longest is rank {rank} in step {step}: {written(heat.values[rank, step], 'ms')}."
    return Drawn(
        "heatmap",
        title,
        " ".join(filter(None, (longest, notes))),
        lambda canvas: charts.heatmap(grid(heat, canvas.columns()), canvas),
        ("step", *(f"{label}, ms" for label in found.rows)),
        tuple(_step_row(found, place) for place in range(len(found.columns))),
        f'hermes-dx tool series RUN --args \'{{"source": "{source}", "rank": {rank}}}\'',
    )


def _step_row(found: Grid, place: int) -> tuple[str, ...]:
    of_ranks = (values[place] for values in found.values)
    return found.columns[place], *("" if value != value else f"{value:.2f}" for value in of_ranks)

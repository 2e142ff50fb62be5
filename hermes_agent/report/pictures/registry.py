"""The pictures of a report by name: figures, one sentence of what they show, a chart, and the same as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from hermes_agent.model.display import PART_TITLES, counted, family_title
from hermes_agent.report.headline import headline_cause
from hermes_agent.report.pictures import charts, data
from hermes_agent.report.pictures.charts import Canvas, Picture
from hermes_agent.report.pictures.offer import NAMES
from hermes_agent.report.pictures.roofline import Roofline, measured, operator_text, operator_type
from hermes_agent.report.pictures.rows import Bar, Grid, bars, columns, grid
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import tool_of
from tools.errors import UsageError
from tools.knowledge.thresholds import Thresholds

if TYPE_CHECKING:
    from tools.findings import Fact
    from tools.views.profile import Profile
    from tools.views.series import SeriesOrigin

MOST_TABLE_ROWS = 64
RECORDED: Mapping[SeriesOrigin, str] = {
    "monitor": "Step time of unprofiled steps by monitor records",
    "step_log": "Step time of unprofiled steps by the step log",
    "job_log": "Step time by the job's output",
    "ascend": "Step time by the tables of the Ascend profiler",
    "operations": "Step time by the table of operations",
}
NAMED_STEPS = 3
ABOVE_PEAK = "Points above the peak: Winograd and Fourier convolutions do fewer operations than are counted."
ONE_RANK = "A heatmap compares ranks, and one was traced; the step series shows the same."
NOT_READ = "This picture reads the run, which is not at hand."


@dataclass(frozen=True)
class Drawn:
    """A picture ready to be drawn at any width."""

    name: str
    title: str
    finding: str
    chart: Callable[[Canvas], Picture]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str  # what gives the figures, RUN for the run


def series(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """Step times: the unprofiled steps of records where these hold more steps than the traces, else the traced ones."""
    limit_pct = (Thresholds() if profile is None else profile.thresholds)["fluctuation_pct"]
    recorded = None if profile is None else profile.series
    traced, averaged = len({row.step for row in diagnosis.breakdown if row.step is not None}), ""
    if traced and (recorded is None or len(recorded.slowest_ms) <= traced):
        times, title, source = data.step_times(diagnosis, limit_pct), "Step time, slowest rank of each step", "trace"
    elif recorded is not None:
        steps = recorded.slowest_ms
        recorded_ms = zip(steps.index.astype(int).tolist(), steps.astype(float).tolist(), strict=True)
        times = data.recorded_times(recorded.slowest_rank, recorded_ms, limit_pct)
        slowest = f", rank {recorded.slowest_rank}" if len(recorded.ranks) > 1 else ""
        title, source = f"{RECORDED[recorded.origin]}{slowest}", "records"
        averaged = recorded.averaged
    else:
        raise UsageError(data.NO_STEPS)
    return Drawn(
        "series",
        title,
        _long_steps(times) + (f" {averaged[:1].upper()}{averaged[1:]}." if averaged else ""),
        lambda canvas: charts.series(times, canvas),
        ("step", "rank", "ms", ""),
        tuple(
            (each.label, str(each.longest.rank), f"{each.longest.ms:.2f}", "long step" if each.longest.long else "")
            for each in columns(times, MOST_TABLE_ROWS)
        ),
        f'hermes-dx tool series RUN --args \'{{"source": "{source}", "sort": "step"}}\'',
    )


def _long_steps(times: data.StepTimes) -> str:
    over = f"{written(times.limit_ms, 'ms')} (median + {times.limit_pct:g} %)"
    if not times.long:
        return f"The median is {written(times.median_ms, 'ms')}; no step is longer than {over}."
    first = times.long[0]
    longest = f"the longest is step {first.step} with {written(first.ms, 'ms')}"
    verb = "is" if len(times.long) == 1 else "are"
    return f"{len(times.long)} of {counted(len(times.points), 'step')} {verb} longer than {over}; {longest}."


def heatmap(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """The own time of each rank in each step."""
    heat = data.heat(diagnosis)
    if len(heat.ranks) < 2:
        raise UsageError(ONE_RANK)
    rank, step = max(heat.values, key=lambda place: heat.values[place])
    found = grid(heat, most_columns=MOST_TABLE_ROWS // 2)
    return Drawn(
        "heatmap",
        f"Own time (step without exposed communication) by {_ranks_shown(diagnosis)} and step",
        f"The longest is rank {rank} in step {step}: {written(heat.values[rank, step], 'ms')}.",
        lambda canvas: charts.heatmap(grid(heat, canvas.columns()), canvas),
        ("ms", *(f"step {label}" for label in found.columns)),
        tuple(_grid_row(found, place) for place in range(len(found.rows))),
        f"hermes-dx tool series RUN --args '{{\"rank\": {rank}}}'",
    )


def _ranks_shown(diagnosis: Diagnosis) -> str:
    """The ranks of a diagnosis; of many, those that were not compared by summary only."""
    return "rank" if diagnosis.run.screening is None else "rank (those read in full)"


def _grid_row(found: Grid, place: int) -> tuple[str, ...]:
    return found.rows[place], *("" if value != value else f"{value:.2f}" for value in found.values[place])


def breakdown(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """The parts of a mean step, per rank or group of ranks."""
    found = bars(diagnosis)
    return Drawn(
        "breakdown",
        "Parts of a mean step",
        " ".join(filter(None, (_largest_loss(found), _of_groups(diagnosis)))),
        lambda canvas: charts.breakdown(found, canvas),
        ("ms", "step", *PART_TITLES.values()),
        tuple((bar.label, f"{bar.step_ms:.2f}", *(f"{ms:.2f}" for ms in bar.parts)) for bar in found),
        "hermes-dx ranks RUN",
    )


def _largest_loss(found: Sequence[Bar]) -> str:
    """The largest part that is no computation, and where."""
    losses = [(ms, bar, part) for bar in found for part, ms in zip(data.PARTS, bar.parts, strict=True)]
    ms, bar, part = max((each for each in losses if each[2] != "compute"), key=lambda each: each[0])
    if ms <= 0:
        return "The whole step is computation."
    share = written(100.0 * ms / bar.step_ms, "%")
    largest = f"Largest part other than computation: {PART_TITLES[part]}, {written(ms, 'ms')} of the step ({share})"
    alike = sum(each.parts[data.PARTS.index(part)] >= ALIKE * ms for each in found) - 1
    where = f"{bar.label} and {alike} more" if alike else bar.label
    return f"{largest}{f' on {where}' if len(found) > 1 else ''}."


def _of_groups(diagnosis: Diagnosis) -> str:
    """What bars of groups show, and how many groups have none."""
    screening = diagnosis.run.screening
    if screening is None or not screening.groups:
        return ""
    more = len(screening.groups) + screening.more_groups - data.MOST_RANKS
    unseen = f" {counted(more, 'further group')} without a bar." if more > 0 else ""
    return f"Bars of groups: the median of their ranks, part by part.{unseen}"


def critical_path(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """The critical path of a mean step by family of work."""
    if profile is None:
        raise UsageError(NOT_READ)
    found = data.critical_path(tool_of("critical_path").call(_Cited(profile, diagnosis), {}))
    first = found.shares[0]
    share = written(100.0 * first.ms / found.step_ms, "%")
    return Drawn(
        "critical_path",
        "Critical path of a mean step",
        f"{share} of the critical path is {family_title(first.family)}: {written(first.ms, 'ms')} of "
        f"{written(found.step_ms, 'ms')}.",
        lambda canvas: charts.critical_path(found, canvas),
        ("family of work", "ms on the path", "ms saved without it", "evidence"),
        tuple(
            (
                family_title(each.family),
                f"{each.ms:.2f}",
                "" if each.saved_ms is None else f"{each.saved_ms:.2f}",
                " ".join(f"[{identifier}]" for identifier in each.ids if identifier),
            )
            for each in found.shares
        ),
        "hermes-dx tool critical_path RUN",
    )


class _Cited(RunContext):
    """The run; a figure that the diagnosis holds keeps its id, others have none."""

    def __init__(self, profile: Profile, diagnosis: Diagnosis) -> None:
        super().__init__(profile)
        self._ids = {(row.metric, tuple(sorted(row.arguments.items(), key=str))): row.id for row in diagnosis.evidence}

    def cite(self, fact: Fact) -> str:
        """The id of the same metric and arguments in the diagnosis; "" where it has none."""
        return self._ids.get((fact.metric, tuple(sorted(dict(fact.arguments).items(), key=str))), "")


def roofline(diagnosis: Diagnosis, profile: Profile | None) -> Drawn:
    """Operators with recorded shapes against the peaks of their device."""
    if profile is None:
        raise UsageError(NOT_READ)
    found = measured(profile)
    return Drawn(
        "roofline",
        f"Roofline of rank {found.rank} on {found.device}",
        _most_time(found),
        lambda canvas: charts.roofline(found, canvas),
        ("operator", "sizes", "type", "calls", "ms per step", "operations per byte", "TFLOP/s", "% of peak"),
        tuple(
            (
                each.name,
                each.sizes,
                operator_type(each),
                f"{each.calls:,}",
                f"{each.ms_per_step:.3f}",
                f"{each.flops_per_byte:.1f}",
                f"{each.flops_per_s / 1e12:.3g}",
                f"{100.0 * each.flops_per_s / each.peak_flops_per_s:.3g}",
            )
            for each in found.operators
        ),
        "hermes-dx diagnose RUN --svg roofline.svg --picture roofline",
    )


def _most_time(found: Roofline) -> str:
    text = f"Most device time: {operator_text(found.operators[0])}"
    rest = f"; {counted(found.left_out, 'shorter group')} of calls not drawn" if found.left_out else ""
    above = any(each.flops_per_s > each.peak_flops_per_s for each in found.operators)
    return f"{text}{rest}.{f' {ABOVE_PEAK}' if above else ''}"


Maker = Callable[[Diagnosis, "Profile | None"], Drawn]
PICTURES: Mapping[str, Maker] = dict(zip(NAMES, (series, heatmap, breakdown, critical_path, roofline), strict=True))
ALIKE = 0.98  # of the largest part, above which another bar has it as well
FEW = 0.5  # of the ranks or steps
OF_FAMILY = {"parallel": "critical_path", "computation": "roofline"}


def drawable(diagnosis: Diagnosis, profile: Profile | None) -> tuple[dict[str, Drawn], dict[str, str]]:
    """The pictures of a run by name, and why the others cannot be drawn."""
    drawn, missing = {}, {}
    for name, make in PICTURES.items():
        try:
            drawn[name] = make(diagnosis, profile)
        except UsageError as error:
            missing[name] = str(error)
    return drawn, missing


def most_telling(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The names of the pictures, the one that shows best what the headline names before all."""
    cause = headline_cause(diagnosis)
    first = "breakdown" if cause is None else _telling(cause, diagnosis)
    return tuple(dict.fromkeys((first, "breakdown", "series", "heatmap", "critical_path", "roofline")))


def _telling(cause: CauseRecord, diagnosis: Diagnosis) -> str:
    """Where few ranks have the cause the ranks, where few steps have it the steps, else the picture of its family."""
    if 0 < len(cause.ranks) <= len(diagnosis.run.ranks) * FEW:
        return "heatmap"
    if 0 < len(cause.steps) <= len(diagnosis.run.steps) * FEW:
        return "series"
    return OF_FAMILY.get(cause.family, "breakdown")


def chosen(diagnosis: Diagnosis, profile: Profile | None, name: str = "") -> Drawn:
    """The picture of that name, else the most telling one that can be drawn; UsageError where none can."""
    if name and name not in PICTURES:
        raise UsageError(f"There is no picture {name!r}; there are {', '.join(PICTURES)}.")
    reasons = []
    for each in (name,) if name else most_telling(diagnosis):
        try:
            return PICTURES[each](diagnosis, profile)
        except UsageError as error:
            reasons.append(str(error))
    raise UsageError(reasons[0])

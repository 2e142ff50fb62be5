"""The pictures of a report by name: figures, one sentence of what they show, a chart, and the same as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from hermes_agent.model.display import PART_TITLES, counted, family_title
from hermes_agent.report.headline import headline_cause
from hermes_agent.report.pictures import charts, data
from hermes_agent.report.pictures.drawn import Drawn
from hermes_agent.report.pictures.offer import NAMES
from hermes_agent.report.pictures.roofline import Roofline, measured, operator_text, operator_type
from hermes_agent.report.pictures.rows import Bar, bars
from hermes_agent.report.pictures.step_pictures import heatmap, series
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import tool_of
from tools.errors import UsageError

if TYPE_CHECKING:
    from tools.findings import Fact
    from tools.views.profile import Profile

ABOVE_PEAK = "Points above the peak: Winograd and Fourier convolutions do fewer operations than are counted."
NOT_READ = "This picture reads the run, which is not at hand."


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
    found = data.critical_path(tool_of("critical_path").call(_Cited(_traced(profile), diagnosis), {}))
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


def _traced(profile: Profile | None) -> Profile:
    """The run of a picture of its events; UsageError where it is not at hand or holds no trace."""
    if profile is None:
        raise UsageError(NOT_READ)
    if not profile.traced:
        raise UsageError(data.NO_STEPS)
    return profile


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
    found = measured(_traced(profile))
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

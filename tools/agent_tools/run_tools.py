"""The tools that read a run, for the agent and for other programs: every figure they give carries an id."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, create_model

from tools.agent_tools.tool import (
    MOST_ROWS,
    ROWS,
    Arguments,
    Figure,
    NoArguments,
    ReadTool,
    ToolContext,
    check_arguments,
    measured,
    page,
    read_tool,
)
from tools.errors import UsageError
from tools.findings import Argument
from tools.judgement.catalog import metrics
from tools.metrics.idle import REASONS
from tools.metrics.measurement import Metric
from tools.metrics.named_time import host_rows, kernel_rows
from tools.views.coarse import step_series
from tools.views.parts import PARTS
from tools.views.rank_profile import RankProfile
from tools.whatif.critical_path import FAMILIES, REMOVABLE

STATISTICS = ("mean", "median", "p95", "max")


class StepTimes(Arguments):
    """The steps of one rank, or of the slowest."""

    rank: int | None = Field(default=None, ge=0, description="one rank; without it the slowest rank of each step")
    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS, description="steps listed, the longest first")


def step_times(context: ToolContext, asked: StepTimes) -> str:
    """Step time: mean, median, 95th percentile, maximum, variation, and the longest steps."""
    rank = asked.rank
    series = step_series(context.profile(), rank)
    figures: list[Figure] = [
        (f"{name} step time", "step_time_ms", {"statistic": name, "rank": rank}) for name in STATISTICS
    ]
    figures.append(("variation of the step time", "step_variation_pct", {"rank": rank}))
    order = (-series.ms).argsort(kind="stable")[: asked.limit]
    longest: list[Figure] = [
        (f"step {number} over the median step", "step_excess_ms", {"step": number, "rank": rank})
        for number in (int(series.numbers[place]) for place in order)
    ]
    return "\n".join([*measured(context, figures), page(measured(context, longest), len(series.ms), "steps")])


class Breakdown(Arguments):
    """A rank and a step; both may be left out."""

    rank: int | None = Field(default=None, ge=0, description="one rank; without it the mean of all")
    step: int | None = Field(default=None, ge=0, description="one step; without it the mean of all")


def breakdown(context: ToolContext, asked: Breakdown) -> str:
    """Breakdown of a step: compute, exposed communication, exposed copies, data wait, host and idle, with shares.

    The parts do not overlap and add up to the step. Overlapped communication is given in addition.
    """
    where = {"rank": asked.rank, "step": asked.step}
    figures: list[Figure] = [("whole step", "part_ms", {"part": "wall", **where})]
    for part in PARTS:
        label = part.replace("_", " ")
        figures.append((label, "part_ms", {"part": part, **where}))
        figures.append((f"{label}, share", "part_pct", {"part": part, **where}))
    figures.append(("overlapped communication", "part_ms", {"part": "overlapped_communication", **where}))
    return "\n".join(measured(context, figures))


class RankComparison(Arguments):
    """The number of ranks."""

    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS, description="ranks listed, the slowest first")


def rank_comparison(context: ToolContext, asked: RankComparison) -> str:
    """Ranks compared: mean step time of each, and its own share of it without waiting for other ranks."""
    table = context.profile().breakdown
    own = (table["wall_ns"] - table["exposed_communication_ns"]).groupby(table["rank"]).mean()
    order = [int(rank) for rank in own.sort_values(ascending=False, kind="stable").index]
    spread: Figure = ("spread of the ranks' own time", "rank_spread_pct", {"of": "own"})
    figures = [spread] if len(order) > 1 else []
    for rank in order[: asked.limit]:
        figures.append((f"rank {rank}, own time per step", "rank_time_ms", {"of": "own", "rank": rank}))
        figures.append((f"rank {rank}, whole step", "rank_time_ms", {"of": "wall", "rank": rank}))
    lines = measured(context, figures)
    if len(order) > asked.limit:
        lines.append(f"Shown are `{asked.limit} of {len(order)}` ranks.")
    return "\n".join(lines)


class Names(Arguments):
    """Names of one rank."""

    rank: int = Field(ge=0)
    contains: str = Field(default="", max_length=200, description="plain text that the name has to contain")
    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS)


def slowest_kernels(context: ToolContext, asked: Names) -> str:
    """The device kernels of a rank that take most time per step, by name, with their number per step."""
    view = context.profile().rank(asked.rank)
    if not view.rank.has_device:
        return f"Rank {asked.rank} has no device, so it runs no kernels; host_calls lists what its host does."
    names = _by_time(view, kernel_rows(view), asked.contains)
    return _listed(context, asked.rank, names, asked.limit, ("rank_kernel_ms", "rank_kernel_count"), "kernel names")


def host_calls(context: ToolContext, asked: Names) -> str:
    """Work of a rank's host: operators, runtime calls and marked spans, by name, most time per step first.

    Calls contain one another, so their times do not add up.
    """
    view = context.profile().rank(asked.rank)
    names = _by_time(view, host_rows(view), asked.contains)
    return _listed(context, asked.rank, names, asked.limit, ("host_name_ms", "host_name_count"), "names of host calls")


def _by_time(view: RankProfile, rows: NDArray[np.int64], contains: str) -> list[str]:
    """The distinct names of the rows, most time first; the text is looked for in names, not in events."""
    names = view.events.frame["name"].cat
    codes = names.codes.to_numpy()[rows]
    total = np.bincount(codes, weights=view.end[rows] - view.start[rows], minlength=len(names.categories))
    present = np.unique(codes)
    found = pd.Index(names.categories)[present].astype(str)
    wanted = present[np.asarray(found.str.contains(contains, case=False, regex=False), dtype=bool)]
    order = wanted[np.argsort(-total[wanted], kind="stable")]
    return [str(names.categories[code]) for code in order]


def _listed(context: ToolContext, rank: int, names: list[str], limit: int, metrics: tuple[str, str], what: str) -> str:
    lines = []
    for name in names[:limit]:
        time, count = (context.measure(metric, rank=rank, name=name) for metric in metrics)
        lines.append("- " + context.say("{n0}: {0} in {1} per step", time, count, names=(name,)))
    return page(lines, len(names), what)


LAUNCHES = (
    ("launches per step", "launches_per_step"),
    ("median kernel", "launched_kernel_us"),
    ("time between launches", "launch_interval_us"),
    ("median launch-queue depth", "launch_queue_length"),
    ("launches that find an empty queue", "empty_queue_pct"),
    ("delay from launch to start", "launch_delay_us"),
    ("launches that wait for their kernel", "launch_blocking_pct"),
    ("synchronising calls per step", "blocking_calls_per_step"),
    ("host waiting in them per step", "blocking_wait_ms"),
)


class OneRank(Arguments):
    """One rank."""

    rank: int = Field(ge=0)


def launch_queue(context: ToolContext, asked: OneRank) -> str:
    """Launch rate, launch-queue depth and synchronising calls of a rank: does its host keep the device busy?"""
    return "\n".join(measured(context, ((label, name, {"rank": asked.rank}) for label, name in LAUNCHES)))


def device_idle(context: ToolContext, asked: OneRank) -> str:
    """Idle time of a rank's device per step, by reason."""
    figures: list[Figure] = [("idle in all", "device_idle_ms", {"rank": asked.rank})]
    for reason in REASONS:
        label = f"idle, {reason.replace('_', ' ')}"
        where: dict[str, Argument] = {"rank": asked.rank, "reason": reason}
        figures += [(label, "device_idle_ms", where), (f"{label}, share", "device_idle_pct", where)]
    return "\n".join(measured(context, figures))


def critical_path(context: ToolContext, _: NoArguments) -> str:
    """The critical path of a step by family of work, and the time saved if that family's work took no time."""
    figures: list[Figure] = [("whole path per step", "critical_path_step_ms", {})]
    for family in FAMILIES:
        figures.append((f"{family} on the path", "critical_path_ms", {"family": family}))
        if family in REMOVABLE:
            figures.append((f"saved without {family}", "family_saving_ms", {"family": family}))
    return "\n".join(measured(context, figures))


class Collectives(Arguments):
    """The collectives in question; everything may be left out."""

    kind: str | None = Field(default=None, max_length=40, description="all_reduce, all_gather, reduce_scatter, ...")
    rank: int | None = Field(default=None, ge=0)


def collectives(context: ToolContext, asked: Collectives) -> str:
    """Collectives: number and time per step, overlap with compute, waiting for stragglers, bus bandwidth, size."""
    kind: dict[str, Argument] = {"kind": asked.kind}
    rank: dict[str, Argument] = {"rank": asked.rank}
    count = context.measure("collective_count", **kind, **rank)
    if not count.value:
        return context.say("Such collectives in a step: {0}; how they run is not assessable from this data.", count)
    figures: tuple[Figure, ...] = (
        ("collectives per step and rank", "collective_count", kind | rank),
        ("time inside them per step", "collective_ms", kind | rank),
        ("communication that overlaps with compute", "communication_overlap_pct", rank),
        ("exposed communication that is not waiting", "exposed_transfer_ms", rank),
        ("exposed waiting for a straggler", "exposed_wait_ms", rank),
        ("inequality of arrivals (R_wait)", "wait_ratio_pct", kind),
        ("bus bandwidth of large ones", "bus_bandwidth", kind),
        ("median size", "message_bytes", kind),
        ("found on several ranks", "matched_collectives", {}),
        ("without a counterpart", "unmatched_collectives", {}),
    )
    return "\n".join(measured(context, figures))


class ListMetrics(Arguments):
    """A part of the metrics."""

    contains: str = Field(default="", max_length=80, description="only metrics with this text in name or question")


def list_metrics(_: ToolContext, asked: ListMetrics) -> str:
    """The metrics that measure can take, with their arguments, unit and the question each answers."""
    text = asked.contains.lower()
    chosen = [metric for metric in metrics().values() if text in f"{metric.name} {metric.question}".lower()]
    lines = [f"- {metric.name}({_signature(metric)}), {metric.unit}: {metric.question}" for metric in chosen]
    return page(lines[: 3 * MOST_ROWS], len(lines), "metrics")


class Measure(Arguments):
    """A metric with its arguments."""

    metric: str = Field(max_length=80, description="a name from list_metrics")
    arguments: dict[str, str | int | float | None] = Field(
        default_factory=dict, description='the arguments of that metric, for example {"rank": 0}'
    )


def measure(context: ToolContext, asked: Measure) -> str:
    """One figure of the run by the name of its metric, with an id."""
    known = metrics().get(asked.metric)
    if known is None:
        raise UsageError(f"there is no metric {asked.metric!r}; list_metrics gives those there are")
    called = f"{known.name}({_signature(known)})"
    arguments = check_arguments(called, _arguments(known), asked.arguments).model_dump(exclude_unset=True)
    fact = context.measure(known.name, **arguments)
    scope = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return context.say("{n0}: {0}", fact, names=(f"{known.name}({scope})",))


def _arguments(metric: Metric) -> type[Arguments]:
    hints = get_type_hints(metric.function)
    fields = {
        name: (hints[name], ... if each.default is each.empty else each.default)
        for name, each in _parameters(metric).items()
    }
    model: type[Arguments] = create_model(metric.name, __base__=Arguments, **fields)  # type: ignore[call-overload]
    return model


def _signature(metric: Metric) -> str:
    return ", ".join(
        f"{name}: {each.annotation}" + ("" if each.default is each.empty else f" = {each.default!r}")
        for name, each in _parameters(metric).items()
    )


def _parameters(metric: Metric) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(metric.function).parameters)
    parameters.pop("profile")
    return parameters


RUN_TOOLS: tuple[ReadTool[ToolContext], ...] = (
    read_tool(step_times, StepTimes),
    read_tool(breakdown, Breakdown),
    read_tool(rank_comparison, RankComparison),
    read_tool(slowest_kernels, Names),
    read_tool(host_calls, Names),
    read_tool(launch_queue, OneRank),
    read_tool(device_idle, OneRank),
    read_tool(critical_path, NoArguments),
    read_tool(collectives, Collectives),
    read_tool(list_metrics, ListMetrics),
    read_tool(measure, Measure),
)

"""The explicit list of metrics, and how a fact is measured and measured again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.metrics import attribution, computation, critical_path, idle, io, memory, named_time, rank_speed, step_time
from tools.metrics.communication import collectives, overlap, pipeline, rank_work, transfers
from tools.metrics.host import compiled, dispatch, launches, operator_groups, operator_speed, program
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.recorded import own_time, samples, saves, series
from tools.run.model import MONITOR_FORMAT, STEP_LOG_FORMAT
from tools.views.profile import Profile

MODULES = (
    attribution,
    computation,
    critical_path,
    idle,
    io,
    memory,
    named_time,
    rank_speed,
    step_time,
    compiled,
    dispatch,
    launches,
    operator_groups,
    operator_speed,
    program,
    collectives,
    overlap,
    pipeline,
    rank_work,
    transfers,
    own_time,
    samples,
    saves,
    series,
)


@lru_cache(maxsize=1)
def metrics() -> dict[str, Metric]:
    """All metrics that analyzers may use, by name; ``tools.judgement.catalog`` adds those on the ranking."""
    return {name: metric for module in MODULES for name, metric in module.METRICS.items()}


def measurement(profile: Profile, metric: str, **arguments: Argument) -> Measurement:
    """Carries out one measurement; a clear error when there is no such metric."""
    return known_metric(metrics(), metric).function(profile, **arguments)


def measure(profile: Profile, metric: str, **arguments: Argument) -> Fact:
    """The figure as a fact that can be cited, stored and measured again."""
    return fact_of(metrics(), profile, metric, arguments)


def known_metric(known: Mapping[str, Metric], metric: str) -> Metric:
    """The metric of that name; a clear error when there is none."""
    if metric not in known:
        raise UsageError(f"there is no metric {metric!r}; known are {', '.join(sorted(known))}")
    return known[metric]


def fact_of(known: Mapping[str, Metric], profile: Profile, metric: str, arguments: Mapping[str, Argument]) -> Fact:
    """One measurement as a fact."""
    result = known_metric(known, metric).function(profile, **arguments)
    return Fact(
        metric=metric,
        arguments=tuple(sorted(arguments.items())),
        value=result.value,
        unit=known[metric].unit,
        ranks=result.ranks,
        steps=result.steps,
        window_ns=result.window_ns,
        path=_path(profile, result),
        selector=result.selector,
        run=profile.label,
    )


def _path(profile: Profile, result: Measurement) -> str:
    other = (MONITOR_FORMAT, STEP_LOG_FORMAT)
    paths = [
        str(each.path)
        for each in profile.run.sources
        if (each.format == result.source if result.source else each.format not in other)
        and (not result.ranks or set(each.ranks) & set(result.ranks))
    ]
    return ", ".join(paths)

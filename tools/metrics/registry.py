"""The explicit list of metrics, and how a fact is measured and measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.metrics import (
    attribution,
    calls,
    coarse,
    communication,
    compiled,
    computation,
    cpu,
    critical_path,
    host_dispatch,
    host_groups,
    idle,
    io,
    launches,
    memory,
    names,
    network,
    operator_speed,
    overlap,
    own_time,
    pipeline,
    rank_work,
    recomputed,
    records,
    saves,
    series,
    steps,
    transfers,
    work,
)
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.profile import Profile
from tools.run.model import MONITOR_FORMAT, STEP_LOG_FORMAT


@lru_cache(maxsize=1)
def metrics() -> dict[str, Metric]:
    """All metrics that analyzers may use, by name; ``tools.catalog`` adds those on the ranking."""
    return {
        metric.name: metric
        for metric in (
            *attribution.METRICS,
            *calls.METRICS,
            *coarse.METRICS,
            *communication.METRICS,
            *compiled.METRICS,
            *computation.METRICS,
            *cpu.METRICS,
            *critical_path.METRICS,
            *host_dispatch.METRICS,
            *host_groups.METRICS,
            *idle.METRICS,
            *io.METRICS,
            *launches.METRICS,
            *memory.METRICS,
            *names.METRICS,
            *operator_speed.METRICS,
            *pipeline.METRICS,
            *rank_work.METRICS,
            *recomputed.METRICS,
            *network.METRICS,
            *overlap.METRICS,
            *own_time.METRICS,
            *records.METRICS,
            *saves.METRICS,
            *series.METRICS,
            *steps.METRICS,
            *transfers.METRICS,
            *work.METRICS,
        )
    }


def measurement(profile: Profile, metric: str, **arguments: Argument) -> Measurement:
    """Carries out one measurement; a clear error when there is no such metric."""
    return function_of(metrics(), metric)(profile, **arguments)


def measure(profile: Profile, metric: str, **arguments: Argument) -> Fact:
    """The figure as a fact that can be cited, stored and measured again."""
    return fact_of(metrics(), profile, metric, arguments)


def function_of(known: Mapping[str, Metric], metric: str) -> Callable[..., Measurement]:
    """What carries out the metric of that name."""
    if metric not in known:
        raise UsageError(f"there is no metric {metric!r}; known are {', '.join(sorted(known))}")
    return known[metric].function


def fact_of(known: Mapping[str, Metric], profile: Profile, metric: str, arguments: Mapping[str, Argument]) -> Fact:
    """One measurement as a fact."""
    result = function_of(known, metric)(profile, **arguments)
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
    read = [each for each in profile.run.sources if _is_of(each.format, result.source)]
    paths = [str(each.path) for each in read if not result.ranks or set(each.ranks) & set(result.ranks)]
    return ", ".join(paths)


def _is_of(found: str, wanted: str) -> bool:
    return found == wanted if wanted else found not in (MONITOR_FORMAT, STEP_LOG_FORMAT)

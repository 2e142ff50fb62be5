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
    computation,
    cpu,
    critical_path,
    idle,
    io,
    launches,
    memory,
    names,
    steps,
    transfers,
    work,
)
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.profile import Profile


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
            *computation.METRICS,
            *cpu.METRICS,
            *critical_path.METRICS,
            *idle.METRICS,
            *io.METRICS,
            *launches.METRICS,
            *memory.METRICS,
            *names.METRICS,
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
        path=_path(profile, result.ranks),
        selector=result.selector,
        run=profile.label,
    )


def _path(profile: Profile, ranks: tuple[int, ...]) -> str:
    paths = [str(source.path) for source in profile.run.sources if not ranks or set(source.ranks) & set(ranks)]
    return paths[0] if len(paths) == 1 else ", ".join(paths)

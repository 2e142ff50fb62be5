"""All that can be measured: what analyzers measure with (``tools.metrics.registry``), and what their ranking adds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tools.findings import Argument, Fact
from tools.judgement import savings, what_if
from tools.metrics import registry
from tools.metrics.measurement import Measurement, Metric, choice, metrics_of
from tools.views.profile import Profile


@lru_cache(maxsize=1)
def metrics() -> dict[str, Metric]:
    """All metrics by name."""
    return registry.metrics() | metrics_of(savings, what_if)


def measurement(profile: Profile, metric: str, **arguments: Argument) -> Measurement:
    """Carries out one measurement; a clear error when there is no such metric."""
    return metrics()[choice("metric", metric, metrics())].function(profile, **arguments)


def measure(profile: Profile, metric: str, **arguments: Argument) -> Fact:
    """The figure as a fact that can be cited, stored and measured again."""
    return registry.fact_of(metrics(), profile, metric, arguments)


def label(metric: str, arguments: Mapping[str, Argument]) -> str:
    """The words for a value of the metric with these arguments, such as ``mean data wait per step on rank 1``."""
    return registry.label_of(metrics()[choice("metric", metric, metrics())], arguments)

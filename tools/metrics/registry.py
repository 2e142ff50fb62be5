"""The explicit list of metrics, and how a fact is measured and measured again."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import Any

from tools.findings import Argument, Fact
from tools.metrics.measurement import Measurement, Metric, choice, metrics_of
from tools.quotes import quoted
from tools.run.kinds import FILLS
from tools.run.model import COUNTER_FORMAT, JOB_LOG_FORMAT, MONITOR_FORMAT, STEP_LOG_FORMAT
from tools.run.recorded.counters import COUNTERS
from tools.views.profile import Profile

HYPHENATED = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter")
RECORDED = ("name", "group")  # argument values that a run's own files name: untrusted text


def label_of(metric: Metric, arguments: Mapping[str, Argument]) -> str:
    """A noun phrase such as ``mean data wait per step on rank 1``, for a value of the metric with these arguments."""
    parameters = inspect.signature(metric.function).parameters.values()
    given = {each.name: each.default for each in parameters if each.default is not each.empty} | dict(arguments)
    words = {each.name: "" for each in parameters}
    words |= {name: _words(metric.name, name, value) for name, value in given.items()}
    placed = {name for _, name, _, _ in Formatter().parse(metric.label) if name}
    phrases = _words_of_labels()["behind"].items()
    behind = [phrase.format(words[name]) for name, phrase in phrases if name not in placed and words.get(name)]
    return " ".join([*metric.label.format(**words).split(), *behind])


def _words(metric: str, argument: str, value: Argument) -> str:
    if value is None or value == "":
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    match argument:
        case "cause" | "causes":
            return " and ".join(_cause(key) for key in text.split(","))
        case "counter" | "flag" if text in COUNTERS:
            return COUNTERS[text].label
        case "mechanism":
            return f"({_plain(text)})"
        case "ranks":
            return f"on rank{'s' if ',' in text else ''} {' and '.join(', '.join(text.split(',')).rsplit(', ', 1))}"
    values = _words_of_labels()["values"]
    known: Mapping[str, str] = values.get(f"{metric}.{argument}", values.get(argument, {}))
    if text in known:
        return known[text]
    return quoted(text) if argument in RECORDED else _plain(text)


@lru_cache(maxsize=1)
def _words_of_labels() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("labels.toml").read_text("utf-8"))


def _cause(key: str) -> str:
    cause, _, mechanism = key.strip().partition("/")
    return _plain(cause) + (f" ({_plain(mechanism)})" if mechanism else "")


def _plain(identifier: str) -> str:
    return "-".join(identifier.split("_")) if identifier in HYPHENATED else identifier.replace("_", " ")


NAMES = (
    "attribution",
    "calls",
    "computation",
    "core_clock",
    "cut_traces",
    "idle",
    "instances",
    "io",
    "memory",
    "memory_room",
    "named_time",
    "offload",
    "rank_speed",
    "screening",
    "step_modes",
    "step_time",
    "communication.collectives",
    "communication.gradients",
    "communication.pipeline",
    "communication.pipeline_layers",
    "communication.rank_work",
    "communication.transfers",
    "host.compiled",
    "host.embedding",
    "host.evaluation",
    "host.launches",
    "host.pauses",
    "host.program",
    "host.rates",
    "host.state_saves",
    "host.value_reads",
    "recorded.ascend",
    "recorded.collective_calls",
    "recorded.collective_lines",
    "recorded.collector",
    "recorded.counters",
    "recorded.drift",
    "recorded.environment",
    "recorded.epoch_times",
    "recorded.host_stacks",
    "recorded.job_log",
    "recorded.job_tables",
    "recorded.level_change",
    "recorded.lines_apart",
    "recorded.logged_data_wait",
    "recorded.logged_saves",
    "recorded.long_steps",
    "recorded.memory_snapshots",
    "recorded.memory_summary",
    "recorded.named_evaluations",
    "recorded.operations",
    "recorded.own_time",
    "recorded.profile_rows",
    "recorded.rank_times",
    "recorded.recompilations",
    "recorded.repeated_lines",
    "recorded.reports",
    "recorded.restarts",
    "recorded.sampled_levels",
    "recorded.samples",
    "recorded.saves",
    "recorded.series",
    "recorded.side_work",
    "recorded.throughput",
    "recorded.whole_run",
)
MODULES = tuple(import_module(f"tools.metrics.{name}") for name in NAMES)


@lru_cache(maxsize=1)
def metrics() -> dict[str, Metric]:
    """All metrics that analyzers may use, by name; ``tools.judgement.catalog`` adds those on the ranking."""
    return metrics_of(*MODULES)


def measurement(profile: Profile, metric: str, **arguments: Argument) -> Measurement:
    """Carries out one measurement; a clear error when there is no such metric."""
    return metrics()[choice("metric", metric, metrics())].function(profile, **arguments)


def measure(profile: Profile, metric: str, **arguments: Argument) -> Fact:
    """The figure as a fact that can be cited, stored and measured again."""
    return fact_of(metrics(), profile, metric, arguments)


def fact_of(known: Mapping[str, Metric], profile: Profile, metric: str, arguments: Mapping[str, Argument]) -> Fact:
    """One measurement as a fact."""
    result = known[choice("metric", metric, known)].function(profile, **arguments)
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
    other = (MONITOR_FORMAT, STEP_LOG_FORMAT, JOB_LOG_FORMAT, COUNTER_FORMAT, *FILLS)
    paths = [
        str(each.path)
        for each in profile.run.sources
        if (result.source in (each.format, *FILLS.get(each.format, ())) if result.source else each.format not in other)
        and (not result.ranks or set(each.ranks) & set(result.ranks))
    ]
    return ", ".join(paths)

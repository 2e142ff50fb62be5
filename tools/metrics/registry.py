"""The explicit list of metrics, and how a fact is measured and measured again."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any

from tools.findings import Argument, Fact
from tools.metrics import (
    attribution,
    calls,
    computation,
    core_clock,
    cut_traces,
    idle,
    instances,
    io,
    memory,
    memory_room,
    named_time,
    offload,
    rank_speed,
    screening,
    step_modes,
    step_time,
)
from tools.metrics.communication import collectives, gradients, pipeline, pipeline_layers, rank_work, transfers
from tools.metrics.host import (
    compiled,
    embedding,
    evaluation,
    launches,
    pauses,
    program,
    rates,
    state_saves,
    value_reads,
)
from tools.metrics.measurement import Measurement, Metric, choice, metrics_of
from tools.metrics.recorded import (
    ascend,
    collective_calls,
    collective_lines,
    collector,
    counters,
    drift,
    environment,
    epoch_times,
    host_stacks,
    job_log,
    job_tables,
    level_change,
    lines_apart,
    logged_data_wait,
    logged_saves,
    long_steps,
    memory_snapshots,
    memory_summary,
    operations,
    own_time,
    profile_rows,
    rank_times,
    recompilations,
    repeated_lines,
    restarts,
    sampled_levels,
    samples,
    saves,
    series,
    side_work,
    throughput,
    whole_run,
)
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


MODULES = (
    *(
        attribution,
        calls,
        computation,
        cut_traces,
        idle,
        instances,
        io,
        memory,
        memory_room,
        named_time,
        offload,
        rank_speed,
    ),
    *(core_clock, screening),
    *(step_modes, step_time),
    *(compiled, embedding, evaluation, launches, pauses, program, rates, state_saves, value_reads),
    *(collectives, gradients, pipeline, pipeline_layers, rank_work, transfers),
    *(collective_lines, counters, host_stacks, memory_snapshots),
    *(environment, epoch_times),
    *(profile_rows, rank_times, recompilations, repeated_lines, restarts, sampled_levels, samples, saves, series),
    *(side_work, throughput, whole_run),
    *(ascend, collective_calls, collector, drift),
    *(
        job_log,
        job_tables,
        level_change,
        lines_apart,
        logged_data_wait,
        logged_saves,
        long_steps,
        operations,
        own_time,
        memory_summary,
    ),
)


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

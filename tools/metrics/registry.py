"""The explicit list of metrics, and how a fact is measured and measured again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from string import Formatter

from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.metrics import attribution, computation, critical_path, idle, io, memory, named_time, rank_speed, step_time
from tools.metrics.communication import collectives, overlap, pipeline, rank_work, transfers
from tools.metrics.host import compiled, dispatch, launches, operator_groups, operator_speed, program
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.recorded import own_time, samples, saves, series
from tools.run.model import MONITOR_FORMAT, STEP_LOG_FORMAT
from tools.views.profile import Profile

NAME_LIMIT = 80
HYPHENATED = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter")
RECORDED = ("name", "group")  # argument values that a run's own files name: untrusted text

# The words of an argument's values where they differ from the value itself; "metric.argument" goes before "argument".
WORDS: Mapping[str, Mapping[str, str]] = {
    "bound": {"expected": "", "low": "(lower bound)", "high": "(upper bound)"},
    "family": {"io": "data input", "cpu": "host"},
    "field": {
        "allowed_cores": "cores the process may use",
        "children": "child processes",
        "children_allowed_cores": "cores the child processes may use",
        "children_cpu_us": "child processes' CPU time",
        "compilations": "torch.compile compilations",
        "compile_us": "torch.compile time",
        "major_faults": "major page faults",
        "minor_faults": "minor page faults",
        "python_threads_cpu_us": "CPU time of other Python threads",
        "quota_cores": "CPU quota in cores",
        "rdma_retransmits": "RDMA retransmissions",
        "run_delay_us": "run-queue wait of the process",
        "runnable": "runnable threads of the machine",
        "throttled_us": "CPU quota throttling",
        "training_cpu_us": "CPU time of the training thread",
        "training_run_delay_us": "run-queue wait of the training thread",
    },
    "group": {
        "compute_bound": "compute-bound operators",
        "computing": "all computing kernels",
        "costed": "operators of known cost",
        "elementwise_runs": "chains of element-wise operators",
        "fallback": "convolutions outside the tuned library",
        "fp64": "64-bit arithmetic",
        "layout": "layout conversion kernels",
        "loads_known": "matrix kernels with known load width",
        "matrix_operators": "matrix operators",
        "memory_bound": "memory-bound operators",
        "misaligned": "misaligned matrix kernels",
        "reads": "scalar reads from tensors",
        "small_grid": "kernels with fewer blocks than SMs",
        "streaming_runs": "chains of streaming kernels",
        "underutilized": "operators far from both device limits",
        "unnamed_arithmetic": "matrix operators of unknown precision",
        "vector_unit_fp32": "fp32 matrix operators off the matrix units",
    },
    "kind": {"python": "Python", "send_recv": "send/receive"},
    "matrix": {"0": "vector units", "1": "matrix units"},
    "of": {"own": "own", "wall": "wall"},
    "part": {
        "exposed_memcpy": "exposed copies",
        "gc": "garbage collection",
        "host": "host time",
        "idle": "idle time with queued kernels",
        "own": "own time",
        "rest": "time outside the own time",
        "thread_cpu": "CPU time of the training thread",
        "waiting": "wait for other ranks",
        "wall": "wall time",
    },
    "pattern": {"anomaly_check": "anomaly checks", "device_allocation": "device memory allocation"},
    "reason": {
        "all": "",
        "allocation": "during memory allocation",
        "collection": "during garbage collection",
        "compilation": "during compilation",
        "data": "waiting for data",
        "dispatch": "because of slow dispatch",
        "launched": "with queued kernels",
        "stall": "during host pauses",
        "synchronization": "after a synchronization",
        "upload": "during pageable copies",
    },
    "role": {"other": "unassigned", "step": "whole step"},
    "statistic": {"max": "maximum"},
    "temporal_pct.part": {"non_compute": "non-compute"},
    "timeline_ms.part": {},
    "whose": {"all": "the machine", "foreign": "other jobs", "run": "the run"},
}

# Arguments that a label names behind its phrase, where they are given and the phrase has no place for them.
BEHIND = {
    "step": "in step {}",
    "rank": "on rank {}",
    "last_rank": "for rank {}",
    "stream": "on stream {}",
    "micro_batches": "with {} micro-batches",
    "group": "in group {}",
}


def label_of(metric: Metric, arguments: Mapping[str, Argument]) -> str:
    """A noun phrase such as ``mean data wait per step on rank 1``, for a value of the metric with these arguments."""
    parameters = inspect.signature(metric.function).parameters.values()
    given = {each.name: each.default for each in parameters if each.default is not each.empty} | dict(arguments)
    words = {each.name: "" for each in parameters}
    words |= {name: _words(metric.name, name, value) for name, value in given.items()}
    placed = {name for _, name, _, _ in Formatter().parse(metric.label) if name}
    behind = [phrase.format(words[name]) for name, phrase in BEHIND.items() if name not in placed and words.get(name)]
    return " ".join([*metric.label.format(**words).split(), *behind])


def _words(metric: str, argument: str, value: Argument) -> str:
    if value is None or value == "":
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    match argument:
        case "cause" | "causes":
            return " and ".join(_cause(key) for key in text.split(","))
        case "mechanism":
            return f"({_plain(text)})"
        case "ranks":
            return f"on rank{'s' if ',' in text else ''} {' and '.join(', '.join(text.split(',')).rsplit(', ', 1))}"
    known = WORDS.get(f"{metric}.{argument}", WORDS.get(argument, {}))
    if text in known:
        return known[text]
    return _quoted(text) if argument in RECORDED else _plain(text)


def _cause(key: str) -> str:
    cause, _, mechanism = key.strip().partition("/")
    return _plain(cause) + (f" ({_plain(mechanism)})" if mechanism else "")


def _plain(identifier: str) -> str:
    return "-".join(identifier.split("_")) if identifier in HYPHENATED else identifier.replace("_", " ")


def _quoted(name: str) -> str:
    """A recorded name without control characters, back quotes or citation marks, bounded in length."""
    text = " ".join("".join(char if char.isprintable() else " " for char in name[: 4 * NAME_LIMIT]).split())
    text = text.replace("`", "'").replace("[", "(").replace("]", ")")
    return f"`{text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + '…'}`"


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

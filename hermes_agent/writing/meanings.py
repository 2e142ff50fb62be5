"""What each figure is about: the words a sentence has to call it by, and the topics that may stand beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.questions.question import normalised
from hermes_agent.writing.meanings_recorded import LONGER, RECORDED_RULES
from hermes_agent.writing.topics import OF_FAMILY, pattern_of, topics_of, topics_of_cause
from tools.knowledge.taxonomy import causes

Mood = Literal["any", "conditional", "measured"]


@dataclass(frozen=True)
class Meaning:
    """``own`` is a pattern of which one word has to be there, ``topics`` are those allowed, ``refused`` words never.

    All are held against normalised words. ``mood`` says whether the sentence must speak of what would be, or of what
    is; ``lead`` is what has to stand right before the figure.
    """

    own: str
    topics: frozenset[str]
    refused: str = ""
    mood: Mood = "any"
    lead: str = ""


PART_TOPICS = {
    "compute": "computation kernels operators",
    "exposed_communication": "communication late idle overlap",
    "overlapped_communication": "communication overlap computation",
    "exposed_memcpy": "copies memory",
    "data_wait": "data idle",
    "host": "host operators",
    "idle": "idle host",
}
PART_OWN = {
    "data_wait": "data|loader|dataloader|loading|input|batch|waits?|waiting",
    "idle": "idle|idles|idling",
    "host": "host|cpu|python|program|dispatch\\w*|operators?",
}
STEP = r"path|(?<!per )(?<!each )(?<!every )steps?|iterations?|recording|duration"
FASTER = r"faster|speed ?up|speed ?ups|quicker|gains?|times as fast|improv\w*|brings?"
COSTS = (
    r"costs?|los(e|es|t|s|ing)|impact|worth|sav(e|es|ing|ings)|give\w* back|that is|takes?|comes|first|second|third|"
    r"wast(e|es|ed|ing)"
)
NO_COST = r"critical path|the path|would take|(average|mean|median|whole|a|the) step (of|takes|is|lasts)"
WHOLE_PARTS = (
    r"(with|without)( the| all)? (host program|(exposed )?communication|computation|(exposed )?copies|idle\w*)"
)
SLOWER = r"slower|slow down|slowdown|longer|worse"
BOUNDS = {
    "low": r"\b(between|from|at least|no less than)( about)?",
    "high": r"\b(between|from)\b.*\b(and|to)|\b(up to|at most|no more than)( about)?",
}

# Pattern over "metric name=value ..." -> (pattern of own words, topics). The first that fits counts.
RULES: tuple[tuple[str, str, str], ...] = (
    (r"^rank_time_ms", r"ranks?|steps?|own|work", "communication late idle"),
    (r"^rank_spread", r"ranks?|apart|spread|unequal|differ\w*", "communication late"),
    (r"^step_excess", LONGER, ""),
    (r"^step_variation", r"var(y|ies|ied|iation)|fluctuat\w*|spread|steady|differ\w*|scatter", ""),
    (r"^fluctuating_steps", r"steps?", ""),
    (r"^step_trend", r"drifts?|drifting|trend|grow\w*|rise\w*|rising|falls?|fell|slows?|creep\w*", ""),
    (r"^level_shift", r"jumps?|shifts?|level|chang\w*", ""),
    (r"^long_step_period", r"every|period\w*|between|apart|long", ""),
    (r"^step_start_lag", r"after|late|later|began|begins?|behind|start\w*|delay\w*", "late"),
    (r"^critical_path_unexplained", r"no reason|unexplained|unknown|not known|without (a )?reason", "idle host late"),
    (r"^critical_path_ms family=idle", r"idle|gaps?|latency|behind|pauses?", "idle host late operators"),
    (r"^device_backlog", r"behind|backlog|late|ahead", "host"),
    (r"^device_idle_\w+ .*reason=all\b", r"idle|idles|idling|starv\w*", "idle"),
    (r"^device_idle_\w+ .*reason=data", r"data|loader|dataloader|loading|input|batch", "idle data"),
    (r"^device_idle_\w+ .*reason=launched", r"launched|work is (queued|there|waiting)", "idle host"),
    (r"^device_idle_\w+ .*reason=synchronization", 
     r"synchroni[sz]\w*|waited|waits? for the device|lead|blocking|then idle", "idle host"),
    (r"^device_idle_\w+ .*reason=dispatch", r"close launches|launch|launches|next operator|dispatch\w*",
     "idle host operators kernels"),
    (r"^device_idle_\w+ .*reason=stall", r"pauses?|launches nothing|stalls?|stands still|long gaps?|than launching",
     "idle host"),
    (r"^device_idle_\w+ .*reason=upload", r"pageable|preparing|upload\w*|cop(y|ies|ying)",
     "idle copies memory data host"),
    (r"^device_idle_\w+ .*reason=allocation", r"allocat\w*", "idle memory host"),
    (r"^device_idle_\w+ .*reason=compilation", r"(re ?)?compil\w*", "idle compilation host"),
    (r"^device_idle_\w+ .*reason=collection", r"garbage|gc|collection", "idle collection host"),
    (r"^device_idle", r"idle|idles|idling|wait\w*", "idle host"),
    (r"^device_slowdown", r"longer|slower|slow\w*", "kernels hardware computation"),
    (r"^device_peak_tflops .*matrix=1", r"matrix|tensor", "computation operators"),
    (r"^device_peak_tflops", r"ordinary|vector|usual|peak", "computation operators"),
    (r"^device_peak_gb_s", r"can|could|peak|limit|most", "memory computation operators"),
    (r"^host_math", r"host|precision|matrix|operators?", "host computation operators"),
    (r"^kernel_group_count", r"kernels", "computation kernels operators"),
    (r"^kernel_group_share_pct .*of=matrix_operators", r"matri(x|ces)|matmuls?", "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=layout", r"layouts?|transpos\w*|convert\w*|conversions?",
     "computation kernels memory operators"),
    (r"^kernel_group_\w+ .*group=misaligned", r"sizes?|align\w*|misalign\w*|fit|pad\w*|whole pieces",
     "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=small_grid", r"blocks?|small|grids?|multiprocessors",
     "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=streaming_runs", r"element ?wise|runs of|fus\w*|streaming|they take",
     "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=vector_unit_fp32", r"single|fp32|float32|ordinary|these kernels|vector",
     "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=fp64", r"double|fp64|float64", "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=underutilized", r"neither|under ?utili[sz]\w*|poorly",
     "computation memory kernels operators"),
    (r"^kernel_group_\w+ .*group=memory_bound", r"memory bound|memory", "computation memory kernels operators"),
    (r"^kernel_group_\w+ .*group=compute_bound", r"comput\w* bound|comput\w*", "computation kernels operators"),
    (r"^kernel_group_\w+ .*group=costed", r"known cost|they are|cost", "computation kernels operators memory"),
    (r"^kernel_group_\w+ .*group=matrix_operators", r"matri(x|ces)|matmuls?|convolutions?|gemms?",
     "computation kernels operators"),
    (r"^(kernel_|rank_kernel_)", r"kernels?|gemms?|matmuls?|calls?", "computation kernels operators"),
    (r"^streaming_gb_s", r"move|element ?wise|stream\w*", "computation kernels memory operators"),
    (r"^roofline_pct", r"peaks?|limit|roofline|near", "computation kernels memory operators"),
    (r"^matrix_tflops", r"matri(x|ces)|matmuls?", "computation kernels operators"),
    (r"^(operator_name|short_operator|operators_per_step)", r"operators?|ops", "host operators idle"),
    (r"^profiled_events .*kind=python", r"python|frames?", "profiler host"),
    (r"^profiled_events .*kind=operator", r"operators?", "profiler host operators"),
    (r"^profiling_overhead", r"profil\w*|recording stacks|tracing", "profiler host memory"),
    (r"^profiled_events", r"events?|record\w*", "profiler host operators"),
    (r"^host_span_\w+ .*pattern=compilation", r"(re ?)?compil\w*", "compilation host idle"),
    (r"^host_span_\w+ .*pattern=garbage", r"garbage|gc", "collection host idle"),
    (r"^host_span_\w+ .*pattern=device_allocation", r"allocat\w*|free\w*", "memory host idle"),
    (r"^host_span_\w+ .*pattern=checkpoint", r"checkpoint\w*|sav(e|es|ing)", "storage host idle data"),
    (r"^host_span", r"host|calls?|spans?|work", "host data idle collection compilation storage"),
    (r"^host_name", r"host|calls?|open|inside|spans?",
     "host data operators idle communication copies memory storage computation"),
    (r"^loader_operators", r"operators?|comput\w*|framework", "data operators computation host"),
    (r"^loader_frames", r"loader|reading|transform\w*|frames?|read\w*", "data storage host"),
    (r"^loader_workers", r"workers?|processes", "data"),
    (r"^loader_wait_steps", r"steps?", "data idle"),
    (r"^loader_", r"loader\w*|dataloader|data|batch(es)?|loading|spans?|input", "data idle"),
    (r"^upload_", r"cop(y|ies|ying)|uploads?|transfers?", "copies data memory idle"),
    (r"^launched_kernel", r"kernels?", "kernels host"),
    (r"^launch_interval", r"one every|between launches|every|interval", "host"),
    (r"^launches_per_step", r"launches|launched", "host kernels"),
    (r"^empty_queue", r"nothing queued|nothing|empty", "host idle"),
    (r"^launch_blocking", r"last until|block\w*|wait\w*", "host kernels"),
    (r"^launch_delay", r"return|delay\w*|wait\w*|launched work|queue\w*", "host kernels"),
    (r"^launch", r"queue\w*|ahead|delay\w*|launched work|waits?", "host kernels"),
    (r"^blocking_", r"waits?|waiting|waited|blocking|calls?|stands? still|synchroni[sz]\w*|blocks?|for",
     "host copies idle"),
    (r"^allocation_exposed", r"allocat\w*|free\w*|they", "memory idle"),
    (r"^allocation_", r"allocat\w*|free\w*|they|calls?", "memory"),
    (r"^memory_peak_mib .*what=reserved", r"reserved|holds?|takes from", "memory"),
    (r"^memory_peak", r"in use|use[sd]?|allocated|memory|peaks?", "memory"),
    (r"^memory_unused", r"unused|free|idle|wasted", "memory idle"),
    (r"^memory_used", r"full|used|uses|memory|occup\w*", "memory"),
    (r"^best_bus_bandwidth", r"fastest|best|most|top", "communication late"),
    (r"^bus_bandwidth", r"reach\w*|bandwidth|bus|transfer\w*|fast|speed", "communication late"),
    (r"^message_bytes", r"sizes?|messages?|large|small|carr\w*", "communication"),
    (r"^collective_wait|^exposed_wait|^wait_share|^wait_ratio", r"wait\w*|r wait|unequal|late",
     "communication late idle"),
    (r"^collective_host", r"asking|hold\w* up|host|starting|launch\w*", "communication host"),
    (r"^collective_fixed", r"whatever|fixed|each|transfer time|however small|start\w*", "communication host"),
    (r"^collective_count", r"collectives?|all ?\w+|communicat\w*", "communication host"),
    (r"^matched_collectives", r"several|matched|shared|found", "communication"),
    (r"^unmatched_collectives", r"counterparts?|unmatched", "communication"),
    (r"^lone_arrivals", r"apart|alone", "communication late"),
    (r"^mergeable", r"merg\w*|fewer|larger|bucket\w*|fus\w*|combin\w*", "communication host"),
    (r"^collective_ms", r"collectives?|communicat\w*|all ?reduces?|all ?gathers?|all ?to ?alls?|mean of all|inside",
     "communication late idle"),
    (r"^exposed_transfer", r"communicat\w*|transfer\w*|not waiting|of it", "communication late idle overlap"),
    (r"^communication_overlap|^temporal_overlap", r"beside|overlap\w*|hid\w*|hidden",
     "communication computation overlap"),
    (r"^hideable", r"hid\w*|hidden|overlap\w*", "communication computation overlap"),
    (r"^steps_waited", r"steps?", "communication late idle"),
    (r"^device_busy", r"busy|runs? kernels|comput\w*|utili[sz]\w*|works?", "idle kernels computation"),
    (r"^rank_excess", LONGER, "late kernels computation communication data host"),
    (r"^collective_mean", r"collectives?|each|one|mean|average|all ?\w+", "communication"),
    (r"^(step_name|host_own)", r"calls?|host|longer|more|longest|itself|own", "host data operators idle copies memory"),
    (r"^plugin_utilization", r"busy|utili[sz]\w*", "idle kernels computation"),
)  # fmt: skip


@lru_cache(maxsize=4096)
def _rule(key: str) -> tuple[str, str] | None:
    rules = (*RULES, *RECORDED_RULES)
    return next(((own, topics) for pattern, own, topics in rules if re.search(pattern, key)), None)


def meaning_of(record: EvidenceRecord) -> Meaning:
    """What a sentence has to call a figure; without an entry in the table the words of its metric's name."""
    arguments = record.arguments
    if isinstance(arguments.get("cause") or arguments.get("causes"), str):
        return _of_causes(record)
    if record.metric in ("step_time_ms", "series_step_ms", "critical_path_step_ms"):
        refused = "" if record.metric == "critical_path_step_ms" else _other_statistic(arguments.get("statistic"))
        topics = frozenset({"profiler"}) if record.metric == "series_step_ms" else frozenset[str]()
        return Meaning(STEP, topics, refused, "measured")
    part = arguments.get("part")
    if part == "wall":
        return Meaning(STEP, frozenset(), "critical path|median", "measured")
    if isinstance(part, str) and part in PART_TOPICS:
        topics = frozenset(PART_TOPICS[part].split())
        own = PART_OWN.get(part) or pattern_of(topics - {"late", "idle"})
        return Meaning(LONGER if "excess" in record.metric else own, topics, r"shorter|faster|that is")
    rule = _rule(" ".join([record.metric, *(f"{name}={value}" for name, value in sorted(arguments.items()))]))
    if rule is not None:
        own, named = rule
        names = _words_of_name(arguments.get("name"))
        return Meaning("|".join([own, *names]), frozenset(named.split()) | topics_of(" ".join(names)), _refused(record))
    family = arguments.get("family")
    if isinstance(family, str) and family in OF_FAMILY:
        topics = frozenset({"cpu": "host", "io": "data"}.get(family, OF_FAMILY[family]).split())
        saving = record.metric == "family_saving_ms"
        refused, mood = ("critical path", "conditional") if saving else ("shorter|without|sav(e|es|ing)", "any")
        return Meaning(pattern_of(topics), topics | {"operators"}, refused, cast("Mood", mood))
    return _by_name(record)


def _of_causes(record: EvidenceRecord) -> Meaning:
    """What one cause, or several at once, cost or would give back."""
    names = re.findall(r"[a-z_]+", f"{record.arguments.get('cause') or ''} {record.arguments.get('causes') or ''}")
    topics = frozenset[str]().union(*(topics_of_cause(name) for name in names))
    bound = str(record.arguments.get("bound") or "expected")
    if bound in BOUNDS:
        return Meaning("", topics, SLOWER, "conditional", BOUNDS[bound])
    if record.metric.endswith("_speedup"):
        return Meaning(FASTER, topics, rf"{SLOWER}|between|at least|at most|up to|{WHOLE_PARTS}", "conditional")
    if record.metric.endswith("_step_ms"):
        taken = r"steps?|recording|runs?|take|iterations?"
        return Meaning(taken, topics, rf"{SLOWER}|saves?|saved|saving|{WHOLE_PARTS}", "conditional")
    called = [name.replace("_", " ") for name in names if name in causes()]
    return Meaning("|".join([COSTS, *called]), topics, NO_COST)


def _other_statistic(statistic: object) -> str:
    match statistic:
        case "mean":
            return r"critical path|median|worst|longest|slowest(?! rank)|shortest|fastest|95th|p95"
        case "max":
            return r"median|average|mean|usual|typical|shortest|fastest"
        case "min":
            return r"median|average|mean|usual|typical|longest|slowest|worst"
        case "p95":
            return r"median|average|mean|usual|shortest|fastest"
        case _:
            return r"critical path|average|mean|worst|longest|shortest|fastest|95th|p95"


def _refused(record: EvidenceRecord) -> str:
    """Words of another statistic than the figure's."""
    if record.metric == "message_bytes":
        return _other_statistic("median")
    statistic = record.arguments.get("statistic")
    return _other_statistic(statistic) if statistic in ("median", "max", "min") else ""


def _words_of_name(name: object) -> Iterable[str]:
    """Words of four letters and more in a kernel's or call's name."""
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name or ""))
    return [word for word in dict.fromkeys(normalised(spread).split()) if len(word) >= 4 and word.isalpha()]


UNITS_IN_NAMES = frozenset(["ms", "us", "ns", "s", "pct", "mib", "gb", "count", "per", "of", "name"])


def _by_name(record: EvidenceRecord) -> Meaning:
    words = [word for word in record.metric.split("_") if word not in UNITS_IN_NAMES]
    values = [word for value in record.arguments.values() for word in normalised(str(value)).split() if word.isalpha()]
    named = [*words, *values]
    return Meaning("|".join(rf"{re.escape(word)}\w*" for word in named), topics_of(" ".join(named)))

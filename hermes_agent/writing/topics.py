"""What stretches of text speak of: a closed vocabulary, so that a figure can be held against the words beside it."""

from __future__ import annotations

import re
from functools import lru_cache

from tools.knowledge.taxonomy import causes

# Topic -> pattern over normalised words (lower case, no punctuation, single blanks).
VOCABULARY: dict[str, str] = {
    "data": r"io|data(?! parallel)|(data ?)?load(er|ers|ing)|data ?sets?|input|batch(es)?|augment\w*|decod\w*|"
    r"pre ?process\w*|transforms?|tokeni[sz]\w*|pre ?fetch\w*|samples?|workers?|jpegs?|images?",
    "communication": r"communicat\w*|collectives?|network\w*|nccl|rccl|hccl|gloo|all ?reduces?|all ?gathers?|"
    r"all ?to ?alls?|reduce ?scatters?|broadcasts?|links?|nvlink|infiniband|ethernet|rdma|fabric|interconnect|"
    r"(?<!memory )bus|messages?|packets?|nics?|switch(es)?",
    "computation": r"comput(e|es|ed|ing|ation|ations|ational)|matmuls?|gemms?|matri(x|ces)|convolutions?|arithmetic|"
    r"flops?|tensor cores?|element ?wise|forward|backward|attention|layers?|math",
    "kernels": r"kernels?",
    "operators": r"operators?|ops",
    "host": r"hosts?|cpus?|python|dispatch\w*|launch(es|ed|ing)?|interpreter|gil|host program|the program",
    "copies": r"cop(y|ies|ied|ying)|memcpys?|uploads?|h2d|d2h|pageable|pinned|offload\w*",
    "memory": r"(?<!share of )memory|allocat\w*|reserved|oom|hbm|fragment\w*",
    "idle": r"idle|idles|idling|idleness|pauses?|gaps?|bubbles?|starv\w*",
    "late": r"stragglers?|late|later|latest|lateness|lag\w*|arriv\w*|waiting for (other|late|slow\w*) ranks?",
    "collection": r"garbage|gc",
    "compilation": r"(re ?)?compil\w*|dynamo|inductor|jit",
    "profiler": r"profil\w*|tracing|recording stacks",
    "storage": r"disks?|storage|file ?systems?|nfs|s3|lustre|checkpoint(s|ing)?",
    "hardware": r"throttl\w*|over ?heat\w*|down ?clock\w*|thermal\w*|hardware|clock (rate|speed|frequency)",
    "overlap": r"overlap\w*",
}
OF_FAMILY: dict[str, str] = {
    "io": "data storage idle",
    "cpu": "host operators kernels idle",
    "computation": "computation kernels operators",
    "communication": "communication late overlap",
    "memory": "memory copies",
    "parallel": "communication computation late idle overlap",
    "storage": "storage",
}
OF_CAUSE: dict[str, str] = {
    "slow_data_fetching": "copies memory",
    "operator_compilation": "compilation",
    "garbage_collection": "collection",
    "profiling_overhead": "profiler",
    "slow_device": "hardware",
    "memory_bound": "memory",
    "straggler": "idle",
    "data_skew": "data",
    "moe_imbalance": "computation",
    "small_packet": "host",
    "memory_pressure": "idle host",
    "checkpoint_stall": "data host idle",
}
KEY_TOPIC: dict[str, str] = {"io": "data", "cpu": "host", "parallel": "overlap"}


@lru_cache(maxsize=1)
def _patterns() -> dict[str, re.Pattern[str]]:
    return {topic: re.compile(rf"\b(?:{pattern})\b") for topic, pattern in VOCABULARY.items()}


def topics_of(words: str) -> frozenset[str]:
    """The topics that normalised words touch."""
    return frozenset(topic for topic, pattern in _patterns().items() if pattern.search(words))


def topics_of_cause(cause: str) -> frozenset[str]:
    """The topics that may stand beside a figure of a cause; none for a cause the taxonomy does not know."""
    known = causes().get(cause)
    if known is None:
        return frozenset()
    return frozenset(f"{OF_FAMILY.get(known.family, '')} {OF_CAUSE.get(cause, '')}".split())


def pattern_of(topics: frozenset[str]) -> str:
    """One pattern for the words of several topics."""
    return "|".join(VOCABULARY[topic] for topic in sorted(topics))


def causes_named(words: str) -> frozenset[str]:
    """The causes whose name of the taxonomy stands in normalised words."""
    return frozenset(name for name in causes() if _stands(name, words))


def mechanisms_named(words: str) -> frozenset[str]:
    """The mechanisms whose name of the taxonomy stands in normalised words."""
    return frozenset(name for cause in causes().values() for name in cause.mechanisms if _stands(name, words))


def topics_named(words: str) -> frozenset[str]:
    """The main topic of every cause that normalised words name, itself or by a mechanism."""
    named = [
        cause.family
        for cause in causes().values()
        if any(_stands(name, words) for name in (cause.id, *cause.mechanisms))
    ]
    return frozenset(KEY_TOPIC.get(family, family) for family in named)


def _stands(name: str, words: str) -> bool:
    return re.search(rf"\b{name.replace('_', ' ?')}s?\b", words) is not None

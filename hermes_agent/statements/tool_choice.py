"""The tools that a model with a small context window is offered: those whose words the question uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from hermes_agent.llm.budget import estimated_tokens
from hermes_agent.llm.tool_loop import shortened
from hermes_agent.questions.reading.question import folded
from tools.agent_tools.tool import Tool

# Below this window all tools (5,200 tokens with their schemas), the rules and one result do not fit together.
SMALL_WINDOW_TOKENS = 12_000
SHARE = 6  # of the window goes to tools
MOST_TOOLS = 6
SHORTEST_STEM = 4
# Words that ask for a tool, beginnings of words included; tools for most questions have fewer.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "find_events": "kernel operator op layer module shape gemm matmul line stack launch slowest longest attention",
        "event": "event who calls caller called parent id",
        "collective_instances": "collective allreduce reduce nccl overlap tp dp group all second",
        "gaps": "gap pause idle empty hole",
        "compare": "compare against versus vs difference between differ",
        "phases": "forward backward optimizer phase",
        "mfu": "mfu utilisation utilization flops efficiency util",
        "what_if": "if fix fixed fixes gone both together would save faster gain",
        "plan": "tp pp ep layout batch doubled double parallel bucket stages expert",
        "environment": "setting settings variable omp nccl env environment version config threads",
        "series": "step steps spike spikes trend over timeline longer some",
        "rank_comparison": "rank ranks straggler slowest node",
        "critical_path": "critical path",
        "launch_queue": "queue launch launches bound host cpu",
        "explain_cause": "why cause network loader data memory disk slow gc garbage compile",
        "advice": "change first advice should try improve torch",
        "checks": "check checks checked cannot missing",
        "cases": "case cases similar anyone else",
        "baseline_comparison": "baseline regression yesterday since",
        "breakdown": "time where go part compute communication goes",
    }
)
ALWAYS = ("explain_cause", "breakdown")


def tools_within(tools: Mapping[str, Tool], question: str, window: int | None) -> dict[str, Tool]:
    """All tools, or for a small window those that fit it best: by the question's words, the shorter schema first."""
    if not is_small(window) or window is None:
        return dict(tools)
    asked = folded(question).split()
    scores = {name: sum(_meant(word, WORDS.get(name, "").split()) for word in asked) for name in tools}
    ranked = sorted(tools, key=lambda name: (-scores[name], name not in ALWAYS, _tokens(tools[name]), name))
    chosen: dict[str, Tool] = {}
    left = window // SHARE
    for name in ranked:
        left -= _tokens(tools[name])
        if len(chosen) == MOST_TOOLS or (chosen and left < 0):
            break
        if scores[name] or name in ALWAYS:
            chosen[name] = tools[name]
    return chosen


def is_small(window: int | None) -> bool:
    """Return whether the window is known and too small for all tools."""
    return window is not None and window < SMALL_WINDOW_TOKENS


def _meant(word: str, listed: list[str]) -> bool:
    stem = word[: max(len(word) - 2, SHORTEST_STEM)]
    return any(
        word.removesuffix("s") == each.removesuffix("s") or (len(stem) >= SHORTEST_STEM and each.startswith(stem))
        for each in listed
    )


def _tokens(tool: Tool) -> int:
    return estimated_tokens(tool.name + tool.description + json.dumps(shortened(tool.schema)))

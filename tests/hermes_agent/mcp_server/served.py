"""A server of the bundled runs, and arguments with which each of its tools gives something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.mcp_server.allowed import AllowedFolders
from hermes_agent.mcp_server.open_runs import OpenRuns
from hermes_agent.model.request import Request

DEMO = demo_run().parent
ARGUMENTS: dict[str, dict[str, Any]] = {
    "list_runs": {},
    "open_run": {"run": "slow", "baseline": "fixed"},
    "diagnose": {"run": "slow"},
    "ask": {"run": "slow", "question": "which rank is slow?"},
    "why_not": {"run": "slow", "cause": "slow_link"},
    "confirm": {"run": "slow", "advice": "A1", "after": "fixed"},
    "run_overview": {"run": "slow"},
    "environment": {"run": "slow"},
    "series": {"run": "slow"},
    "breakdown": {"run": "slow"},
    "rank_comparison": {"run": "slow"},
    "phases": {"run": "slow", "rank": 0},
    "critical_path": {"run": "slow"},
    "find_events": {"run": "slow", "rank": 1, "limit": 5},
    "event": {"run": "slow", "id": "s1.40"},
    "collective_instances": {"run": "slow"},
    "gaps": {"run": "slow", "rank": 0},
    "launch_queue": {"run": "slow", "rank": 0},
    "compare": {"run": "slow", "between": "ranks", "a": 0, "b": 1},
    "mfu": {"run": "slow"},
    "what_if": {"run": "slow", "changes": [{"what": "without_cause", "cause": "slow_data_processing"}]},
    "plan": {"run": "slow", "planner": "gradient-buckets"},
    "checks": {"run": "slow"},
    "evidence": {"run": "slow", "id": "E1"},
    "cases": {"run": "slow"},
    "list_metrics": {"run": "slow"},
    "measure": {"run": "slow", "metric": "step_time_ms", "arguments": {"statistic": "mean"}},
    "read_result": {"run": "slow", "handle": "R1"},  # of a tool called before
}


def settings_of(cache: Path, **values: Any) -> Settings:  # noqa: ANN401 (any setting)
    """Settings with this cache and a file of registered runs next to it."""
    return Settings(cache_dir=cache, runs_file=cache.parent / "config" / "runs.json", **values)


def served(cache: Path, *allowed: Path, **values: Any) -> OpenRuns:  # noqa: ANN401 (any setting)
    """The runs of a server."""
    return OpenRuns(settings_of(cache, **values), Request((), cache_dir=cache), AllowedFolders.of(allowed))


def text_of(result: Any) -> str:  # noqa: ANN401 (the package of its type is not installed everywhere)
    """The text of a tool's result."""
    return str(result.content[0].text)

"""The explicit list of tools, for a model, for other programs and for ``hermes-dx tool``. All of them only read."""

from __future__ import annotations

from tools.agent_tools.collective_instances import CollectiveInstances, collective_instances
from tools.agent_tools.compare import Compare, compare
from tools.agent_tools.diagnosis import Cases, Checks, Evidence, cases, checks, evidence
from tools.agent_tools.event import OfId, event
from tools.agent_tools.find_events import FindEvents, find_events
from tools.agent_tools.gaps import Gaps, gaps
from tools.agent_tools.measure import ListMetrics, Measure, list_metrics, measure
from tools.agent_tools.mfu import Mfu, mfu
from tools.agent_tools.overview import Environment, RunOverview, environment, run_overview
from tools.agent_tools.phases import Phases, phases
from tools.agent_tools.predictions import Plan, WhatIf, plan, what_if
from tools.agent_tools.steps import (
    Breakdown,
    OneRank,
    RankComparison,
    Series,
    breakdown,
    critical_path,
    launch_queue,
    rank_comparison,
    series,
)
from tools.agent_tools.tool import NoArguments, ReadTool, ToolContext, read_tool
from tools.metrics.measurement import choice

TOOLS: tuple[ReadTool[ToolContext], ...] = (
    read_tool(run_overview, RunOverview),
    read_tool(environment, Environment),
    read_tool(series, Series),
    read_tool(breakdown, Breakdown),
    read_tool(rank_comparison, RankComparison),
    read_tool(phases, Phases),
    read_tool(critical_path, NoArguments),
    read_tool(find_events, FindEvents),
    read_tool(event, OfId),
    read_tool(collective_instances, CollectiveInstances),
    read_tool(gaps, Gaps),
    read_tool(launch_queue, OneRank),
    read_tool(compare, Compare),
    read_tool(mfu, Mfu),
    read_tool(what_if, WhatIf),
    read_tool(plan, Plan),
    read_tool(checks, Checks, diagnosed=True),
    read_tool(evidence, Evidence, diagnosed=True),
    read_tool(cases, Cases, diagnosed=True),
    read_tool(list_metrics, ListMetrics),
    read_tool(measure, Measure),
)
BY_NAME = {tool.name: tool for tool in TOOLS}


def tool_of(name: str) -> ReadTool[ToolContext]:
    """The tool of that name; UsageError with the names there are, or the nearest of many."""
    return BY_NAME[choice("tool", name, BY_NAME)]

"""The explicit list of tools, for a model, for other programs and for ``hermes-dx tool``. All of them only read."""

from __future__ import annotations

from tools.agent_tools.collective_instances import CollectiveInstances, CollectiveRow, collective_instances
from tools.agent_tools.compare import Compare, CompareRow, compare
from tools.agent_tools.diagnosis import Cases, Checks, Evidence, cases, checks, evidence
from tools.agent_tools.event import OfId, RelatedRow, event
from tools.agent_tools.find_events import EventRow, FindEvents, GroupRow, find_events
from tools.agent_tools.gaps import GapRow, Gaps, gaps
from tools.agent_tools.measure import ListMetrics, Measure, MetricRow, list_metrics, measure
from tools.agent_tools.mfu import Mfu, mfu
from tools.agent_tools.overview import Environment, RunOverview, SettingRow, environment, run_overview
from tools.agent_tools.phases import PhaseRow, Phases, phases
from tools.agent_tools.predictions import Plan, PlanRow, WhatIf, plan, what_if
from tools.agent_tools.records import CaseRow, CheckRow, EvidenceRow
from tools.agent_tools.steps import (
    Breakdown,
    OneRank,
    RankComparison,
    RankRow,
    Series,
    StepRow,
    breakdown,
    critical_path,
    launch_queue,
    rank_comparison,
    series,
)
from tools.agent_tools.tool import NoArguments, ReadTool, ToolContext, read_tool
from tools.metrics.measurement import choice

TOOLS: tuple[ReadTool[ToolContext], ...] = (
    read_tool(run_overview, RunOverview, RankRow),
    read_tool(environment, Environment, SettingRow),
    read_tool(series, Series, StepRow),
    read_tool(breakdown, Breakdown),
    read_tool(rank_comparison, RankComparison, RankRow),
    read_tool(phases, Phases, PhaseRow),
    read_tool(critical_path, NoArguments),
    read_tool(find_events, FindEvents, EventRow, GroupRow),
    read_tool(event, OfId, RelatedRow, CollectiveRow, GapRow, StepRow, RankRow, PhaseRow, GroupRow),
    read_tool(collective_instances, CollectiveInstances, CollectiveRow),
    read_tool(gaps, Gaps, GapRow),
    read_tool(launch_queue, OneRank),
    read_tool(compare, Compare, CompareRow),
    read_tool(mfu, Mfu),
    read_tool(what_if, WhatIf),
    read_tool(plan, Plan, PlanRow),
    read_tool(checks, Checks, CheckRow, diagnosed=True),
    read_tool(evidence, Evidence, EvidenceRow, diagnosed=True),
    read_tool(cases, Cases, CaseRow, diagnosed=True),
    read_tool(list_metrics, ListMetrics, MetricRow),
    read_tool(measure, Measure),
)
BY_NAME = {tool.name: tool for tool in TOOLS}


def tool_of(name: str) -> ReadTool[ToolContext]:
    """The tool of that name; UsageError with the names there are, or the nearest of many."""
    return BY_NAME[choice("tool", name, BY_NAME)]

"""The explicit list of tools that read a run: for the agent and for other programs alike.

Every figure such a tool gives carries an id; none of them writes, executes or opens a path of the caller's choice.
Tools that answer from the diagnosis are listed in ``hermes_agent.statements.tools``.
"""

from __future__ import annotations

from tools.agent_tools import device, metrics, time, work
from tools.agent_tools.context import ToolContext
from tools.agent_tools.tool import NoArguments, ReadTool, read_tool

RUN_TOOLS: tuple[ReadTool[ToolContext], ...] = (
    read_tool(time.step_times, time.StepTimes),
    read_tool(time.breakdown, time.Breakdown),
    read_tool(time.rank_comparison, time.RankComparison),
    read_tool(work.slowest_kernels, work.Names),
    read_tool(work.host_calls, work.Names),
    read_tool(device.launch_queue, device.OneRank),
    read_tool(device.device_idle, device.OneRank),
    read_tool(device.critical_path, NoArguments),
    read_tool(device.collectives, device.Collectives),
    read_tool(metrics.list_metrics, metrics.ListMetrics),
    read_tool(metrics.measure, metrics.Measure),
)

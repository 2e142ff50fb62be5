"""The explicit list of the server's tools: those about whole runs, then those of the one tool registry."""

from __future__ import annotations

from hermes_agent.mcp_server.diagnosis_tools import DIAGNOSIS_TOOLS
from hermes_agent.mcp_server.run_tools import RUN_TOOLS
from hermes_agent.mcp_server.tool import ServerTool

TOOLS: tuple[ServerTool, ...] = (*DIAGNOSIS_TOOLS, *RUN_TOOLS)
BY_NAME = {tool.name: tool for tool in TOOLS}

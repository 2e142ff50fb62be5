"""The list of tools in docs/mcp.md: ``python -m hermes_agent.mcp_server.page --write`` in a checkout."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hermes_agent.mcp_server.registry import TOOLS
from hermes_agent.mcp_server.resources import CAUSES, TEMPLATES
from tools.derived_page import keep

PATH = Path("docs/mcp.md")
BLOCK = re.compile(r"(<!-- (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(page: str) -> str:
    """The page with its generated blocks written again."""
    blocks = {"tools": _tools(), "resources": _resources()}
    return BLOCK.sub(lambda found: f"{found[1]}{blocks[found['name']]}\n{found[3]}", page)


def _tools() -> str:
    rows = []
    for tool in TOOLS:
        required = [name for name, field in tool.arguments.model_fields.items() if field.is_required()]
        optional = [name for name in tool.arguments.model_fields if name not in required]
        arguments = ", ".join([*(f"**{name}**" for name in required), *optional])
        rows.append(f"| `{tool.name}` | {arguments} | {tool.description.split(chr(10), 1)[0]} |")
    return "\n".join(["| tool | parameters (required ones bold) | what it gives |", "| --- | --- | --- |", *rows])


def _resources() -> str:
    rows = [f"| `{each.uri}` | {each.mime_type} | {each.description} |" for each in (*TEMPLATES, CAUSES)]
    return "\n".join(["| resource | type | what it is |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    sys.exit(keep(PATH, renewed(PATH.read_text(encoding="utf-8")), sys.argv[1:]))

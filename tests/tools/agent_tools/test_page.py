"""The page of tools is what the registry says."""

from __future__ import annotations

from tools.agent_tools.page import PATH, page
from tools.agent_tools.registry import TOOLS


def test_the_page_is_written_from_the_registry() -> None:
    assert PATH.read_text("utf-8") == page(), "run python -m tools.agent_tools.page --write"
    assert [line[3:] for line in page().splitlines() if line.startswith("## ")] == [
        *(tool.name for tool in TOOLS),
        "Rows",
    ]

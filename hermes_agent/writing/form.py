"""The form in which a model's text is kept: short paragraphs without markup that could lead elsewhere."""

from __future__ import annotations

import re

FENCED = re.compile(r"```[^\n`]*\n(?P<code>.*?)\n?```", re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+")


def paragraphs(text: str) -> list[str]:
    """One entry per paragraph or list item; blocks of code become code spans, headings plain lines."""
    flat = FENCED.sub(lambda block: "\n".join(f"`{line}`" for line in _code_lines(block["code"])), text)
    return [HEADING.sub("", line.strip()) for line in flat.splitlines() if line.strip()]


def _code_lines(code: str) -> list[str]:
    return [line.strip().replace("`", "'") for line in code.splitlines() if line.strip()]

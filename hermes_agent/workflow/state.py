"""The graph's state: JSON-safe values only, with a reducer on every key that parallel branches write.

Run, profile and findings are large and live in the ``Workspace`` beside it; what is here says how far the work has
come and what came out.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict


class CheckSummary(TypedDict):
    """One question and what it came to."""

    analyzer: str
    check: str
    status: str


class State(TypedDict, total=False):
    """What flows between nodes."""

    analyzer: str  # set by Send: the one a family node has to run
    checks: Annotated[list[CheckSummary], operator.add]
    families: list[str]
    verdict: str
    causes: list[str]
    diagnosis: dict[str, Any]

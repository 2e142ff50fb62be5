"""Rows of a diagnosis that tools show: outcomes of checks, figures, similar cases."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tools.agent_tools.result import Row


class CheckRow(Row):
    """The outcome of one check; ``id`` is its name."""

    status: Literal["found", "clean", "cannot_answer"]
    text: tuple[str, ...]
    reason: str = Field(description="why it cannot be answered")
    needs: str = Field(description="what to record so that it can")


class EvidenceRow(Row):
    """One figure of the diagnosis or measured since."""

    metric: str
    arguments: dict[str, str | int | float | None]
    value: float
    unit: str
    ranks: tuple[int, ...]
    run: Literal["run", "baseline"]


class CaseRow(Row):
    """A similar case; it suggests, and is no evidence for this run."""

    title: str
    cause: str
    url: str
    similarity: float
    why: str

"""What the diagnosis holds: outcomes of checks, figures, and similar cases of the library."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tools.agent_tools.find_events import nearest
from tools.agent_tools.result import Paged, Result
from tools.agent_tools.tool import ToolContext
from tools.errors import UsageError
from tools.judgement.catalog import metrics


class Checks(Paged):
    """The checks in question."""

    status: Literal["found", "clean", "cannot_answer"] | None = Field(default=None, description="without it all")
    contains: str = Field(default="", max_length=80, description="text in the name or family, for example io")


def checks(context: ToolContext, asked: Checks) -> Result:
    """Every check of the diagnosis: found, clean, or cannot answer, why, and what to record for it."""
    known = context.checks()
    chosen = [row for row in known if asked.status in (None, row.status) and asked.contains in row.id]
    if asked.contains and not any(asked.contains in row.id for row in known):
        near = ", ".join(nearest(asked.contains, [row.id for row in known]))
        raise UsageError(f"no check has {asked.contains!r} in its name; the nearest are {near}")
    page, cursor = asked.page(chosen)
    return Result(rows=tuple(page), cursor=cursor, total=len(chosen))


class Evidence(Paged):
    """One id, or a part of the figures."""

    id: str | None = Field(
        default=None, max_length=80, description="E7, A1, C2, the name of a check such as io.data_loader, or of a cause"
    )
    metric: str | None = Field(default=None, max_length=80, description="only figures of this metric")


def evidence(context: ToolContext, asked: Evidence) -> Result:
    """The figures measured so far; or the record of one id: a figure measured again, a case, a check, advice.

    Figures inside rows have no id of their own and cannot be cited; only the figure of the id itself can.
    """
    if asked.id is not None:
        return Result(text=context.record(asked.id))
    if asked.metric is not None and asked.metric not in metrics():
        near = ", ".join(nearest(asked.metric, list(metrics())))
        raise UsageError(f"there is no metric {asked.metric!r}; the nearest are {near}")
    chosen = [row for row in context.evidence_rows() if asked.metric in (None, row.metric)]
    page, cursor = asked.page(chosen)
    return Result(rows=tuple(page), cursor=cursor, total=len(chosen))


class Cases(Paged):
    """A description in words; without it the cases recalled for this run."""

    text: str | None = Field(
        default=None, min_length=3, max_length=500, description="what is seen: operation, symptom, hardware"
    )


def cases(context: ToolContext, asked: Cases) -> Result:
    """Public cases like a description, or like this run. They suggest what to try and are no evidence for this run."""
    found = context.similar_cases(asked.text)
    page, cursor = asked.page(found)
    lack = () if found else ("No case is close enough to that." if asked.text else "No similar case was recalled.",)
    return Result(rows=tuple(page), cursor=cursor, total=len(found), notes=lack)

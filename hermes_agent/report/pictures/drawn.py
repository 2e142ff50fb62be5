"""A picture of a report: a chart of any width, one sentence of what it shows, and the same as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.report.pictures.charts import Canvas, Picture


@dataclass(frozen=True)
class Drawn:
    """A picture ready to be drawn at any width."""

    name: str
    title: str
    finding: str
    chart: Callable[[Canvas], Picture]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str  # what gives the figures, RUN for the run

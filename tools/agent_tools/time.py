"""Time of steps and ranks, and its parts."""

from __future__ import annotations

from pydantic import Field

from tools.agent_tools.context import MOST_ROWS, ROWS, Figure, ToolContext, measured, page
from tools.agent_tools.tool import Arguments
from tools.views.coarse import step_series
from tools.views.parts import PARTS

STATISTICS = ("mean", "median", "p95", "max")


class StepTimes(Arguments):
    """The steps of one rank, or of the slowest."""

    rank: int | None = Field(default=None, ge=0, description="one rank; without it the slowest rank of each step")
    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS, description="steps listed, the longest first")


def step_times(context: ToolContext, asked: StepTimes) -> str:
    """Step time: mean, median, 95th percentile, maximum, variation, and the longest steps."""
    rank = asked.rank
    series = step_series(context.profile(), rank)
    figures: list[Figure] = [
        (f"{name} step time", "step_time_ms", {"statistic": name, "rank": rank}) for name in STATISTICS
    ]
    figures.append(("variation of the step time", "step_variation_pct", {"rank": rank}))
    order = (-series.ms).argsort(kind="stable")[: asked.limit]
    longest: list[Figure] = [
        (f"step {number} over the median step", "step_excess_ms", {"step": number, "rank": rank})
        for number in (int(series.numbers[place]) for place in order)
    ]
    return "\n".join([*measured(context, figures), page(measured(context, longest), len(series.ms), "steps")])


class Breakdown(Arguments):
    """A rank and a step; both may be left out."""

    rank: int | None = Field(default=None, ge=0, description="one rank; without it the mean of all")
    step: int | None = Field(default=None, ge=0, description="one step; without it the mean of all")


def breakdown(context: ToolContext, asked: Breakdown) -> str:
    """Breakdown of a step: compute, exposed communication, exposed copies, data wait, host and idle, with shares.

    The parts do not overlap and add up to the step. Overlapped communication is given in addition.
    """
    where = {"rank": asked.rank, "step": asked.step}
    figures: list[Figure] = [("whole step", "part_ms", {"part": "wall", **where})]
    for part in PARTS:
        label = part.replace("_", " ")
        figures.append((label, "part_ms", {"part": part, **where}))
        figures.append((f"{label}, share", "part_pct", {"part": part, **where}))
    figures.append(("overlapped communication", "part_ms", {"part": "overlapped_communication", **where}))
    return "\n".join(measured(context, figures))


class RankComparison(Arguments):
    """The number of ranks."""

    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS, description="ranks listed, the slowest first")


def rank_comparison(context: ToolContext, asked: RankComparison) -> str:
    """Ranks compared: mean step time of each, and its own share of it without waiting for other ranks."""
    table = context.profile().breakdown
    own = (table["wall_ns"] - table["exposed_communication_ns"]).groupby(table["rank"]).mean()
    order = [int(rank) for rank in own.sort_values(ascending=False, kind="stable").index]
    spread: Figure = ("spread of the ranks' own time", "rank_spread_pct", {"of": "own"})
    figures = [spread] if len(order) > 1 else []
    for rank in order[: asked.limit]:
        figures.append((f"rank {rank}, own time per step", "rank_time_ms", {"of": "own", "rank": rank}))
        figures.append((f"rank {rank}, whole step", "rank_time_ms", {"of": "wall", "rank": rank}))
    lines = measured(context, figures)
    if len(order) > asked.limit:
        lines.append(f"Shown are `{asked.limit} of {len(order)}` ranks.")
    return "\n".join(lines)

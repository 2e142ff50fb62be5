"""Steps, ranks and the parts of a step: the coarse figures of a run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tools.agent_tools.result import FIGURES, Figure, Paged, Result, Row, measured
from tools.agent_tools.tool import Arguments, NoArguments, ToolContext
from tools.errors import UsageError
from tools.run.row_ids import RANK, RECORDED_STEP, STEP, RowId, row_id
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.whatif.critical_path import FAMILIES, REMOVABLE

STATISTICS = ("mean", "median", "p95", "max")
RECORDED_COLUMNS = ("data_wait_ms", "own_ms", "waiting_ms", "gc_ms", "thread_cpu_ms")


class StepRow(Row):
    """One step of one rank. ``parts_ms`` of a traced step add up to ``duration_ms``."""

    rank: int
    step: int
    start_ms: float | None = Field(description="on the time axis of the traces; null for unprofiled steps")
    duration_ms: float
    parts_ms: dict[str, float]


class Series(Paged):
    """The steps of one rank, or of the slowest."""

    rank: int | None = Field(default=None, ge=0, description="one rank; without it the slowest rank of each step")
    source: Literal["trace", "records"] = Field(
        default="trace", description="records: unprofiled steps of the monitor or a step log"
    )
    sort: Literal["duration", "step"] = Field(default="duration", description="duration: the longest first")


def series(context: ToolContext, asked: Series) -> Result:
    """Step times one by one with their parts, the longest first or in order, and their mean, median, p95, maximum."""
    profile, rank = context.profile(), asked.rank
    rows = _traced(profile, rank) if asked.source == "trace" else _recorded(profile, rank)
    if asked.sort == "duration":
        rows = sorted(rows, key=lambda row: (-row.duration_ms, row.step))
    page, cursor = asked.page(rows)
    metric = "step_time_ms" if asked.source == "trace" else "series_step_ms"
    figures: list[Figure] = [(f"{name} step time", metric, {"statistic": name, "rank": rank}) for name in STATISTICS]
    if asked.source == "trace":
        figures.append(("variation of the step time", "step_variation_pct", {"rank": rank}))
        figures += [
            (f"step {row.step} over the median step", "step_excess_ms", {"step": row.step, "rank": rank})
            for row in page[:FIGURES]
        ]
    facts, notes = measured(context, figures)
    return Result(rows=tuple(page), cursor=cursor, total=len(rows), facts=facts, notes=notes)


def _traced(profile: Profile, rank: int | None) -> list[StepRow]:
    table = profile.breakdown if rank is None else profile.rank(rank).breakdown.assign(rank=rank)
    ordered = table.sort_values(["number", "wall_ns", "rank"], ascending=[True, False, True], kind="stable")
    return [_step_row(profile, record) for record in ordered.drop_duplicates("number").to_dict("records")]


def _step_row(profile: Profile, record: dict[Any, Any]) -> StepRow:
    rank, step = int(record["rank"]), int(record["number"])
    return StepRow(
        id=row_id(STEP, rank, step),
        rank=rank,
        step=step,
        start_ms=profile.rank(rank).rank.step(step).start_ns / 1e6,
        duration_ms=record["wall_ns"] / 1e6,
        parts_ms={part: record[f"{part}_ns"] / 1e6 for part in PARTS},
    )


def _recorded(profile: Profile, rank: int | None) -> list[StepRow]:
    if profile.series is None:
        raise UsageError("the run holds no monitor records and no step log; source trace gives the traced steps")
    chosen = profile.series.slowest_rank if rank is None else rank
    table = profile.series.of(chosen)
    if table.empty:
        have = ", ".join(str(number) for number in profile.series.ranks)
        raise UsageError(f"no unprofiled steps of rank {chosen} are recorded; there are those of {have}")
    return [_recorded_row(chosen, record) for record in table.to_dict("records")]


def _recorded_row(rank: int, record: dict[Any, Any]) -> StepRow:
    parts = {name: float(record[name]) for name in RECORDED_COLUMNS if name in record and record[name] == record[name]}
    return StepRow(
        id=row_id(RECORDED_STEP, rank, int(record["step"])),
        rank=rank,
        step=int(record["step"]),
        start_ms=None,
        duration_ms=float(record["wall_ms"]),
        parts_ms={name.removesuffix("_ms"): value for name, value in parts.items()},
    )


def opened(context: ToolContext, asked: RowId) -> Result:
    """The row of a step's id."""
    profile = context.profile()
    if asked.letter == RECORDED_STEP:
        found = [row for row in _recorded(profile, asked.rank) if row.step == asked.place]
        if not found:
            raise UsageError(f"no unprofiled step {asked.place} of rank {asked.rank} is recorded")
        return Result(rows=tuple(found[:1]), total=1)
    step = profile.rank(asked.rank).rank.step(asked.place).number
    rows = tuple(row for row in _traced(profile, asked.rank) if row.step == step)
    shares = breakdown(context, Breakdown(rank=asked.rank, step=step))
    return Result(rows=rows, total=1, facts=shares.facts, notes=shares.notes)


class Breakdown(Arguments):
    """A rank and a step; both may be left out."""

    rank: int | None = Field(default=None, ge=0, description="one rank; without it the mean of all")
    step: int | None = Field(default=None, ge=0, description="one step; without it the mean of all")


def breakdown(context: ToolContext, asked: Breakdown) -> Result:
    """Breakdown of a step: compute, exposed communication, exposed copies, data wait, host and idle, with shares.

    The parts do not overlap and add up to the step. Overlapped communication is given in addition.
    """
    views = context.profile().ranks if asked.rank is None else (context.profile().rank(asked.rank),)
    if asked.step is not None and not any(asked.step in each.steps["number"].to_numpy() for each in views):
        views[0].rank.step(asked.step)
    where = {"rank": asked.rank, "step": asked.step}
    figures: list[Figure] = [("whole step", "part_ms", {"part": "wall", **where})]
    for part in PARTS:
        label = part.replace("_", " ")
        figures.append((label, "part_ms", {"part": part, **where}))
        figures.append((f"{label}, share", "part_pct", {"part": part, **where}))
    figures.append(("overlapped communication", "part_ms", {"part": "overlapped_communication", **where}))
    facts, notes = measured(context, figures)
    return Result(facts=facts, notes=notes)


class RankRow(Row):
    """One rank, means over its steps. ``own_ms`` is the step without exposed communication."""

    rank: int
    host: str
    device: str
    steps: int
    step_ms: float
    own_ms: float
    parts_ms: dict[str, float]


class RankComparison(Paged):
    """The number of ranks."""


def rank_comparison(context: ToolContext, asked: RankComparison) -> Result:
    """Ranks compared: mean step time of each, and its own share of it without waiting for other ranks."""
    rows = sorted(rank_rows(context.profile()), key=lambda row: -row.own_ms)
    page, cursor = asked.page(rows)
    figures: list[Figure] = (
        [("spread of the ranks' own time", "rank_spread_pct", {"of": "own"})] if len(rows) > 1 else []
    )
    for each in page[:FIGURES]:
        figures.append((f"rank {each.rank}, own time per step", "rank_time_ms", {"of": "own", "rank": each.rank}))
        figures.append((f"rank {each.rank}, whole step", "rank_time_ms", {"of": "wall", "rank": each.rank}))
    facts, notes = measured(context, figures)
    return Result(rows=tuple(page), cursor=cursor, total=len(rows), facts=facts, notes=notes)


def rank_rows(profile: Profile) -> list[RankRow]:
    """One row per traced rank, ascending."""
    return [_rank_row(profile, number) for number in profile.run.rank_numbers]


def _rank_row(profile: Profile, number: int) -> RankRow:
    view = profile.rank(number)
    means = view.breakdown.mean(numeric_only=True) / 1e6
    return RankRow(
        id=row_id(RANK, number),
        rank=number,
        host=view.rank.host,
        device=view.rank.devices[0].name if view.rank.has_device and view.rank.devices else "",
        steps=len(view.steps),
        step_ms=float(means["wall_ns"]),
        own_ms=float(means["wall_ns"] - means["exposed_communication_ns"]),
        parts_ms={part: float(means[f"{part}_ns"]) for part in PARTS},
    )


def opened_rank(context: ToolContext, asked: RowId) -> Result:
    """The row of a rank's id."""
    context.profile().rank(asked.rank)
    shares = breakdown(context, Breakdown(rank=asked.rank))
    return Result(rows=(_rank_row(context.profile(), asked.rank),), total=1, facts=shares.facts, notes=shares.notes)


LAUNCHES = (
    ("launches per step", "launches_per_step"),
    ("median kernel", "launched_kernel_us"),
    ("time between launches", "launch_interval_us"),
    ("median launch-queue depth", "launch_queue_length"),
    ("launches that find an empty queue", "empty_queue_pct"),
    ("delay from launch to start", "launch_delay_us"),
    ("launches that wait for their kernel", "launch_blocking_pct"),
    ("synchronising calls per step", "blocking_calls_per_step"),
    ("host waiting in them per step", "blocking_wait_ms"),
)


class OneRank(Arguments):
    """One rank."""

    rank: int = Field(ge=0)


def launch_queue(context: ToolContext, asked: OneRank) -> Result:
    """Launch rate, launch-queue depth and synchronising calls of a rank: does its host keep the device busy?"""
    context.profile().rank(asked.rank)
    facts, notes = measured(context, ((label, name, {"rank": asked.rank}) for label, name in LAUNCHES))
    return Result(facts=facts, notes=notes)


def critical_path(context: ToolContext, _: NoArguments) -> Result:
    """The critical path of a step by family of work, and the time saved if that family's work took no time."""
    figures: list[Figure] = [("whole path per step", "critical_path_step_ms", {})]
    for family in FAMILIES:
        figures.append((f"{family} on the path", "critical_path_ms", {"family": family}))
        if family in REMOVABLE:
            figures.append((f"saved without {family}", "family_saving_ms", {"family": family}))
    facts, notes = measured(context, figures)
    return Result(facts=facts, notes=notes)

"""Compare two steps, two ranks or two runs: by parts of the step, or by what events belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd
from pydantic import Field

from tools.agent_tools.find_events import OF_COLLECTIVES, GroupBy, Kind
from tools.agent_tools.result import CitedFigure, Figure, Paged, Result, Row, cited, measured
from tools.agent_tools.tool import ToolContext
from tools.comparison.compare import compare as compare_runs
from tools.errors import UsageError
from tools.findings import Argument
from tools.metrics.instances import grouped, in_step_labels, kind_rows, own_time
from tools.run.row_ids import RANK, group_id, row_id
from tools.views.event_labels import Labels
from tools.views.parts import PARTS
from tools.views.profile import Profile

COLUMNS = ("ms", "count")


class Compare(Paged):
    """The two sides. Differences are ``b`` minus ``a``, per step."""

    between: Literal["steps", "ranks", "runs"]
    a: int | None = Field(default=None, ge=0, description="number of the step or rank; for runs a is the baseline")
    b: int | None = Field(default=None, ge=0)
    rank: int | None = Field(default=None, ge=0, description="of steps and runs: one rank; without it all")
    by: Literal["part", "name", "module", "phase", "shape", "stack", "stream", "group"] = "part"
    kind: Kind | None = Field(default=None, description="of events; without it kernels, on a CPU operators")


class CompareRow(Row):
    """One part, name, module ... on both sides: own time and number of events, per step and rank."""

    name: str
    a_ms: float
    b_ms: float
    delta_ms: float
    a_count: float | None
    b_count: float | None


@dataclass(frozen=True)
class Side:
    """One side: ranks of a run, and one step or all."""

    profile: Profile
    ranks: tuple[int, ...]
    step: int | None

    @property
    def rank_steps(self) -> int:
        """Steps times ranks that the side holds, for means."""
        return sum(1 if self.step is not None else len(self.profile.rank(rank).steps) for rank in self.ranks)


def compare(context: ToolContext, asked: Compare) -> Result:
    """What differs between two steps, ranks or runs, the largest difference first, by parts or by kernel, module, ...

    Steps 3 and 9: between steps, a 3, b 9. Rank 3 against 0 by kernel: between ranks, a 0, b 3, by name. Runs: the
    baseline of this session against the run; refused with the reasons where they are not comparable.
    """
    a, b, facts, notes = _sides(context, asked)
    if asked.by == "part":
        table = pd.concat([_parts(a).add_prefix("a_"), _parts(b).add_prefix("b_")], axis=1)
        kind = ""
    else:
        kind = _kind(asked, a)
        table = pd.concat(
            [_groups(side, asked.by, kind).add_prefix(name) for side, name in ((a, "a_"), (b, "b_"))], axis=1
        )
        table = table.fillna(0.0)
    table = table.assign(delta_ms=table["b_ms"] - table["a_ms"])
    order = table["delta_ms"].abs().sort_values(ascending=False, kind="stable").index
    table = table.loc[order].rename_axis("name").reset_index()
    page, cursor = asked.page(table.to_dict("records"))
    rows = tuple(
        CompareRow(
            id=_id(asked, a, b, record["name"], record["a_count"] > 0 if kind else True),
            name=record["name"],
            **{column: record[column] for column in ("a_ms", "b_ms", "delta_ms")},
            a_count=record["a_count"] if kind else None,
            b_count=record["b_count"] if kind else None,
        )
        for record in page
    )
    return Result(rows=rows, cursor=cursor, total=len(table), facts=facts, notes=notes)


def _sides(context: ToolContext, asked: Compare) -> tuple[Side, Side, tuple[CitedFigure, ...], tuple[str, ...]]:
    profile = context.profile()
    ranks = profile.run.rank_numbers if asked.rank is None else (profile.rank(asked.rank).rank.rank,)
    if asked.between == "runs":
        if (asked.a, asked.b) != (None, None):
            raise UsageError("two runs are compared as they are: leave a and b out and choose with rank")
        return _runs(context, profile, ranks)
    if asked.a is None or asked.b is None:
        raise UsageError(f"name both {asked.between}: a and b")
    if asked.between == "ranks":
        if asked.rank is not None:
            raise UsageError("rank is for steps and runs; the ranks to compare are a and b")
        sides = tuple(Side(profile, (profile.rank(number).rank.rank,), None) for number in (asked.a, asked.b))
    else:
        for rank in ranks:
            for number in (asked.a, asked.b):
                profile.rank(rank).rank.step(number)
        sides = tuple(Side(profile, ranks, number) for number in (asked.a, asked.b))
    facts, notes = measured(context, _figures(asked))
    return sides[0], sides[1], facts, notes


def _figures(asked: Compare) -> list[Figure]:
    figures: list[Figure] = []
    for name, number in (("a", asked.a), ("b", asked.b)):
        where: dict[str, Argument] = {"rank": number} if asked.between == "ranks" else {"step": number}
        where |= {"rank": asked.rank} if asked.between == "steps" and asked.rank is not None else {}
        for part in ("wall", *PARTS):
            label = "whole step" if part == "wall" else part.replace("_", " ")
            figures.append(
                (f"{name}, {asked.between.removesuffix('s')} {number}, {label}", "part_ms", {"part": part, **where})
            )
    return figures


def _runs(
    context: ToolContext, profile: Profile, ranks: tuple[int, ...]
) -> tuple[Side, Side, tuple[CitedFigure, ...], tuple[str, ...]]:
    baseline = context.baseline()
    if baseline is None:
        raise UsageError("there is no second run; name it with --baseline RUN and ask again")
    made = compare_runs(baseline, profile)
    if not profile.traced or not baseline.traced:
        raise UsageError("one of the runs holds no trace, so its events cannot be compared")
    missing = [rank for rank in ranks if rank not in baseline.run.rank_numbers]
    if missing:
        raise UsageError(f"the baseline has no trace of rank {missing[0]}; choose a rank that both have")
    named = [("step", made.step), *((each.name, each) for each in made.parts)]
    facts = tuple(
        cited(context, f"{side}, {name.replace('_', ' ')}", fact)
        for name, each in named
        for side, fact in (("a, baseline", each.before), ("b, run", each.after))
    )
    return Side(baseline, ranks, None), Side(profile, ranks, None), facts, made.notes


def _parts(side: Side) -> pd.DataFrame:
    """Mean ms of every part per step and rank; index the part."""
    table = side.profile.breakdown
    table = table[table["rank"].isin(side.ranks).to_numpy()]
    if side.step is not None:
        table = table[(table["number"] == side.step).to_numpy()]
    return pd.DataFrame({"ms": {part: float(table[f"{part}_ns"].mean()) / 1e6 for part in PARTS}})


def _kind(asked: Compare, side: Side) -> str:
    if asked.by == "group" and asked.kind not in (None, Kind.COLLECTIVE):
        raise UsageError(OF_COLLECTIVES)
    if asked.kind is not None:
        return asked.kind.value
    if asked.by == "group":
        return Kind.COLLECTIVE.value
    return (Kind.KERNEL if side.profile.run.has_device else Kind.OPERATOR).value


def _groups(side: Side, by: GroupBy, kind: str) -> pd.DataFrame:
    """Own ms and number of events by label, per step and rank; index the label."""
    tables = []
    for rank in side.ranks:
        view = side.profile.rank(rank)
        rows, known = in_step_labels(side.profile, rank, by, kind)
        if side.step is not None:
            chosen = view.step_of(rows) == side.step
            rows, known = rows[chosen], Labels(known.codes[chosen], known.texts)
        own = own_time(side.profile, rank, kind)
        own = own[kind_rows(side.profile, rank, kind).searchsorted(rows)]
        table = grouped(known, own, own)
        names = pd.Index([known.texts[code] for code in table.index])
        tables.append(pd.DataFrame({"ms": table["own_ns"].to_numpy() / 1e6, "count": table["count"].to_numpy()}, names))
    return pd.concat(tables).groupby(level=0, sort=False).sum() / side.rank_steps


def _id(asked: Compare, a: Side, b: Side, name: str, on_a: bool) -> str:
    """The id of the group, on a rank that has it; of a part the rank."""
    side = a if on_a and asked.between != "runs" else b
    return row_id(RANK, side.ranks[0]) if asked.by == "part" else group_id(asked.by, side.ranks[0], name)

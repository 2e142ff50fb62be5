"""The run as a whole: ranks, step time, where the step goes; and the settings it ran under."""

from __future__ import annotations

import re

from pydantic import Field

from tools.agent_tools.find_events import nearest
from tools.agent_tools.result import FIGURES, Figure, Paged, Result, Row, measured
from tools.agent_tools.steps import rank_rows
from tools.agent_tools.tool import ToolContext
from tools.analyzers.cpu.environment import settings
from tools.run.recorded.records import last_environment
from tools.run.row_ids import RANK, row_id
from tools.views.parts import PARTS
from tools.views.profile import Profile

NEEDS = "Record them: `hermes-dx env > env.json` where the training runs, stored next to the trace."
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*")


class RunOverview(Paged):
    """Ranks listed per page."""


def run_overview(context: ToolContext, asked: RunOverview) -> Result:
    """What was recorded: ranks, devices, steps, step time, where a step goes, and what was assumed on reading."""
    profile = context.profile()
    figures: list[Figure] = []
    if profile.traced:
        figures += [(f"{name} step time", "step_time_ms", {"statistic": name}) for name in ("mean", "median", "max")]
        figures += [(part.replace("_", " "), "part_pct", {"part": part}) for part in PARTS]
    if profile.series is not None:
        figures.append(("mean unprofiled step", "series_step_ms", {"statistic": "mean"}))
    facts, notes = measured(context, figures)
    rows, cursor = asked.page(rank_rows(profile) if profile.traced else [])
    layout = profile.run.layout
    groups = [f"group {each.description or each.name}: {each.size} ranks" for each in layout.groups[:FIGURES]]
    known = [f"World size {layout.world_size}." if layout.world_size else "", f"Process groups: {', '.join(groups)}."]
    said = [text for text in known if text and (groups or "groups" not in text)]
    return Result(
        rows=tuple(rows),
        cursor=cursor,
        total=len(profile.rank_numbers) if profile.traced else 0,
        facts=facts,
        notes=(*notes, *said, *profile.run.notes),
    )


class Environment(Paged):
    """The settings in question."""

    rank: int | None = Field(default=None, ge=0, description="without it all ranks")
    contains: str = Field(default="", max_length=80, description="text in the name, for example NCCL or OMP")


class SettingRow(Row):
    """One setting as recorded; untrusted text."""

    name: str
    rank: int
    value: str
    origin: str = Field(description="environment (variables), trace (metadata), monitor (threads, flags, cores)")


def environment(context: ToolContext, asked: Environment) -> Result:
    """Recorded settings of the ranks: variables (NCCL_*, OMP_*, ...), versions, threads, cores, profiler options.

    A setting that was not recorded may still be set; that is not shown as absent.
    """
    profile = context.profile()
    if asked.rank is not None and profile.traced:
        profile.rank(asked.rank)
    rows = [row for row in _settings(profile) if asked.rank in (None, row.rank)]
    wanted = [row for row in rows if asked.contains.casefold() in row.name.casefold()]
    page, cursor = asked.page(wanted)
    notes: tuple[str, ...] = ()
    if not any(row.origin == "environment" for row in rows):
        notes = (f"No environment variables were recorded, so their values are not known. {NEEDS}",)
    elif not wanted:
        near = nearest(asked.contains, sorted({row.name for row in rows}))
        notes = (
            f"No recorded setting has {asked.contains!r} in its name: not set, or not recorded. "
            + (f"The nearest are {', '.join(near)}." if near else ""),
        )
    return Result(rows=tuple(page), cursor=cursor, total=len(wanted), notes=notes)


def _settings(profile: Profile) -> list[SettingRow]:
    rows = []
    for rank, variables in sorted(settings(profile).items()):
        rows += [
            _row(rank, name, value, "environment")
            for name, value in sorted({**_facts(profile), **profile.run.variables, **variables}.items())
        ]
    for each in profile.run.ranks:
        known = {name: value for name, value in sorted(each.metadata.items()) if not VARIABLE.fullmatch(name)}
        rows += [_row(each.rank, name, value, "trace") for name, value in known.items()]
    records = profile.run.records
    for rank in sorted({each.rank for each in records.ranks}) if records else ():
        last = last_environment(records.environments, rank) if records else None
        if last is None:
            continue
        found: dict[str, object] = {"python": last.python, "torch": last.torch, **last.threads, **last.flags}
        found |= {
            "cores": last.cores,
            "allowed_cores": len(last.allowed_cores) or None,
            "quota_cores": last.quota_cores,
        }
        rows += [_row(rank, name, str(value), "monitor") for name, value in found.items() if value is not None]
    return rows


def _facts(profile: Profile) -> dict[str, str]:
    """Versions and limits of the first recorded environment."""
    return dict(profile.run.environments[0].facts) if profile.run.environments else {}


def _row(rank: int, name: str, value: str, origin: str) -> SettingRow:
    return SettingRow(id=row_id(RANK, rank), name=name, rank=rank, value=value, origin=origin)

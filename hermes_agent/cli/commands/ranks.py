"""List the ranks, the slowest of each communication group marked."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_table_arguments, profile_of, request_of, settings
from hermes_agent.cli.terminal import aligned, print_rows

if TYPE_CHECKING:
    from tools.views.profile import Profile

SCHEMA = "hermes-dx/ranks/1"
Row = dict[str, object]
add_arguments = add_table_arguments


def run(args: argparse.Namespace) -> int:
    """Print one row per rank, means over its steps; of many ranks those read in full, and the groups of all."""
    profile = profile_of(request_of(args, settings()))
    return print_rows(args, SCHEMA, rank_rows(profile), lambda rows: table_text(rows) + groups_text(profile))


def groups_text(profile: Profile) -> str:
    """Return the groups of ranks that look alike, where only some ranks were read in full; else nothing."""
    from hermes_agent.report.records import screening_record
    from hermes_agent.report.sections import rank_groups

    screening = profile.run.screening
    if screening is None:
        return ""
    found = rank_groups(screening_record(screening))
    lines = [f"{item.title}{item.text}" for item in found.items]
    return "\n".join(["", "", found.title, *lines, *found.after])


def rank_rows(profile: Profile) -> list[Row]:
    """Return per rank its mean step, its parts and its clock; ``own_ms`` is the step without exposed communication.

    ``slowest_of`` names the groups in which the rank's own time is the longest; it is empty in a run of one rank.
    ``unprofiled_ms``, the mean unprofiled step, is there if the records hold it for every traced rank; ``stands_for``,
    the ranks (spans, both ends) that look like it by summary, if not all ranks were read in full.
    """
    from hermes_agent.model.display import spans
    from hermes_agent.questions.answers.ranks import slowest_per_group
    from tools.metrics.recorded.series import series_step_ms
    from tools.views.parts import PARTS
    from tools.views.steps.coarse import own_ms

    groups = slowest_per_group(profile)
    own = own_ms(profile)
    recorded = profile.series is not None and set(profile.rank_numbers) <= set(profile.series.ranks)
    screening = profile.run.screening
    alike = {} if screening is None else {rank: spans(own.ranks) for own in screening.groups for rank in own.read}
    rows: list[Row] = []
    for view in profile.ranks:
        number, clock = view.rank.rank, view.rank.clock
        means = view.breakdown.mean(numeric_only=True) / 1e6
        rows.append(
            {
                "rank": number,
                "host": view.rank.host,
                "device": view.rank.devices[0].name if view.rank.has_device and view.rank.devices else "",
                "steps": len(view.steps),
                "wall_ms": float(means["wall_ns"]),
                **({"unprofiled_ms": series_step_ms(profile, rank=number).value} if recorded else {}),
                "own_ms": float(own.loc[number]),
                **{f"{part}_ms": float(means[f"{part}_ns"]) for part in PARTS},
                **({"stands_for": alike.get(number, [])} if alike else {}),
                "slowest_of": [group.group for group in groups if group.slowest == number],
                "clock_offset_ns": clock.offset_ns,
                "clock_uncertainty_ns": clock.uncertainty_ns,
                "clock_method": clock.method,
            }
        )
    return rows


def table_text(rows: list[Row]) -> str:
    """Return the rows as a table for a terminal; the slowest of each group is marked at the end of its line."""
    measured = [name for name in rows[0] if name.endswith("_ms")]
    header = ["rank", "steps", *(name.removesuffix("_ms").replace("_", " ") for name in measured), "clock offset"]
    figures = [[f"{row[name]:.2f}" for name in measured] for row in rows]
    cells = [[f"{row['rank']}", f"{row['steps']}", *each, _clock(row)] for row, each in zip(rows, figures, strict=True)]
    lines = zip(aligned(header, cells, left=0).splitlines(), ["", *map(_mark, rows)], strict=True)
    legend = "ms, means over steps; own: the step without exposed communication"
    if "unprofiled_ms" in rows[0]:
        legend = f"{legend.replace('steps', 'traced steps')}\nunprofiled: unprofiled steps, from the records"
    return "\n".join([*(line + mark for line, mark in lines), "", legend])


def _clock(row: Row) -> str:
    offset, uncertainty = row["clock_offset_ns"], row["clock_uncertainty_ns"]
    if row["clock_method"] == "none" and uncertainty is None:
        return "not aligned"
    spread = "unknown" if uncertainty is None else f"{float(str(uncertainty)) / 1e3:.1f}"
    return f"{float(str(offset)) / 1e3:+.1f} ± {spread} us"


def _mark(row: Row) -> str:
    from hermes_agent.evidence.ledger import quoted

    groups = row["slowest_of"]
    assert isinstance(groups, list)
    return f"  <- slowest of {', '.join(quoted(str(group)) for group in groups)}" if groups else ""

"""List the steps and their time breakdown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_table_arguments, profile_of, request_of, settings
from hermes_agent.cli.terminal import aligned, print_rows

if TYPE_CHECKING:
    from tools.views.profile import Profile

SCHEMA = "hermes-dx/steps/1"
Row = dict[str, int | float]
add_arguments = add_table_arguments


def run(args: argparse.Namespace) -> int:
    """Print one row per step."""
    return print_rows(args, SCHEMA, step_rows(profile_of(request_of(args, settings()))), table_text)


def step_rows(profile: Profile) -> list[Row]:
    """Return per step its slowest rank with its wall time and parts in ms; ``marked_ms`` is from mark to mark."""
    from tools.views.coarse import step_series
    from tools.views.parts import PARTS

    series = {view.rank.rank: step_series(profile, view.rank.rank) for view in profile.ranks}
    columns = ("wall", *PARTS, "overlapped_communication")
    ordered = profile.breakdown.sort_values(["number", "wall_ns", "rank"], ascending=[True, False, True])
    rows: list[Row] = []
    for record in ordered.drop_duplicates("number").to_dict("records"):
        step, rank = int(record["number"]), int(record["rank"])
        marked = series[rank].ms[series[rank].numbers == step]
        parts = {f"{name}_ms": float(record[f"{name}_ns"]) / 1e6 for name in columns}
        rows.append({"step": step, "rank": rank, **parts, "marked_ms": float(marked[0])})
    return rows


def table_text(rows: list[Row]) -> str:
    """Return the rows as a table for a terminal."""
    shown = [name for name in rows[0] if name != "marked_ms"]
    header = ["wall ms" if name == "wall_ms" else name.removesuffix("_ms").replace("_", " ") for name in shown]
    cells = [[str(row[name]) if name in ("step", "rank") else f"{row[name]:.2f}" for name in shown] for row in rows]
    table, last = aligned(header, cells, left=0), rows[-1]
    if last["marked_ms"] >= last["wall_ms"]:
        return table
    return (
        f"{table}\n\nThe window of step {last['step']} also holds work still in the device's queue; "
        f"from mark to mark it took {last['marked_ms']:.2f} ms."
    )

"""List the steps and their time breakdown."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_table_arguments, profile_of, request_of, settings
from hermes_agent.cli.terminal import aligned, print_rows

if TYPE_CHECKING:
    from tools.views.steps.rows import StepRow

SCHEMA = "hermes-dx/steps/1"
add_arguments = add_table_arguments


def run(args: argparse.Namespace) -> int:
    """Print one row per step."""
    from tools.views.steps.rows import step_rows

    return print_rows(args, SCHEMA, step_rows(profile_of(request_of(args, settings()))), table_text)


def table_text(rows: list[StepRow]) -> str:
    """Return the rows as a table for a terminal."""
    shown = [name for name in rows[0] if name != "marked_ms"]
    header = ["wall ms" if name == "wall_ms" else name.removesuffix("_ms").replace("_", " ") for name in shown]
    cells = [
        [str(row[name]) if name in ("step", "rank", "line") else f"{row[name]:.2f}" for name in shown] for row in rows
    ]
    table, last = aligned(header, cells, left=0), rows[-1]
    if last.get("marked_ms", last["wall_ms"]) >= last["wall_ms"]:
        return table
    return (
        f"{table}\n\nThe window of step {last['step']} also holds work still in the device's queue; "
        f"from mark to mark it took {last['marked_ms']:.2f} ms."
    )

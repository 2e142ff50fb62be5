"""List all operators by name, with their time and number."""

from __future__ import annotations

import argparse

from hermes_agent.cli.arguments import profile_of, request_of, settings
from hermes_agent.cli.tables import add_table_arguments, print_table

SCHEMA = "hermes-dx/operators/1"
SHOWN = {
    "rank": "rank",
    "calls_per_step": "calls/step",
    "own_ms_per_step": "own ms/step",
    "device_ms_per_step": "device ms/step",
    "share_pct": "share %",
}
COLUMNS = (
    "rank, name, calls, calls_per_step, total_ms, own_ms (without operators inside them), own_ms_per_step, mean_us, "
    "longest_us, device_ms (of the work that they launch themselves), device_ms_per_step, share_pct (of the "
    "rank's own time)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``operators``."""
    add_table_arguments(parser, COLUMNS)


def run(args: argparse.Namespace) -> int:
    """Print one row per rank and name, the longest first."""
    from tools.views.event_tables import operators

    request = request_of(args, settings())
    return print_table(args, request, SCHEMA, operators(profile_of(request)), SHOWN)

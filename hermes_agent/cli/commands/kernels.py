"""List all kernels by name, with their time and number."""

from __future__ import annotations

import argparse

from hermes_agent.cli.arguments import profile_of, request_of, settings
from hermes_agent.cli.tables import add_table_arguments, print_table

SCHEMA = "hermes-dx/kernels/1"
SHOWN = {
    "rank": "rank",
    "calls_per_step": "calls/step",
    "ms_per_step": "ms/step",
    "mean_us": "mean us",
    "share_pct": "share %",
}
COLUMNS = (
    "rank, name, kernel_class, calls, calls_per_step, total_ms, ms_per_step, mean_us, longest_us, "
    "share_pct (of the rank's kernel time)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``kernels``."""
    add_table_arguments(parser, COLUMNS)


def run(args: argparse.Namespace) -> int:
    """Print one row per rank and name, the longest first."""
    from tools.views.event_tables import kernels

    request = request_of(args, settings())
    return print_table(args, request, SCHEMA, kernels(profile_of(request)), SHOWN)

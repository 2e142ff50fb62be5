"""List all collectives one by one, with what they overlap."""

from __future__ import annotations

import argparse

from hermes_agent.cli.arguments import profile_of, request_of, settings
from hermes_agent.cli.tables import add_table_arguments, print_table

SCHEMA = "hermes-dx/collectives/1"
SHOWN = {
    "rank": "rank",
    "step": "step",
    "index": "index",
    "bytes": "bytes",
    "start_ms": "start ms",
    "duration_ms": "ms",
    "overlapped_ms": "overlap ms",
    "wait_ms": "wait ms",
}
COLUMNS = (
    "id, name (the kind), rank, step, index (from 1, of its kind in the step), group, bytes, start_ms (on the run's "
    "time axis), duration_ms, overlapped_ms (the rank computes as well), exposed_ms (it does not), wait_ms (for the "
    "last rank), last_rank, data_ms, forward_ms, backward_ms, optimizer_ms, other_ms (overlap with that phase)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``collectives``."""
    add_table_arguments(parser, COLUMNS)


def run(args: argparse.Namespace) -> int:
    """Print one row per collective and rank, in order of time."""
    from tools.agent_tools.collective_instances import whole_table

    request = request_of(args, settings())
    return print_table(args, request, SCHEMA, whole_table(profile_of(request)), SHOWN)

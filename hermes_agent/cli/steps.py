"""``hermes-dx steps``: every step, on the rank where it took longest."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, request_of, settings

if TYPE_CHECKING:
    import pandas as pd

    from tools.profilers.profile import Profile

NAME = "steps"
HELP = "list the steps and where each one's time went"

SCHEMA = "hermes-dx/steps/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``steps``."""
    add_run_arguments(parser, baseline=False)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints one row per step."""
    from hermes_agent.cli.recorded import profile_of

    profile = profile_of(request_of(args, settings()))
    rows = step_rows(profile)
    if args.json:
        print(json.dumps({"schema": SCHEMA, "rows": rows}, indent=2))
    else:
        from hermes_agent.cli.columns import aligned

        header = [str(name).removesuffix("_ms").replace("_", " ") for name in rows[0]]
        header[2] = "wall ms"
        print(aligned(header, [[_cell(value) for value in row.values()] for row in rows], left=0))
    return 0


def step_rows(profile: Profile) -> list[dict[str, int | float]]:
    """Per step its number, the rank that took longest, that rank's wall time and its parts, in ms."""
    from tools.profilers.parts import PARTS

    table: pd.DataFrame = profile.breakdown
    ordered = table.sort_values(["number", "wall_ns", "rank"], ascending=[True, False, True])
    longest = ordered.drop_duplicates("number")
    columns = ("wall", *PARTS, "overlapped_communication")
    values = {"step": longest["number"], "rank": longest["rank"]}
    values |= {f"{name}_ms": longest[f"{name}_ns"] / 1e6 for name in columns}
    lists = {name: series.tolist() for name, series in values.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"

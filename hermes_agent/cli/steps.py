"""``hermes-dx steps``: every step, on the rank where it took longest."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, request_of, settings

if TYPE_CHECKING:
    from tools.views.profile import Profile

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
        _print_table(rows)
    return 0


def step_rows(profile: Profile) -> list[dict[str, int | float]]:
    """Per step its number, the rank that took longest, that rank's wall time and its parts, in ms.

    ``marked_ms`` is the time from mark to mark: less than ``wall_ms`` where the recorded window of the last step also
    holds what was still in the device's queue.
    """
    from tools.views.coarse import step_series
    from tools.views.parts import PARTS

    series = {view.rank.rank: step_series(profile, view.rank.rank) for view in profile.ranks}
    columns = ("wall", *PARTS, "overlapped_communication")
    ordered = profile.breakdown.sort_values(["number", "wall_ns", "rank"], ascending=[True, False, True])
    rows: list[dict[str, int | float]] = []
    for record in ordered.drop_duplicates("number").to_dict("records"):
        step, rank = int(record["number"]), int(record["rank"])
        marked = series[rank].ms[series[rank].numbers == step]
        parts = {f"{name}_ms": float(record[f"{name}_ns"]) / 1e6 for name in columns}
        rows.append({"step": step, "rank": rank, **parts, "marked_ms": float(marked[0])})
    return rows


def _print_table(rows: list[dict[str, int | float]]) -> None:
    from hermes_agent.cli.terminal import aligned

    shown = [name for name in rows[0] if name != "marked_ms"]
    header = ["wall ms" if name == "wall_ms" else name.removesuffix("_ms").replace("_", " ") for name in shown]
    print(aligned(header, [[_cell(row[name]) for name in shown] for row in rows], left=0))
    last = rows[-1]
    if last["marked_ms"] < last["wall_ms"]:
        print(
            f"\nThe window of step {last['step']} also holds what was still in the device's queue; "
            f"from mark to mark it took {last['marked_ms']:.2f} ms."
        )


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"

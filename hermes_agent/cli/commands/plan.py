"""Plan a change by simulation: gradient buckets, pipeline stages and memory, expert degree, layout."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import input_bytes
from hermes_agent.cli.gantt import add_gantt_arguments, check_gantt_files, write_gantt
from hermes_agent.cli.terminal import print_json
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from tools.whatif.planners.record import Planned
    from tools.whatif.timeline import Timeline

PLANNERS = (
    "gradient-buckets",
    "pipeline-memory",
    "supernet",
    "expert-degree",
    "expert-schedule",
    "layout",
    "straggler",
)
NOT_RECORDED = {
    "supernet": "traces do not name the subnets and their choices; give the input as JSON (--schema)",
    "expert-schedule": "traces do not name the seven tasks of a chunk; give their times as JSON (--schema)",
    "layout": "traces name neither the model's sizes nor the cluster's memory and links; give them as JSON (--schema)",
}
LARGEST_INPUT_BYTES = 256 << 20
LONGEST_VALUE = 300  # characters of one line of the printed plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``plan``."""
    parser.add_argument("planner", choices=PLANNERS, metavar="PLANNER", help=", ".join(PLANNERS))
    parser.add_argument("input", nargs="?", metavar="INPUT.json", help="the input (see --schema); - is standard input")
    parser.add_argument(
        "--from",
        dest="recorded",
        metavar="RUN",
        type=Path,
        help="take the input from this run (gradient-buckets, pipeline-memory, expert-degree, straggler)",
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of input and plan")
    add_gantt_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the plan; raises UsageError for a wrong input and NoPlanError (exit code 3) where no plan is possible."""
    from tools.whatif.planners.registry import as_record, planner

    chosen = planner(args.planner)
    if args.schema:
        print_json(chosen.schema())
        return ExitCode.OK
    if (args.input is None) == (args.recorded is None):
        raise UsageError(f"name one input of {args.planner}; hermes-dx plan {args.planner} --schema describes it")
    check_gantt_files(args)
    if args.recorded is not None:
        made = _of_run(args.planner, args.recorded)
    else:
        path = None if args.input == "-" else Path(args.input)
        made = chosen.plan(input_bytes(path, LARGEST_INPUT_BYTES))
    write_gantt(args, lambda: _timeline(made))
    if args.json:
        print_json(as_record(made))
    else:
        print(_text(made))
    return ExitCode.OK


def _timeline(made: Planned) -> Timeline:
    from tools.whatif.timeline import Timeline

    if made.bars is None:
        raise UsageError(f"this plan of {made.planner} gives sums of times without an order, so it cannot be drawn")
    return Timeline(f"Plan of {made.planner} (by simulation): {made.after_ms:.4g} ms", tuple(made.bars()))


def _of_run(name: str, run: Path) -> Planned:
    from tools.sources.load import load_run
    from tools.views.profile import Profile
    from tools.whatif.planners.recorded_gradients import plan_run

    match name:
        case "gradient-buckets":
            return plan_run(Profile(load_run([run])))
        case "straggler":
            from tools.whatif.planners.straggler import plan_operations

            return plan_operations(load_run([run]))
        case "pipeline-memory":
            from tools.metrics.communication.pipeline_layers import planned_stages

            return planned_stages(Profile(load_run([run]))).made
        case "expert-degree":
            from tools.whatif.planners import recorded_experts

            return recorded_experts.plan_run(Profile(load_run([run])))
        case _:
            raise UsageError(f"{name} cannot take its input from a run: {NOT_RECORDED[name]}")


def _text(made: Planned) -> str:
    import json

    headline = f"Predicted (by simulation): {made.after_ms:.4g} ms"
    if made.before_ms is not None:
        headline += f" instead of {made.before_ms:.4g} ms"
        if made.after_ms > 0:
            headline += f", {made.before_ms / made.after_ms:.3g}x"
    lines = [headline, f"Limit: {made.bound}"]
    if made.gap_ms:
        lines.append(f"Not proved best: a better plan could save up to {made.gap_ms:.4g} ms more")
    for name, value in made.plan.model_dump(mode="json").items():
        shown = json.dumps(value)
        lines.append(f"  {name}: {shown if len(shown) <= LONGEST_VALUE else shown[:LONGEST_VALUE] + ' ... (--json)'}")
    return "\n".join([*lines, *(f"Assumes: {each}" for each in made.assumptions)])

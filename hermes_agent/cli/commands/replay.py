"""Replay a dependency graph: makespan and longest path, with other durations; or write the graph of a run."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import input_bytes, writable
from hermes_agent.cli.gantt import add_gantt_arguments, check_gantt_files, write_gantt
from hermes_agent.cli.terminal import note, print_json
from tools.errors import ExitCode, InputError, UsageError

if TYPE_CHECKING:
    from tools.whatif.graph_json import GraphInput
    from tools.whatif.graph_replay import GraphReplay
    from tools.whatif.timeline import Timeline

SCHEMA = "hermes-dx/replay/1"
CHAKRA = ".et"
LARGEST_INPUT_BYTES = 512 << 20
SHOWN_PATH = 200  # operators of the longest path in the JSON answer: the longest ones, in order of time
SHOWN_RESOURCES = 5
LONGEST_NAME = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``replay``."""
    parser.add_argument(
        "input",
        nargs="?",
        type=Path,
        metavar="GRAPH.json",
        help="a graph (see --schema), a Chakra execution trace (.et), or a run's folder",
    )
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="NAME=FACTOR",
        help="multiply the duration of the operators of this name (* stands for any text); may be repeated",
    )
    parser.add_argument(
        "--graph", type=Path, metavar="FILE", help="the input is a run or trace: write its graph to FILE"
    )
    parser.add_argument("--json", action="store_true", help="print the replay as JSON")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of a graph")
    add_gantt_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the replay; raises UsageError for a wrong graph and InputError for a file that cannot be read."""
    from tools.whatif.graph_json import GraphInput, graph_json
    from tools.whatif.graph_replay import replay_graph

    if args.schema:
        print_json(GraphInput.model_json_schema())
        return ExitCode.OK
    if args.input is None:
        raise UsageError("name a graph or a run; hermes-dx replay --schema describes a graph")
    scales = [_scale(text) for text in args.scale]
    check_gantt_files(args)
    if args.graph is not None:
        from hermes_agent.model.request import Request
        from hermes_agent.report.files import write_report

        writable(args.graph)
    if args.graph is not None or args.input.is_dir():
        from tools.sources.load import load_run
        from tools.views.profile import Profile
        from tools.whatif.build import graph_of

        profile = Profile(load_run([args.input]))
        given = graph_json(profile, graph_of(profile))
    else:
        given = _read(args.input)
    if args.graph is not None:
        write_report(args.graph, f"{given.model_dump_json()}\n".encode(), Request((args.input,)))
        note(f"wrote {len(given.nodes)} nodes and {len(given.edges)} edges to {args.graph}")
    before = replay_graph(given)
    after = replay_graph(given, scales) if scales else None
    write_gantt(args, lambda: _timeline(given, before, after))
    if args.json:
        print_json(_record(before, after))
    else:
        print(_text(before, after))
    return ExitCode.OK


def _read(path: Path) -> GraphInput:
    """The graph of a file."""
    from tools.whatif.chakra import read_chakra
    from tools.whatif.graph_json import read_graph

    content = input_bytes(path, LARGEST_INPUT_BYTES)
    try:
        if path.suffix != CHAKRA:
            return read_graph(content)
        found = read_chakra(content)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if found.dropped:
        note(f"dependencies on nodes that the trace does not hold are left out: {found.dropped}")
    return found.graph


def _timeline(given: GraphInput, before: GraphReplay, after: GraphReplay | None) -> Timeline:
    from tools.whatif.timeline import Timeline

    title = f"Replay (by simulation): {(after or before).makespan_ms:.4g} ms"
    if after is None:
        return Timeline(title, tuple(before.bars(given)))
    title += f" instead of {before.makespan_ms:.4g} ms"
    return Timeline(title, (*before.bars(given, "given"), *after.bars(given, "scaled")))


def _scale(text: str) -> tuple[str, float]:
    name, found, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = math.nan
    if not found or not name or not 0 <= value <= 1e6:
        raise UsageError(f"--scale {text!r} is not possible; write NAME=FACTOR with a factor from 0 to 1000000")
    return name, value


def _record(before: GraphReplay, after: GraphReplay | None) -> dict[str, object]:
    """The contract of ``--json``; ``before_ms`` is null without ``--scale``."""
    from dataclasses import asdict

    shown = after or before
    longest = sorted(range(len(shown.path)), key=lambda place: shown.path[place].start_ms - shown.path[place].end_ms)
    return {
        "schema": SCHEMA,
        "by": "simulation",
        "makespan_ms": shown.makespan_ms,
        "before_ms": before.makespan_ms if after else None,
        "path_ms": shown.path_ms,
        "path_nodes": len(shown.path),
        "path": [asdict(shown.path[place]) for place in sorted(longest[:SHOWN_PATH])],
        "busy_ms": shown.busy_ms,
    }


def _text(before: GraphReplay, after: GraphReplay | None) -> str:
    from hermes_agent.evidence.printable import printable

    shown = after or before
    headline = f"Makespan (by simulation): {shown.makespan_ms:.4g} ms"
    if after is not None:
        headline += f" instead of {before.makespan_ms:.4g} ms"
        if after.makespan_ms > 0:
            headline += f", {before.makespan_ms / after.makespan_ms:.3g}x"
    kinds = sorted(shown.path_ms.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{printable(kind, LONGEST_NAME)} {ms:.4g} ms" for kind, ms in kinds)
    lines = [headline, f"Longest path: {len(shown.path)} operators; {parts}"]
    for name, ms in list(shown.busy_ms.items())[:SHOWN_RESOURCES]:
        share = 100 * ms / shown.makespan_ms if shown.makespan_ms > 0 else 0.0
        lines.append(f"  {printable(name, LONGEST_NAME)}: busy {ms:.4g} ms ({share:.0f} %)")
    return "\n".join(lines)

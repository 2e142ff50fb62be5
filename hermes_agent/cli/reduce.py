"""Make one summary file for each traced rank of a run, here, on a Dask cluster, or as a part of a job array."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import RUN_HELP, settings
from hermes_agent.cli.terminal import TerminalProgress, note, print_json
from hermes_agent.locations.places import local, place
from tools.errors import ExitCode, InputError

if TYPE_CHECKING:
    from tools.summaries.reduce import Reduced

SCHEMA = "hermes-dx/reduction/1"
SHOWN = 10  # traces that could not be read, by name
PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``reduce``."""
    parser.add_argument("run_paths", nargs="+", metavar="RUN", type=place, help=RUN_HELP)
    parser.add_argument(
        "--part", type=part, default=(1, 1), metavar="I/N", help="only the I-th of N parts of the traces"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the summaries; default: the cache")
    parser.add_argument("--dask", metavar="ADDRESS", help='Dask scheduler whose workers do it; "local" starts one')
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def part(text: str) -> tuple[int, int]:
    """Read ``3/16``."""
    found = PART.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part; write I/N with I from 1 to N, for example 3/16")
    return int(found[1]), int(found[2])


def run(args: argparse.Namespace) -> int:
    """Make the summaries that are not there yet and print how many there are."""
    from hermes_agent.locations.cluster import executor_for
    from tools.sources.inventory import take_inventory
    from tools.sources.options import LoadOptions
    from tools.summaries.folder import LocalFolder, cached
    from tools.summaries.reduce import part_of, reduce_traces

    chosen = settings()
    options = LoadOptions(cache_dir=chosen.cache_dir)
    inventory = take_inventory([local(each, chosen.cache_dir) for each in args.run_paths], options.limits)
    if not inventory.traces:
        raise InputError(f"{', '.join(map(str, args.run_paths))}: holds no trace to summarise, only records")
    traces = part_of(inventory.traces, *args.part)
    folder = LocalFolder(args.out) if args.out else cached(chosen.cache_dir)
    with TerminalProgress() as progress:
        reduced = reduce_traces(traces, folder, executor_for(args.dask, options.worker_count()), options, progress)
    for text in (*inventory.notes, *reduced.notes):
        note(text)
    if args.json:
        print_json(_record(args.part, len(inventory.traces), folder.path, reduced))
    else:
        print(summary_text(args.part, len(inventory.traces), folder.path, reduced))
    if traces and not reduced.summaries:
        raise InputError(f"none of the {len(traces)} traces can be read")
    return ExitCode.OK


def summary_text(chosen: tuple[int, int], found: int, folder: Path, reduced: Reduced) -> str:
    """Return what was made, what was there before, and what could not be read, by name up to a number."""
    from hermes_agent.evidence.printable import printable

    made = sum(file.made for file in reduced.summaries)
    total = len(reduced.summaries) + len(reduced.failures)
    which = (
        f"{total:,} traces" if chosen == (1, 1) else f"part {chosen[0]} of {chosen[1]}: {total:,} of {found:,} traces"
    )
    lines = [
        f"{which}; {made:,} summaries made, {len(reduced.summaries) - made:,} taken from before, "
        f"{len(reduced.failures):,} not readable",
        *(f"  {printable(failure.reason)}" for failure in reduced.failures[:SHOWN]),
    ]
    if len(reduced.failures) > SHOWN:
        lines.append(f"  and {len(reduced.failures) - SHOWN:,} more")
    return "\n".join([*lines, f"summaries: {printable(str(folder))}"])


def _record(chosen: tuple[int, int], found: int, folder: Path, reduced: Reduced) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "part": {"number": chosen[0], "of": chosen[1]},
        "folder": str(folder),
        "traces_found": found,
        "summaries": [{"trace": str(file.trace), "file": file.name, "made": file.made} for file in reduced.summaries],
        "not_readable": [{"trace": str(failure.path), "reason": failure.reason} for failure in reduced.failures],
    }

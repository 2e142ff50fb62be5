"""Make one summary file for each traced rank of a run, here, on a Dask cluster, or as a part of a job array."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import RUN_HELP, named_places, settings
from hermes_agent.cli.terminal import TerminalProgress, note, print_json
from hermes_agent.locations.places import Place, RunUrl, name_of, place
from tools.errors import ExitCode, InputError, UsageError

if TYPE_CHECKING:
    from tools.sources.options import LoadOptions
    from tools.summaries.folder import SummaryFolder
    from tools.summaries.reduce import Reduced, TraceSource

SCHEMA = "hermes-dx/reduction/1"
SHOWN = 10  # traces that could not be read, by name
PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``reduce``."""
    parser.add_argument("run_paths", nargs="+", metavar="RUN", type=place, help=RUN_HELP)
    parser.add_argument(
        "--part", type=part, default=(1, 1), metavar="I/N", help="only the I-th of N parts of the traces"
    )
    parser.add_argument(
        "--out", type=place, metavar="FOLDER", help="folder or URL for the summaries; default: the cache"
    )
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
    from tools.sources.options import LoadOptions
    from tools.summaries.reduce import part_of, reduce_traces

    chosen = settings()
    options = LoadOptions(cache_dir=chosen.cache_dir)
    found = traces_of(named_places(args.run_paths, chosen), options)
    traces = part_of(found, *args.part)
    folder = folder_at(args.out, chosen.cache_dir)
    with TerminalProgress() as progress:
        reduced = reduce_traces(traces, folder, executor_for(args.dask, options.worker_count()), options, progress)
    for text in reduced.notes:
        note(text)
    if args.json:
        print_json(_record(args.part, len(found), folder, reduced))
    else:
        print(summary_text(args.part, len(found), folder, reduced))
    if traces and not reduced.summaries:
        raise InputError("none of the traces can be read")
    return ExitCode.OK


def traces_of(places: Sequence[Place], options: LoadOptions) -> list[TraceSource]:
    """Return the traces at local paths and at URLs, of which nothing is copied; raises InputError without any."""
    from tools.sources.inventory import take_inventory

    found: list[TraceSource] = []
    if paths := [each for each in places if not isinstance(each, RunUrl)]:
        inventory = take_inventory(paths, options.limits)
        found += inventory.traces
        for text in inventory.notes:
            note(text)
    for each in places:
        if isinstance(each, RunUrl):
            from hermes_agent.locations.stream import traces_at

            found += traces_at(each.url)
    if not found:
        raise InputError(f"{', '.join(map(name_of, places))}: holds no trace to summarise, only records")
    return found


def folder_at(where: Place | None, cache_dir: Path | None) -> SummaryFolder:
    """Return the folder of summaries at a path or URL, else that in the cache; raises UsageError without either."""
    if isinstance(where, RunUrl):
        from hermes_agent.locations.stream import RemoteFolder

        return RemoteFolder(where.url)
    from tools.summaries.folder import LocalFolder, cached

    if where is not None:
        return LocalFolder(where)
    if cache_dir is None:
        raise UsageError("there is no cache for the summaries; name a folder with --out FOLDER")
    return cached(cache_dir)


def summary_text(chosen: tuple[int, int], found: int, folder: SummaryFolder, reduced: Reduced) -> str:
    """Return what was made, what was there before, and what could not be read, by name up to a number."""
    from hermes_agent.evidence.printable import printable

    made = sum(file.made for file in reduced.summaries)
    total = len(reduced.summaries) + len(reduced.failures)
    which, named = f"{found:,} {'trace' if found == 1 else 'traces'}", ""
    if chosen[1] > 1:
        which, named = f"{total:,} of {which}", f"part {chosen[0]} of {chosen[1]}: "
    lines = [
        f"{named}{which}; summaries: {made:,} made, {len(reduced.summaries) - made:,} taken from before; "
        f"{len(reduced.failures):,} not readable",
        *(f"  {printable(failure.reason)}" for failure in reduced.failures[:SHOWN]),
    ]
    if len(reduced.failures) > SHOWN:
        lines.append(f"  and {len(reduced.failures) - SHOWN:,} more")
    if cut := [file for file in reduced.summaries if file.cut]:
        are = "1 trace is" if len(cut) == 1 else f"{len(cut):,} traces are"
        lines.append(f"{are} cut or damaged, and nothing is measured there; copy or record again:")
        lines += [f"  {printable(str(file.trace))}: {printable(file.cut)}" for file in cut[:SHOWN]]
        lines += [f"  and {len(cut) - SHOWN:,} more"] if len(cut) > SHOWN else []
    return "\n".join([*lines, f"folder: {printable(folder.shown)}"])


def _record(chosen: tuple[int, int], found: int, folder: SummaryFolder, reduced: Reduced) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "part": {"number": chosen[0], "of": chosen[1]},
        "folder": folder.shown,
        "traces_found": found,
        "summaries": [{"trace": str(file.trace), "file": file.name, "made": file.made} for file in reduced.summaries],
        "cut": [{"trace": str(file.trace), "reason": file.cut} for file in reduced.summaries if file.cut],
        "not_readable": [{"trace": str(failure.path), "reason": failure.reason} for failure in reduced.failures],
    }

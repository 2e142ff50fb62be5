"""``--svg FILE`` and ``--perfetto FILE`` of plan, replay and whatif: when everything happens, as a picture."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import writable
from tools.errors import UsageError

if TYPE_CHECKING:
    from tools.whatif.timeline import Timeline


def add_gantt_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two files."""
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw when everything happens as a Gantt picture")
    parser.add_argument("--perfetto", type=Path, metavar="FILE", help="the same as a trace for Perfetto (.json or .gz)")


def check_gantt_files(args: argparse.Namespace) -> None:
    """UsageError where a file cannot be written or the packages that draw are missing; before any work is done."""
    for path in (args.svg, args.perfetto):
        if path is not None:
            writable(path)
            if path.exists() and any(path.samefile(each) for each in _inputs(args)):
                raise UsageError(f"{path} is the input, which is never overwritten; name another file")
    if args.svg is not None:
        from hermes_agent.report.pictures.offer import require_extra

        require_extra()


def _inputs(args: argparse.Namespace) -> Sequence[Path]:
    given = (getattr(args, name, None) for name in ("input", "recorded", "run_path"))
    return [Path(each) for each in given if each is not None and Path(each).exists()]


def write_gantt(args: argparse.Namespace, timeline: Callable[[], Timeline]) -> None:
    """Write the files that were asked for; the timeline is made only then. UsageError where nothing can be drawn."""
    if args.svg is None and args.perfetto is None:
        return
    from hermes_agent.model.request import Request
    from hermes_agent.report.files import write_report

    drawn = timeline()
    if not drawn.bars:
        raise UsageError("nothing in it takes time, so there is nothing to draw")
    request = Request(tuple(each for each in _inputs(args) if each.is_dir()))
    if args.svg is not None:
        from hermes_agent.report.pictures.gantt import gantt_svg

        write_report(args.svg, gantt_svg(drawn).encode(), request)
    if args.perfetto is not None:
        from hermes_agent.report.timeline_trace import timeline_trace

        write_report(args.perfetto, timeline_trace(drawn, args.perfetto.suffix == ".gz"), request)

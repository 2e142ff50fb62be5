"""Show why a run is slow and what to change first."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, add_summary_arguments, request_of, settings, writable
from hermes_agent.cli.terminal import TerminalProgress, terminal_style, terminal_width
from hermes_agent.report.pictures.offer import NAMES, require_extra
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.request import Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``diagnose``."""
    add_run_arguments(parser)
    add_summary_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
    form.add_argument("--md", action="store_true", help="print the diagnosis as Markdown")
    parser.add_argument("--perfetto", type=Path, metavar="FILE", help="write a trimmed, annotated trace for Perfetto")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report for a browser, one file")
    parser.add_argument("--png", type=Path, metavar="FILE", help="write the most telling picture as PNG")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="the same as SVG")
    parser.add_argument("--picture", choices=NAMES, default="", help="the picture that --png and --svg write")
    parser.add_argument("--no-llm", action="store_true", help="write from templates even if a model is configured")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every check with its figures")
    parser.add_argument("--strict", action="store_true", help="exit with 4 when the verdict is inconclusive")


def run(args: argparse.Namespace) -> int:
    """Diagnose the run and print the answer."""
    from hermes_agent.workflow.diagnose import diagnose

    for path in (args.perfetto, args.html, args.png, args.svg):
        if path is not None:
            writable(path)
    drawn = bool(args.html or args.png or args.svg)
    if args.picture and not (args.png or args.svg):
        raise UsageError("--picture chooses what --png and --svg write; add one of them")
    if drawn:
        require_extra()
    chosen = settings(no_llm=args.no_llm)
    request = request_of(args, chosen)
    writer = proposals = None
    if chosen.llm.model is not None:  # the model's packages are imported only then
        from hermes_agent.statements.answer import writer_for
        from hermes_agent.statements.proposals import proposals_for

        writer, proposals = writer_for(chosen), proposals_for(chosen)
    with TerminalProgress() as progress:
        diagnosis = diagnose(request, progress, writer, proposals=proposals)
    print_diagnosis(diagnosis, as_json=args.json, as_markdown=args.md, verbose=args.verbose)
    if args.perfetto is not None:
        from hermes_agent.report.perfetto import write_perfetto

        write_perfetto(request, diagnosis, args.perfetto)
    if drawn:
        _write_reports(args, request, diagnosis)
    return ExitCode.INCONCLUSIVE if args.strict and diagnosis.verdict == "inconclusive" else ExitCode.OK


def _write_reports(args: argparse.Namespace, request: Request, diagnosis: Diagnosis) -> None:
    from hermes_agent.report.files import profile_behind, write_report
    from hermes_agent.report.html.page import render_html
    from hermes_agent.report.pictures.export import render_png, render_svg

    profile = profile_behind(request, diagnosis)
    if args.html is not None:
        write_report(args.html, render_html(diagnosis, profile, request.paths).encode(), request)
    if args.png is not None:
        write_report(args.png, render_png(diagnosis, profile, args.picture), request)
    if args.svg is not None:
        write_report(args.svg, render_svg(diagnosis, profile, args.picture).encode(), request)


def print_diagnosis(
    diagnosis: Diagnosis, *, as_json: bool = False, as_markdown: bool = False, verbose: bool = False
) -> None:
    """Write the diagnosis to standard output in the chosen form."""
    if as_json:
        print(diagnosis.model_dump_json(by_alias=True, indent=2))
    elif as_markdown:
        from hermes_agent.report.markdown import render_markdown

        print(render_markdown(diagnosis), end="")
    else:
        from hermes_agent.report.text import render_text

        print(render_text(diagnosis, terminal_width(), terminal_style(), verbose), end="")

"""Size and time of the HTML report and of a PNG by number of ranks: ``python -m evals.report_sizes [RANKS ...]``.

Two ranks are the bundled run, more (from 24 on) those of
``evals.benchmarks.many_ranks``. The time is that of the report alone, behind the diagnosis, with the run read from the
cache; the first report of a process also imports Altair and starts vl-convert.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from evals.benchmarks.many_ranks import ManyRanks, write
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.report.html.page import render_html
from hermes_agent.report.pictures.export import render_png
from hermes_agent.workflow.diagnose import diagnose

BUNDLED = 2  # ranks of the run that the demo diagnoses
RANKS = (BUNDLED, 64, 1024)


@dataclass(frozen=True)
class Size:
    """A report of one run."""

    ranks: int
    read_s: float
    html_s: float
    html_bytes: int
    png_s: float
    png_bytes: int


def measured(ranks: int) -> Size:
    """The report of a run of so many ranks, made in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="hermes-report-") as name:
        run, cache = Path(name) / "run", Path(name) / "cache"
        if ranks == BUNDLED:
            run = demo_run()
        else:
            write(ManyRanks(ranks=ranks), run)
        request = Request((run,), cache_dir=cache)
        diagnosis = diagnose(request, lambda _: None)
        begun = time.perf_counter()
        profile = profile_behind(request, diagnosis)
        read = time.perf_counter()
        html = render_html(diagnosis, profile, [run]).encode()
        written = time.perf_counter()
        png = render_png(diagnosis, profile)
        end = time.perf_counter()
    return Size(ranks, read - begun, written - read, len(html), end - written, len(png))


def main() -> None:
    """Print one row per number of ranks."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.report_sizes", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("ranks", nargs="*", type=int, default=RANKS, metavar="RANKS", help="default: 2 64 1024")
    asked: list[int] = parser.parse_args().ranks
    print("| ranks | run read, s | HTML, s | HTML, KB | PNG, s | PNG, KB |\n|---|---|---|---|---|---|")
    for ranks in asked:
        row = measured(ranks)
        cells = (f"{row.read_s:.2f}", f"{row.html_s:.2f}", f"{row.html_bytes / 1000:.0f}")
        print(f"| {ranks:,} | {' | '.join(cells)} | {row.png_s:.2f} | {row.png_bytes / 1000:.0f} |", flush=True)


if __name__ == "__main__":
    main()

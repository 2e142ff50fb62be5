"""``python -m evals.planners``: the acceptance table of the planners, written whole to RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evals.planners import published, searches, solvers, vpipe
from evals.planners.gloo_runs import gloo_runs
from evals.planners.row import Row
from evals.suite.run_places import Places

RESULTS = Path(__file__).with_name("RESULTS.md")
COMMAND = "python -m evals.planners [--torch-python PYTHON] [--solvers FOLDER --solver-python PYTHON] [--sample FILE]"
Section = Callable[[], Row | list[Row]]


def main(words: Sequence[str] | None = None) -> int:
    """Run all rows, print and write the table; exits with 1 when a row fails."""
    parser = argparse.ArgumentParser(prog="python -m evals.planners", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file to write")
    parser.add_argument("--traces", type=Path, help="folder with real traces (HERMES_TRACES)")
    parser.add_argument(
        "--torch-python", help="a Python with torch, for the runs over gloo; run them on a quiet machine"
    )
    parser.add_argument("--solvers", type=Path, help="folder with PipeMoE's solver.py and FSMoE's optim.py, if fetched")
    parser.add_argument("--solver-python", default=sys.executable, help="a Python with SciPy, for the solvers")
    parser.add_argument("--sample", type=Path, help="the file sample of NASPipe's artifact, if fetched")
    parser.add_argument("--small", action="store_true", help="few random inputs")
    args = parser.parse_args(words)
    args.traces = args.traces or Places.from_environment(os.environ).traces
    started = time.monotonic()
    rows: list[Row] = []
    for section in sections(args):
        made = section()
        for row in made if isinstance(made, list) else [made]:
            print(f"{row.verdict:8} {row.planner}: {row.question}: {row.found}", file=sys.stderr, flush=True)
            rows.append(row)
    args.out.write_text(report(rows, time.monotonic() - started), encoding="utf-8")
    return int(any(row.verdict == "fail" for row in rows))


def sections(args: argparse.Namespace) -> list[Section]:
    """The comparisons that the arguments allow, in the order of the table."""
    small, traces = args.small, args.traces
    solver = (args.solvers, args.solver_python)
    return [
        published.published_pair,
        lambda: searches.buckets(20 if small else 300),
        published.vgg16,
        published.resnet50_fusion,
        lambda: gloo_runs(args.torch_python) if args.torch_python else absent("gradient-buckets", "--torch-python"),
        lambda: searches.pipelines(5 if small else 25, 6 if small else 10),
        vpipe.systems,
        lambda: searches.subnets(60 if small else 1000),
        *(() if small else (published.bubbles,)),
        lambda: published.naspipe_sample(args.sample.read_text()) if args.sample else absent("supernet", "--sample"),
        *(() if small else (searches.degrees,)),
        published.noisy_costs,
        published.memory_saved,
        lambda: (
            published.trace_costs(traces / "param" / "dlrm_8rank")
            if traces.is_dir()
            else absent("expert-degree", "--traces")
        ),
        lambda: solvers.pipemoe(*solver) if args.solvers else absent("expert-degree", "--solvers"),
        lambda: solvers.fsmoe(*solver) if args.solvers else absent("expert-degree", "--solvers"),
        lambda: searches.schedules(6 if small else 60),
        published.ablation,
        published.compression,
        published.shards,
        lambda: (
            published.stragglers(traces / "straggler_analysis") if traces.is_dir() else absent("straggler", "--traces")
        ),
    ]


def report(rows: Sequence[Row], seconds: float) -> str:
    """The table as Markdown."""
    lines = [
        "# Planners: acceptance",
        "",
        f"Written by `{COMMAND}` in {seconds:.0f} s. Only rows of origin measured are measured.",
        "",
        "| planner | asked | wanted | found | origin | verdict |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{each.planner}` | {each.question} | {each.wanted} | {each.found} | {each.how} | {each.verdict} |"
            for each in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def absent(planner: str, option: str) -> Row:
    """A row that was not run, with the option that it needs."""
    return Row(planner, f"comparison that needs {option}", "", "", "not run", "published data")


if __name__ == "__main__":
    sys.exit(main())

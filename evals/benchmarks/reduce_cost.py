"""Cost of ``hermes-dx reduce`` by the number of ranks: ``python -m evals.benchmarks.reduce_cost --ranks 64 512 1024``.

Runs of many ranks (``evals.benchmarks.many_ranks``) are reduced from an empty folder, and once more with all summaries
there. Seconds per rank are of the whole command; memory is the largest sum over its processes (PSS).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.benchmarks.many_ranks import ManyRanks, write
from evals.benchmarks.process import Cost, cost_of

STEPS, LAYERS = 8, 4


@dataclass(frozen=True)
class Row:
    """A run of so many ranks, reduced from nothing and once more."""

    ranks: int
    trace_mb: float  # all traces, compressed
    first: Cost
    again: Cost


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks.reduce_cost", description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 512, 1024])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--layers", type=int, default=LAYERS)
    args = parser.parse_args(argv)
    rows = [measured(ManyRanks(ranks=ranks, steps=args.steps, layers=args.layers)) for ranks in args.ranks]
    print(report(rows))
    return 0


def measured(run: ManyRanks) -> Row:
    """The cost of reducing the run; an AssertionError where a summary is missing."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        traces, out = Path(folder) / "run", Path(folder) / "summaries"
        paths = write(run, traces)
        size = sum(path.stat().st_size for path in paths)
        command = [sys.executable, "-m", "hermes_agent.cli.main", "reduce", str(traces), "--out", str(out), "--json"]
        own_cache = {"HERMES_DX_CACHE_DIR": str(Path(folder) / "cache")}
        costs = [cost_of(command, own_cache) for _ in range(2)]
        for cost, made in zip(costs, (True, False), strict=True):
            assert [row["made"] for row in json.loads(cost.output)["summaries"]] == [made] * run.ranks
        print(f"{run.ranks} ranks: {costs[0].seconds:.1f} s, {costs[0].peak_mib:.0f} MiB", file=sys.stderr)
        return Row(run.ranks, size / 1e6, *costs)


def report(rows: Sequence[Row]) -> str:
    """The table as Markdown."""
    lines = [
        f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "",
        "| ranks | traces, MB | s | s per rank | CPU s per rank | peak MiB | again, s | again, peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        first, again = row.first, row.again
        figures = (first.seconds / row.ranks, first.cpu_s / row.ranks)
        lines.append(
            f"| {row.ranks:,} | {row.trace_mb:.1f} | {first.seconds:.1f} | {figures[0]:.3f} | {figures[1]:.3f} "
            f"| {first.peak_mib:.0f} | {again.seconds:.1f} | {again.peak_mib:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m evals.replay``: speed of the replay, clocks, error on recorded runs (``--write``: into RESULTS.md)."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from evals.replay.clocks import clock_text
from evals.replay.error import RunError, run_error
from evals.replay.speed import Speed, measure
from evals.suite.run_places import Places
from tools.errors import HermesError
from tools.sources.load import load_run
from tools.views.profile import Profile

RESULTS = Path(__file__).with_name("RESULTS.md")
OPERATORS = 1_000_000
GOAL_S = 5.0
GOAL_MEDIAN_PCT, GOAL_P95_PCT = 3.0, 5.0
HOST_ALONE_PCT = 95.0  # of the step: there the replay has little to explain
TRACE = "*trace.json*"
SINGLE = ("kineto/*.json*", "hta/*.json*", "tracelens/*.json*", "real/*.json*")  # one rank each, below the traces
FOLDERS = ("param/dlrm_8rank",)
LARGEST_BYTES = 12 << 20  # packed; larger ones would take minutes


def main(words: Sequence[str] | None = None) -> int:
    """Measure what was asked for; exits with 1 where the goal of the speed is missed."""
    parser = argparse.ArgumentParser(prog="python -m evals.replay", description=__doc__)
    parser.add_argument("--speed", action="store_true", help="replay a graph of a million operators, nothing else")
    parser.add_argument("--operators", type=int, default=OPERATORS, help="size of that graph")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {RESULTS.name}")
    runs_help = "runs to compare with, and nothing about clocks (default: all recorded ones)"
    parser.add_argument("runs", nargs="*", type=Path, help=runs_help)
    args = parser.parse_args(words)
    speed = measure(args.operators)
    text = _speed_text(speed)
    if not args.speed:
        named = [("named", run) for run in args.runs]
        text += "\n" if named else f"\n{clock_text()}\n"
        text += error_text(errors(named or list(recorded_runs(Places.from_environment(os.environ)))))
    print(text)
    if args.write:
        RESULTS.write_text(f"# Replay: speed and error\n\nWritten by `python -m evals.replay --write`.\n\n{text}\n")
    return int(not speed.same or speed.replay_s > GOAL_S)


def recorded_runs(places: Places) -> Iterator[tuple[str, Path]]:
    """Workload and path of every recorded run: the lab by workload, others' runs and public traces one by one."""
    for origin, folders in (("lab", places.labs), ("habits", places.habits)):
        for folder in folders:
            for run in sorted({trace.parent for trace in folder.rglob(TRACE)}):
                parts = run.relative_to(folder).parts  # fault and model-variant, or one name in the habits
                model = parts[1 if origin == "lab" and len(parts) > 1 else 0]
                yield f"{origin}: {model.removeprefix('healthy_').split('-')[0].split('_')[0]}", run
    for run in sorted({trace.parent for trace in places.others.rglob(TRACE)}):
        yield f"others: {run.name}", run
    for pattern in SINGLE:
        for trace in sorted(places.traces.glob(pattern)):
            if trace.stat().st_size <= LARGEST_BYTES:
                yield f"trace: {trace.parent.name}/{trace.name.split('.')[0]}", trace
    for name in FOLDERS:
        if (places.traces / name).is_dir():
            yield f"trace: {name}", places.traces / name


def errors(runs: Sequence[tuple[str, Path]]) -> dict[str, list[RunError]]:
    """Errors by workload; runs that cannot be replayed are named on standard error."""
    found: dict[str, list[RunError]] = defaultdict(list)
    for workload, path in runs:
        try:
            one = run_error(Profile(load_run([path])))
            found[workload].append(one)
        except HermesError as error:
            print(f"{path}: not replayed: {error}", file=sys.stderr)
    return found


def error_text(found: dict[str, list[RunError]]) -> str:
    """The table by workload as Markdown, the worst at the top, and how many reach the goal."""
    figures = []
    for workload, runs in found.items():
        every = np.abs([pct for run in runs for pct in run.explained_pct])
        means = [abs(run.mean_times_pct) for run in runs if run.mean_times_pct is not None]
        nodes = round(float(np.median([run.nodes for run in runs])))
        median, high = float(np.median(every)), float(np.percentile(every, 95))
        host, graphs = (
            float(np.mean(each)) for each in zip(*((run.host_pct, run.graphs_pct) for run in runs), strict=True)
        )
        figures.append((high, median, workload, len(runs), len(every), nodes, host, graphs, means))
    figures.sort(key=lambda row: (-row[0], row[2]))
    alone = sum(host >= HOST_ALONE_PCT for *_, host, _, _ in figures)
    good = sum(high <= GOAL_P95_PCT and median <= GOAL_MEDIAN_PCT for high, median, *_ in figures)
    lines = [
        f"Replay of unchanged steps against the measured ones, in % of the step: {good} of {len(figures)} workloads"
        f" within {GOAL_MEDIAN_PCT:.0f} % (median) and {GOAL_P95_PCT:.0f} % (95th percentile),"
        f" {alone} of which hold hardly anything but a host thread's own time.",
        "",
        "Delays that no dependency explains are left out, except before nodes of CUDA graphs: a graph is launched as a",
        "whole, and in such a delay it runs nodes that the trace lacks. There the mean delay of the other steps is",
        "taken (graphs %: how much of the step these delays are). A host thread's own time on the critical path",
        "(host %) is taken as recorded, with any wait in it of which the trace says nothing: where it is nearly all of",
        "the step, a small error proves little. With mean times each node takes the mean over the steps that have the",
        "same nodes, against the mean of these steps.",
        "",
        "| workload | runs | steps | nodes | host % | graphs % | median | 95th percentile | mean times: median "
        "| largest |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for high, median, workload, count, steps, nodes, host, graphs, means in figures:
        mean = f"{np.median(means):.2f} | {max(means):.2f}" if means else "- | -"
        shares = f"{host:.0f} | {graphs:.0f}"
        lines.append(f"| {workload} | {count} | {steps} | {nodes} | {shares} | {median:.2f} | {high:.2f} | {mean} |")
    return "\n".join(lines) + "\n"


def _speed_text(speed: Speed) -> str:
    return (
        f"{speed.operators:,} operators with {speed.edges:,} edges, CPU seconds on one core: ordered "
        f"{speed.compile_s:.2f}, replayed {speed.replay_s:.2f} (goal {GOAL_S:.0f}); partial replay {speed.local_s:.2f} "
        f"for a change near the end, {speed.far_s:.2f} for one in the middle that moves all that follows; "
        f"{'both equal' if speed.same else 'NOT equal to'} the full replay.\n"
    )


if __name__ == "__main__":
    sys.exit(main())

"""Hermes against HTA on one big trace, pair by pair.

HTA (HolisticTraceAnalysis) loads the trace and prints its temporal breakdown; Hermes makes its whole diagnosis, cold
(nothing kept) and warm (the same again). Each pair runs back to back, so that a machine that changes its speed changes
it for both.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evals.benchmarks.big_traces import Enlarged
from evals.benchmarks.process import CommandError, Cost, cost_of
from evals.benchmarks.results import Pair

PEER = (
    "import sys; from hta.trace_analysis import TraceAnalysis; "
    "a = TraceAnalysis(trace_files=dict(enumerate(sys.argv[1:])), trace_dir=''); "
    "print(a.get_temporal_breakdown(visualize=False).to_string())"
)


def measured_pair(trace: Enlarged, cache: Path, peer_python: str) -> tuple[Pair, str]:
    """One round, and why HTA could not read the trace ("" where it could); the cache folder is used up."""
    failure = ""
    try:
        peer = replace(cost_of([peer_python, "-c", PEER, *trace.files], {}), output="")
    except CommandError as error:
        peer, failure = None, str(error).strip().rpartition("\n")[2]
    cold, warm = measured_alone(trace.files, cache)
    return Pair(peer, cold, warm), failure


def measured_alone(paths: Sequence[str], cache: Path) -> tuple[Cost, Cost]:
    """Hermes cold and warm; ``RuntimeError`` where the two answers differ."""
    command = [sys.executable, "-m", "hermes_agent.cli.main", "diagnose", *paths, "--no-llm"]
    environment = {"HERMES_DX_CACHE_DIR": str(cache)}
    try:
        cold, warm = cost_of(command, environment), cost_of(command, environment)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    if cold.output != warm.output:
        raise RuntimeError("the warm answer differs from the cold one")
    return replace(cold, output=""), replace(warm, output="")

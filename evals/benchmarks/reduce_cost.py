"""Cost of a run of many ranks: ``hermes-dx reduce`` from an empty folder, once more, and the whole diagnosis."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from evals.benchmarks.many_ranks import ManyRanks, write
from evals.benchmarks.process import cost_of
from evals.benchmarks.results import RanksCost, conditions, load

STEPS, LAYERS = 8, 4
PROGRAM = (sys.executable, "-m", "hermes_agent.cli.main")


def measured_ranks(ranks: int, traces: Path) -> RanksCost:
    """The cost for so many ranks, whose traces are written where they are missing.

    ``RuntimeError`` where a summary is missing or is made twice.
    """
    if not traces.is_dir():
        made = traces.with_name(f"{traces.name}.new")
        write(ManyRanks(ranks=ranks, steps=STEPS, layers=LAYERS), made)
        made.rename(traces)
    size, begun = sum(path.stat().st_size for path in traces.iterdir()), load()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        own_cache = {"HERMES_DX_CACHE_DIR": str(Path(folder) / "cache")}
        reduce = [*PROGRAM, "reduce", str(traces), "--out", str(Path(folder) / "summaries"), "--json"]
        costs = [cost_of(reduce, own_cache) for _ in range(2)]
        for cost, expected in zip(costs, (True, False), strict=True):
            if [row["made"] for row in json.loads(cost.output)["summaries"]] != [expected] * ranks:
                raise RuntimeError(f"not every one of {ranks} summaries was {'made' if expected else 'there'}")
        costs.append(cost_of([*PROGRAM, "diagnose", str(traces), "--no-llm"], own_cache))
    return RanksCost(conditions(begun), size / 1e6, *(replace(cost, output="") for cost in costs))

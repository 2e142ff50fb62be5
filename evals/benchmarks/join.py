"""Seconds and peak memory of the join of summaries, against two engines.

Writes the summary files of many ranks (hosts of eight share tensors, the ranks of a shard reduce gradients together),
and the same rows as one Parquet table. Each engine answers in a process of its own (``python -m evals.benchmarks.join
FOLDER ENGINE``) who causes waiting and who waits: "summaries" is the join of the product, which reads one file after
the other and adds exact exposed waiting; "duckdb" (where it is installed) and "pyarrow" group and join the one table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evals.benchmarks.process import cost_of
from evals.benchmarks.results import EngineCost, JoinResult, conditions, load
from tools.sources.trace_file import TraceFacts, TraceMetadata
from tools.summaries.file import decode, encode
from tools.summaries.join import SummarizedTrace, join
from tools.summaries.record import TABLES, RankSummary, SummaryFacts, TableName

PER_HOST, STEPS = 8, 5
GAP_NS, SHORTEST_NS, LONGEST_NS = 200_000, 20_000, 150_000
TABLE, KEY = "table", "benchmark"
PLACE = ["place", "step", "sequence"]
MEMORY = "512MB"  # that DuckDB may use, as it would beside a diagnosis


def summary_of(rank: int, collectives: int) -> RankSummary:
    """A rank whose collectives follow each other, half with its host and half with its shard."""
    rng = np.random.default_rng([rank, 3])
    each = collectives // STEPS
    place = np.tile(np.arange(each), STEPS)
    start = np.arange(each * STEPS, dtype=np.int64) * GAP_NS
    duration = rng.integers(SHORTEST_NS, LONGEST_NS, each * STEPS)
    groups = [f"host {rank // PER_HOST}", f"shard {rank % PER_HOST}"]
    columns = {
        "kind": pd.Categorical.from_codes(np.zeros(each * STEPS, dtype=np.int8), categories=pd.Index(["all_reduce"])),
        "group": pd.Categorical.from_codes(place % 2, categories=pd.Index(groups)),
        "members": pd.Categorical.from_codes(np.zeros(each * STEPS, dtype=np.int8), categories=pd.Index([""])),
        "group_size": -1,
        "bytes": 1 << 20,
        "step": np.repeat(np.arange(STEPS), each),
        "sequence": place // 2,
        "start_ns": start,
        "end_ns": start + duration,
        "exposed_ns": duration,
    }
    edges = np.arange(STEPS + 1, dtype=np.int64) * each * GAP_NS
    steps = pd.DataFrame({"number": np.arange(STEPS), "start_ns": edges[:-1], "end_ns": edges[1:]})
    empty = {name: pd.DataFrame({column: [] for column in TABLES[name]}).astype(TABLES[name]) for name in REST}
    return RankSummary(
        facts=_facts(rank),
        steps=steps.assign(wall_ns=each * GAP_NS).reindex(columns=list(TABLES["steps"]), fill_value=0),
        collectives=pd.DataFrame(columns),
        exposed=pd.DataFrame({"start_ns": start, "end_ns": start + duration}),
        **empty,
    )


REST: tuple[TableName, ...] = ("operators", "stalls")


def _facts(rank: int) -> SummaryFacts:
    trace = TraceFacts("kineto", 0, True, TraceMetadata(rank=rank), "complete", "", 0, 0)
    return SummaryFacts(f"rank{rank}.json", KEY, trace, "", "profiler_step", True, 0, ())


def write(folder: Path, ranks: int, collectives: int, workers: int = 1) -> None:
    """Write the summary files and the one table, which has a file for each worker."""
    (folder / TABLE).mkdir(parents=True, exist_ok=True)
    shares = [(folder, range(worker, ranks, workers), collectives) for worker in range(workers)]
    if workers == 1:
        _write(*shares[0])
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.starmap(_write, shares)


def _write(folder: Path, ranks: range, collectives: int) -> None:
    schema = _rows(summary_of(0, collectives)).schema
    with pq.ParquetWriter(folder / TABLE / f"{ranks.start}.parquet", schema, compression="zstd") as writer:
        for rank in ranks:
            summary = summary_of(rank, collectives)
            (folder / f"{rank}.summary").write_bytes(encode(summary, KEY))
            writer.write_table(_rows(summary))


def _rows(summary: RankSummary) -> pa.Table:
    """The collectives of one rank as rows of the one table, groups as numbers."""
    table, rank = summary.collectives, summary.facts.trace.metadata.rank or 0
    numbers = np.array([1 + rank // PER_HOST, -1 - rank % PER_HOST])
    frame = (
        table[["step", "sequence"]]
        .astype("int32")
        .assign(
            rank=np.int32(rank),
            place=numbers[table["group"].cat.codes].astype(np.int32),
            duration=table["end_ns"] - table["start_ns"],
        )
    )
    return pa.Table.from_pandas(frame, preserve_index=False)


def by_summaries(folder: Path) -> pd.DataFrame:
    """Caused and own waiting by rank with the join of the product."""
    ranks = sorted(int(path.stem) for path in folder.glob("[0-9]*.summary"))
    return join([SummarizedTrace(rank, 0, partial(_read, folder / f"{rank}.summary")) for rank in ranks]).ranks


def _read(path: Path, tables: Sequence[TableName]) -> RankSummary:
    return decode(path.read_bytes(), KEY, tables)


def by_pyarrow(folder: Path) -> pd.DataFrame:
    """The same with the grouping and the hash join of PyArrow."""
    compute: Any = pc
    table: Any = pq.read_table(folder / TABLE)
    found = table.group_by(PLACE).aggregate([("duration", "min"), ("duration", "sum"), ("duration", "count")])
    joined = table.join(found.select([*PLACE, "duration_min"]), PLACE)
    joined = joined.append_column("wait", compute.subtract(joined["duration"], joined["duration_min"]))
    last = joined.filter(compute.equal(joined["wait"], 0)).group_by(PLACE).aggregate([("rank", "min")])
    waited = joined.group_by("rank").aggregate([("wait", "sum")]).to_pandas().set_index("rank")["wait_sum"]
    sums = found.join(last, PLACE).to_pandas()
    waiting = sums["duration_sum"] - sums["duration_count"] * sums["duration_min"]
    caused = (waiting / (sums["duration_count"] - 1)).groupby(sums["rank_min"]).sum()
    return pd.DataFrame({"caused_ns": caused, "waited_ns": waited}).fillna(0.0).sort_index()


def by_duckdb(folder: Path) -> pd.DataFrame:
    """The same with DuckDB, which may write what does not fit into its memory to a folder."""
    settings = {"memory_limit": MEMORY, "temp_directory": str(folder / "duckdb"), "threads": 2}
    database = import_module("duckdb").connect(config=settings)
    rows = f"read_parquet('{folder / TABLE}/*.parquet')"
    database.execute(
        "create table instances as select place, step, sequence, min(duration) shortest, arg_min(rank, duration) last, "
        f"count(*) n, sum(duration) total from {rows} group by all having n > 1"
    )
    caused = database.execute(
        "select last as rank, sum((total - n * shortest) / (n - 1)) caused_ns from instances group by all"
    ).df()
    waited = database.execute(
        f"select rank, sum(duration - shortest) waited_ns from {rows} join instances using (place, step, sequence) "
        "group by all"
    ).df()
    return pd.DataFrame(waited.set_index("rank").join(caused.set_index("rank")).fillna(0.0).sort_index())


ENGINES: dict[str, Callable[[Path], pd.DataFrame]] = {
    "summaries": by_summaries,
    "duckdb": by_duckdb,
    "pyarrow": by_pyarrow,
}


def measured_join(folder: Path, ranks: int, collectives: int) -> JoinResult:
    """The cost of each engine that is installed; the files are written where they are missing."""
    if not (folder / TABLE).exists():
        write(folder, ranks, collectives, workers=os.cpu_count() or 1)
    begun, engines = load(), {}
    for name in ENGINES:
        if name == "duckdb" and find_spec("duckdb") is None:
            continue
        cost = cost_of([sys.executable, "-m", NAME, str(folder), name], {})
        seconds, total = map(float, cost.output.split())
        engines[name] = EngineCost(seconds, cost.peak_mib, total)
        print(f"join by {name}: {seconds:.1f} s, {cost.peak_mib:.0f} MiB", file=sys.stderr)
    return JoinResult(conditions(begun), ranks, collectives, engines)


NAME = "evals.benchmarks.join"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one engine and print its seconds and the waiting that all ranks cause."""
    parser = argparse.ArgumentParser(prog=f"python -m {NAME}", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("engine", choices=tuple(ENGINES))
    args = parser.parse_args(argv)
    begun = time.perf_counter()
    table = ENGINES[args.engine](args.folder)
    print(time.perf_counter() - begun, float(table["caused_ns"].sum()) / 1e9)
    return 0


if __name__ == "__main__":
    sys.exit(main())

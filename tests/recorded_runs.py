"""Monitor records made up step by step, and profiles of runs that have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from tests.synthetic import RankBuilder, run_of
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Layout, Run
from tools.run.recorded.records import SAMPLE_FIELDS, MonitoredRank, MonitorRecords, RankEnvironment
from tools.views.profile import Profile

START_NS = 1_700_000_000_000_000_000
STEP_FIELDS = {
    "data_wait_ms": 0.0,
    "own_ms": np.nan,
    "waiting_ms": 0.0,
    "gc_ms": 0.0,
    "gc_longest_ms": 0.0,
    "thread_cpu_ms": np.nan,
    "gc_runs": 0,
    "voluntary_switches": 0,
    "involuntary_switches": 0,
    "major_faults": 0,
    "fetches": 0,
    "samples": 0,
    "in_flight": np.nan,
    "result_queue": np.nan,
    "pinned_queue": np.nan,
    "captured": False,
    "written": False,
    "first": False,
    "samples_per_s": np.nan,
    "mfu": np.nan,
}
USUAL: Mapping[str, float] = {
    "process_cpu_us": 0.9e6,
    "training_run_delay_us": 0.0,
    "run_delay_us": 0.0,
    "python_threads_cpu_us": 0.0,
    "cpu_total_ticks": 200.0,
    "cpu_idle_ticks": 20.0,
    "minor_faults": 10.0,
    "write_bytes": 0.0,
    "write_chars": 0.0,
    "tcp_sent_segments": 0.0,
    "tcp_retransmitted_segments": 0.0,
}


def step_rows(rank: int, walls_ms: Sequence[float], **columns: Sequence[Any] | float) -> pd.DataFrame:
    """Steps of one rank, one after the other; further columns as lists or one value for all."""
    ends = START_NS + np.cumsum(np.asarray(walls_ms) * 1e6).astype("int64")
    count = len(walls_ms)
    table = {"rank": rank, "attempt": 0, "step": np.arange(count), "end_unix_ns": ends, "wall_ms": walls_ms}
    return pd.DataFrame({**table, **STEP_FIELDS, **columns}, index=range(count))


def sample_rows(
    rank: int, steps: pd.DataFrame, rates: Mapping[str, float], levels: Mapping[str, float], every_ms: float = 100.0
) -> pd.DataFrame:
    """Samples over the whole run: counters that rise by ``rates`` per second, and steady levels."""
    last = int(steps["end_unix_ns"].iloc[-1])
    at = np.arange(START_NS, last + 1, int(every_ms * 1e6), dtype=np.int64)
    seconds = (at - START_NS) / 1e9
    table = {name: np.full(len(at), np.nan) for name in SAMPLE_FIELDS}
    table |= {name: 1000.0 + rate * seconds for name, rate in {**USUAL, **rates}.items()}
    table |= {name: np.full(len(at), value) for name, value in levels.items()}
    return pd.DataFrame({"unix_ns": at, "step": 0, **table, "rank": rank, "attempt": 0})


def environment_of(rank: int, **fields: Any) -> RankEnvironment:  # noqa: ANN401 (any field of the record)
    """Recorded settings of a rank: two cores, one thread per operator, nothing unusual."""
    usual = RankEnvironment(
        rank=rank,
        unix_ns=START_NS,
        python="3.11.7",
        torch="2.13.0+cpu",
        threads={"torch_intra": 1},
        gc_thresholds=(700, 10, 10),
        gc_enabled=True,
        gc_tracked_objects=1000,
        allowed_cores=(0, 1),
        cores=2,
    )
    return msgspec.structs.replace(usual, **fields)


def records_of(
    steps: Sequence[pd.DataFrame],
    rates: Mapping[int, Mapping[str, float]] | None = None,
    levels: Mapping[int, Mapping[str, float]] | None = None,
    environments: Sequence[RankEnvironment] = (),
) -> MonitorRecords:
    """The records of these steps, sampled with the usual rates where no others are given."""
    ranks = [int(table["rank"].iloc[0]) for table in steps]
    sampled = [
        sample_rows(rank, table, (rates or {}).get(rank, {}), (levels or {}).get(rank, {}))
        for rank, table in zip(ranks, steps, strict=True)
    ]
    empty = pd.DataFrame({"rank": [], "attempt": []})
    return MonitorRecords(
        steps=pd.concat(steps, ignore_index=True),
        gc=empty,
        system=pd.concat(sampled, ignore_index=True),
        captures=empty,
        anomalies=empty,
        ranks=tuple(MonitoredRank(rank, 0, "host", len(ranks), 0, 0, True, None, None) for rank in ranks),
        notes=(),
        environments=tuple(environments) or tuple(environment_of(rank) for rank in ranks),
    )


def traced_rank(rank: int) -> RankBuilder:
    """A rank without a device whose trace holds three full steps of computation."""
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        builder.operator("aten::mm", step * 50_000 + 10, 49_900)
        builder.step(1000 + step, step * 50_000, step * 50_000 + 50_000)
    return builder


def untraced_profile(records: MonitorRecords, **thresholds: float) -> Profile:
    """The profile of a run that has these records and no trace."""
    run = Run((), (), Layout(world_size=len({each.rank for each in records.ranks})), None, records=records)
    return Profile(run, Thresholds(thresholds))


def recorded_profile(
    records: MonitorRecords, build: Callable[[int], RankBuilder] = traced_rank, **thresholds: float
) -> Profile:
    """The profile of a run with these records and a small trace of every rank."""
    numbers = sorted({each.rank for each in records.ranks})
    run = run_of(*(build(rank) for rank in numbers))
    return Profile(replace(run, records=records), Thresholds(thresholds))


def loading_rank(
    rank: int, step_us: float, wait_us: float, loader: str = "_SingleProcessDataLoaderIter"
) -> RankBuilder:
    """A rank without a device whose trace holds three full steps that begin with waiting for the loader."""
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        begin = step * step_us
        builder.annotation(f"enumerate(DataLoader)#{loader}.__next__", begin, wait_us)
        builder.operator("aten::mm", begin + wait_us, step_us - wait_us - 100)
        builder.step(1000 + step, begin, begin + step_us)
    return builder

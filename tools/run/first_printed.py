"""Samples that a job printed into its output: before its first step, or while none of its processes was at work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.model import JOB_LOG_FORMAT, Run
from tools.run.recorded.counters import CounterRecords

# The parts of a pasted text: lines keep their numbers in both.
PASTED_LOG, PASTED_TABLES = "pasted.log", "pasted-device-table.log"
PASTED_OF = {PASTED_TABLES: PASTED_LOG}
PLAIN_TABLE = "nvidia-smi"  # the tool of its table, which shows one moment; that of its queries has another name


def first_step_line(run: Run, name: str) -> int | None:
    """The line of the first step in an output of that name; None where it holds no steps, or several have the name."""
    log = run.job_log
    places = [] if log is None else [place for place, own in enumerate(log.files) if _last(own) == name]
    if log is None or len(places) != 1:
        return None
    lines = log.steps.loc[(log.steps["file"] == places[0]).to_numpy(), "line"]
    return None if lines.empty else int(lines.min())


def sampled_before_steps(run: Run) -> frozenset[int]:
    """The files of samples, by place, whose readings are in a job's output and all before its first step line."""
    if run.counters is None:
        return frozenset()
    found = set()
    for file, source in enumerate(run.counters.sources):
        name = _last(source.path)
        first = first_step_line(run, PASTED_LOG if name == PASTED_TABLES else name)
        lines = run.counters.samples.loc[(run.counters.samples["file"] == file).to_numpy(), "line"]
        if first is not None and len(lines) and int(lines.max()) < first:
            found.add(file)
    return frozenset(found)


def idle_tables(run: Run) -> Mapping[int, tuple[int, ...]]:
    """The first line of each table of nvidia-smi, by the file of samples, of files that are a job's output: where no
    table shows a kernel or a process, they say nothing of the training, wherever they stand."""
    found: dict[int, tuple[int, ...]] = {}
    for file, own in _printed_tables(run):
        if not _idle(own).all():
            continue
        found[file] = tuple(int(line) for line in own.groupby("tick")["line"].min())
    return found


def without_idle_tables(run: Run) -> CounterRecords | None:
    """The samples without the idle tables that a job prints into its output next to tables of its own work."""
    if run.counters is None:
        return None
    samples = run.counters.samples
    kept = np.ones(len(samples), dtype=bool)
    for _, own in _printed_tables(run):
        idle = _idle(own)
        if not idle.all():
            kept[samples.index.get_indexer(own.index[idle])] = False
    return run.counters if kept.all() else replace(run.counters, samples=samples[kept].reset_index(drop=True))


def _printed_tables(run: Run) -> Iterator[tuple[int, pd.DataFrame]]:
    """The samples of tables of nvidia-smi inside of a job's output, by the file of samples."""
    printed = {each.path.name for each in run.sources if each.format == JOB_LOG_FORMAT}
    for file, source in enumerate(() if run.counters is None else run.counters.sources):
        name = _last(source.path)
        if run.counters is None or source.tool != PLAIN_TABLE or not {name, PASTED_OF.get(name, name)} & printed:
            continue
        own = run.counters.samples[(run.counters.samples["file"] == file).to_numpy(dtype=bool)]
        if len(own):
            yield file, own


def _idle(own: pd.DataFrame) -> NDArray[np.bool_]:
    """The samples of tables in which no kernel runs on any device and no process is listed."""
    counter = own["counter"].astype(str)
    works = (counter == "device_process_memory_bytes") | ((counter == "device_busy_pct") & (own["value"] > 0.0))
    busy_known = own["tick"].isin(own.loc[(counter == "device_busy_pct").to_numpy(dtype=bool), "tick"])
    at_work = own["tick"].isin(own.loc[works.to_numpy(dtype=bool), "tick"])
    return np.asarray(busy_known & ~at_work, dtype=bool)


def _last(path: str) -> str:
    return path.rpartition("/")[2]

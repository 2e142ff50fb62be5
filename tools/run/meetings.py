"""Where ranks met: the collectives of each rank, named so that the same one is found on other ranks."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import EventKind, name_mask
from tools.run.model import Rank, step_frame

# RCCL and NCCL name kernels "ncclKernel_AllReduce_RING_LL_Sum_float(...)", "ncclDevKernel_AllGather_...",
# old ROCm "ncclKernel_Generic". The algorithm may differ between ranks, so only the operation is kept.
KERNEL_NAME = re.compile(r"(?:nccl|rccl)\w*?Kernel_(AllReduce|AllGather|ReduceScatter|Broadcast|Reduce)(?![a-zA-Z])")
HOST_NAME = re.compile(r"gloo:(\w+)")
TOGETHER = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.I)
NO_STEP = -1


def meetings(rank: Rank) -> pd.DataFrame:
    """One row per collective that ends on all its ranks together: ``key`` (group, operation, size), ``step``,
    ``position`` among those of the same key within the step, ``end_ns``.

    Broadcasts and reductions to one rank are left out: their members may leave at different times.
    """
    found = _described(rank)
    if found.empty:
        found = _by_kernel_name(rank)
    if found.empty:
        found = _on_host(rank)
    found = found.sort_values("order_ns", kind="stable")
    found["step"] = _step_of(rank, found["order_ns"].to_numpy())
    found["position"] = found.groupby(["key", "step"]).cumcount()
    return found[["key", "step", "position", "end_ns"]].reset_index(drop=True)


def _described(rank: Rank) -> pd.DataFrame:
    """Device kernels with the collective's description beside them."""
    details, frame = rank.events.details.collectives, rank.events.frame
    if details.empty:
        return _located(rank, np.empty(0, dtype=np.int64), np.empty(0, dtype=object))
    rows = details["row"].to_numpy()
    of_kernel = frame["kind"].to_numpy()[rows] == EventKind.KERNEL
    together = name_mask(details["collective"], _matching(details["collective"], TOGETHER))
    shared = details[of_kernel & together & (details["group_size"] > 1).to_numpy()]
    parts = [
        shared[name].astype("str") for name in ("group", "ranks", "collective", "dtype", "in_elements", "out_elements")
    ]
    key = parts[0].str.cat(parts[1:], sep="|")
    return _located(rank, shared["row"].to_numpy(), key.to_numpy())


def _by_kernel_name(rank: Rank) -> pd.DataFrame:
    kernels = rank.events.of_kind(EventKind.KERNEL)
    return _named(rank, kernels, KERNEL_NAME)


def _on_host(rank: Rank) -> pd.DataFrame:
    spans = rank.events.of_kind(EventKind.ANNOTATION, EventKind.OPERATOR)
    return _named(rank, spans, HOST_NAME)


def _named(rank: Rank, events: pd.DataFrame, pattern: re.Pattern[str]) -> pd.DataFrame:
    names = events["name"].cat.categories
    matches = [pattern.search(name) for name in names]
    operation = [match[1].lower() if match and TOGETHER.search(match[1]) else "" for match in matches]
    wanted = events[name_mask(events["name"], np.array([bool(text) for text in operation], dtype=bool))]
    keys = np.array(operation, dtype=object)[wanted["name"].cat.codes.to_numpy()]
    return _located(rank, wanted.index.to_numpy(), keys)


def _matching(column: pd.Series, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.search(str(text)) is not None for text in column.cat.categories], dtype=bool)


def _located(rank: Rank, rows: NDArray[np.int64], keys: NDArray[np.object_]) -> pd.DataFrame:
    """When each event ended, and when its host call began, which orders collectives as the program did."""
    frame = rank.events.frame
    start, end = frame["start_ns"].to_numpy()[rows], frame["end_ns"].to_numpy()[rows]
    correlation = frame["correlation"].to_numpy()
    runtime = (frame["kind"].to_numpy() == EventKind.RUNTIME) & (correlation >= 0)
    calls, first = np.unique(correlation[runtime], return_index=True)
    order = start.copy()
    if len(calls):
        at = np.minimum(np.searchsorted(calls, correlation[rows]), len(calls) - 1)
        order = np.where(calls[at] == correlation[rows], frame["start_ns"].to_numpy()[runtime][first][at], start)
    return pd.DataFrame({"key": pd.Series(keys, dtype="str"), "end_ns": end, "order_ns": order})


def _step_of(rank: Rank, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the profiler's step that each moment lies in; ``NO_STEP`` where steps are not numbered alike."""
    if rank.step_origin != "profiler_step":
        return np.full(len(moments), NO_STEP, dtype=np.int64)
    steps = step_frame(rank)
    at = np.searchsorted(steps["start_ns"].to_numpy(), moments, side="right") - 1
    return np.where(at >= 0, steps["number"].to_numpy()[np.maximum(at, 0)], NO_STEP)

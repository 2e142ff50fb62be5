"""Arithmetic on sets of half-open time intervals ``[start, end)``.

An interval set is an int64 array of shape (n, 2), sorted, disjoint and without empty members; every function
returns one. Functions that take raw intervals accept any order, overlap and emptiness.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

IntervalSet: TypeAlias = NDArray[np.int64]

EMPTY: IntervalSet = np.empty((0, 2), dtype=np.int64)


def union(start: NDArray[np.int64], end: NDArray[np.int64]) -> IntervalSet:
    """The moments covered by at least one of the raw intervals."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.empty(len(start), dtype=bool)
    first[0] = True
    np.greater(start[1:], reach[:-1], out=first[1:])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)
    return np.column_stack((start[first], reach[last]))


def merge(*sets: IntervalSet) -> IntervalSet:
    """The moments covered by at least one of the sets."""
    both = np.concatenate(sets) if sets else EMPTY
    return union(both[:, 0], both[:, 1])


def intersect(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The moments covered by both sets."""
    if not len(a) or not len(b):
        return EMPTY
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    stop = np.searchsorted(b[:, 0], a[:, 1], side="left")
    count = np.maximum(stop - first, 0)
    left = np.repeat(np.arange(len(a)), count)
    right = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    start = np.maximum(a[left, 0], b[right, 0])
    end = np.minimum(a[left, 1], b[right, 1])
    keep = end > start
    return np.column_stack((start[keep], end[keep]))


def complement(a: IntervalSet, start: int, end: int) -> IntervalSet:
    """The moments of ``[start, end)`` that the set does not cover."""
    inside = clip(a, start, end)
    edges = np.concatenate((np.array([start]), inside.ravel(), np.array([end]))).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]].astype(np.int64)


def subtract(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The moments covered by the first set and not by the second."""
    if not len(a) or not len(b):
        return a
    return intersect(a, complement(b, int(a[0, 0]), int(a[-1, 1])))


def clip(a: IntervalSet, start: int, end: int) -> IntervalSet:
    """The part of the set inside ``[start, end)``."""
    cut = np.clip(a, start, end)
    return cut[cut[:, 1] > cut[:, 0]]


def length(a: IntervalSet) -> int:
    """The covered time, in the unit of the set."""
    return int((a[:, 1] - a[:, 0]).sum())


def covered(a: IntervalSet, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each raw interval, how much of it the set covers (shape (n,))."""
    if not len(a):
        return np.zeros(len(start), dtype=np.int64)
    lengths = a[:, 1] - a[:, 0]
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths)))

    def up_to(moment: NDArray[np.int64]) -> NDArray[np.int64]:
        index = np.searchsorted(a[:, 0], moment, side="right") - 1
        inside = np.clip(moment - a[np.maximum(index, 0), 0], 0, lengths[np.maximum(index, 0)])
        return np.where(index < 0, 0, before[np.maximum(index, 0)] + inside)

    return up_to(np.maximum(end, start)) - up_to(start)


def distinct(moments_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different moments, ascending. ``np.unique`` hashes integers, which takes many times as long for millions."""
    ordered = np.sort(moments_ns)
    return ordered[np.append(True, ordered[1:] > ordered[:-1])] if len(ordered) else ordered

"""Where in the program a host event happened: the operator and the Python line around it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.profilers.rank_profile import RankProfile
from tools.run.events import EventKind
from tools.run.links import depths, enclosing


def outermost_operators(rank: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the outermost framework operator around it on the same thread, else -1."""
    holding = _holding(rank, rows, np.flatnonzero(rank.kind == EventKind.OPERATOR))
    tops = [mine[depths(rank.start[mine], rank.end[mine]) == 0] for mine in _by_track(rank, holding)]
    return enclosing(rank.events, rows, np.sort(np.concatenate(tops)) if tops else holding)


def surrounding_annotations(rank: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the innermost annotation around it that is not a step mark, else -1."""
    marked = (rank.kind == EventKind.ANNOTATION) & ~rank.named("profiler_step")
    return enclosing(rank.events, rows, _holding(rank, rows, np.flatnonzero(marked)))


def python_frames(rank: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the innermost Python frame around it that is not a library's own, else -1."""
    own = (rank.kind == EventKind.PYTHON) & ~rank.named("library_frame")
    return enclosing(rank.events, rows, _holding(rank, rows, np.flatnonzero(own)))


def commonest(rank: RankProfile, rows: NDArray[np.int64], weights: NDArray[np.int64]) -> str:
    """The name with the largest summed weight among the rows (-1 is none); "" when there is none."""
    known = rows >= 0
    if not known.any():
        return ""
    codes = rank.events.frame["name"].cat.codes.to_numpy()[rows[known]]
    return str(rank.events.frame["name"].cat.categories[int(np.bincount(codes, weights=weights[known]).argmax())])


def _holding(rank: RankProfile, rows: NDArray[np.int64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """The candidates during which at least one of the rows starts: a few, where all would be many to search."""
    moments = np.sort(rank.start[rows])
    first = np.searchsorted(moments, rank.start[candidates], side="left")
    return candidates[np.searchsorted(moments, rank.end[candidates], side="left") > first]


def _by_track(rank: RankProfile, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [rows[rank.track[rows] == track] for track in np.unique(rank.track[rows])]

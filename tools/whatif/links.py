"""Edges under construction: their ends are positions in the tables of one rank, not yet nodes of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.whatif.graph import EdgeKind
from tools.whatif.operations import Rows


@dataclass(frozen=True, eq=False)
class Links:
    """Arrays of shape (m,); a source of -1 is the origin. ``lag_ns`` is the least delay from source to target."""

    source: Rows
    target: Rows
    lag_ns: Rows
    kind: NDArray[np.int8]


def link(source: Rows, target: Rows, kind: EdgeKind, lag_ns: Rows | None = None) -> Links:
    """Edges of one kind, by default without delay."""
    lag = np.zeros(len(source), dtype=np.int64) if lag_ns is None else lag_ns
    return Links(source, target, lag, np.full(len(source), int(kind), dtype=np.int8))


def joined(*links: Links) -> Links:
    """All of them after each other."""
    return Links(*(np.concatenate([getattr(part, name) for part in links]) for name in Links.__dataclass_fields__))

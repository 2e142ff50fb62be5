"""Device work in the timelines of MindSpore's profiler, bare lists of events without any category.

A thread is a stream of the NPU there, and its operators carry the number of their node: ``MatMul-op31``.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import EventKind
from tools.sources.kineto.columns import Columns

NODE = re.compile(r"\w+-op\d+\Z")
STREAM = re.compile(r"\d{1,9}\Z")
LEAST_SHARE = 0.5  # of a thread's events: its others are parts of operators and calls of the same stream


def take_nodes(columns: Columns, kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """The kinds, with the events of streams on which mostly numbered nodes run as kernels; notes the streams.

    Only where nothing has a known category: then the names are another program's.
    """
    if not len(kind) or (kind != EventKind.OTHER).any():
        return kind
    node = np.array([NODE.match(name) is not None for name in columns.names], dtype=bool)[columns.joined("name")]
    track = columns.joined("track")
    nodes, events = (np.bincount(track, weights, len(columns.tracks)) for weights in (node, np.ones(len(track))))
    found = kind.copy()
    for code, (_, tid) in enumerate(columns.tracks):
        if nodes[code] and nodes[code] >= LEAST_SHARE * events[code] and STREAM.match(str(tid)):
            found[track == code] = EventKind.KERNEL
            columns.devices[code] = (0, int(tid))
    return found

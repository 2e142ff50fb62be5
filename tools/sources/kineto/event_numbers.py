"""Events that are missing although what is left is sound JSON: PyTorch's profiler numbers its own without a gap.

``Ev Idx`` counts operators, annotations, Python frames and allocations of a trace from 0 in the order they are written
(``torch/csrc/autograd/profiler_kineto.cpp``). Device work, calls of the runtime and old traces have no such number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# A lost piece of a file holds many events in a row and few pieces are lost at a time. Somebody who filters a trace
# leaves gaps all over it, or most of it out; a single event is left out where its times or its text are no good.
LEAST_LOST = 8  # events of a gap
MOST_GAPS = 8
MOST_LOST_SHARE = 0.5

Runs = NDArray[np.int64]  # n x 2: first and last number of events that follow each other without a gap


def runs_of(numbers: NDArray[np.int64]) -> Runs:
    """The runs in the numbers of a slice's events, negative ones aside."""
    counted = numbers[numbers >= 0]
    if not len(counted):
        return np.empty((0, 2), dtype=np.int64)
    ends = np.flatnonzero(np.diff(counted) != 1)
    firsts, lasts = np.append(0, ends + 1), np.append(ends, len(counted) - 1)
    return np.stack([counted[firsts], counted[lasts]], axis=1)


def lost_events(slices: Sequence[Runs]) -> int:
    """The number of events in the gaps that a lost piece of the file leaves; 0 where there is no such gap.

    Numbers that are there twice are those of several recordings in one file, of which nothing follows; neither from a
    first number above 0, which a trace has that somebody trimmed to some of its steps.
    """
    runs = np.concatenate([np.empty((0, 2), dtype=np.int64), *slices])
    if not len(runs):
        return 0
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    missing = runs[1:, 0] - runs[:-1, 1] - 1
    if (missing < 0).any() or (missing > 0).sum() > MOST_GAPS:
        return 0
    lost = int(missing[missing >= LEAST_LOST].sum())
    return lost if lost <= MOST_LOST_SHARE * (int(runs[-1, 1]) + 1) else 0

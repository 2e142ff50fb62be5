"""Sets of moments."""

from __future__ import annotations

import numpy as np

from tools.intervals import distinct


def test_the_different_moments_are_ascending() -> None:
    assert distinct(np.array([5, 1, 5, 3, 1], dtype=np.int64)).tolist() == [1, 3, 5]
    assert distinct(np.empty(0, dtype=np.int64)).tolist() == []

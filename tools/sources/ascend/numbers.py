"""Values of tables as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def whole_numbers(values: Sequence[object], absent: int = -1) -> NDArray[np.int64]:
    """Values as int64, ``absent`` for what is no whole number; times are written as texts by some tools."""
    try:
        array = np.array(values)
        if array.dtype.kind == "i":
            return array.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array([_whole(value, absent) for value in values], dtype=np.int64)


def _whole(value: object, absent: int) -> int:
    if not isinstance(value, int | float | str):
        return absent
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return absent
    return number if abs(number) < 2**62 else absent

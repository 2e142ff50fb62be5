"""Lists of recorded values into arrays and small integer codes; what does not fit is replaced by "absent"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = TypeVar("Key")
INT64_MAX = 2**63 - 1


class Codes(dict[Key, int]):
    """Numbers keys in the order of their first appearance."""

    def __missing__(self, key: Key) -> int:
        code = self[key] = len(self)
        return code


def integers(values: Sequence[Any], absent: int = -1) -> NDArray[np.int64]:
    """The values as int64; ``absent`` where a value is none."""
    try:
        array = np.array(values, dtype=np.int64)
    except (ValueError, TypeError, OverflowError):
        array = None
    if array is not None and array.ndim == 1:
        return array
    return np.array([_integer(value, absent) for value in values], dtype=np.int64)


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """The values as float64, NaN where a value is missing or no number."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        array = None
    if array is not None and array.ndim == 1:
        return array
    return np.array([_float(value) for value in values], dtype=np.float64)


def texts(values: Sequence[Any]) -> list[str]:
    """The values as text, the empty text for those that are none."""
    return [value if isinstance(value, str) else "" if value is None else str(value) for value in values]


def _integer(value: object, absent: int) -> int:
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
    except (ValueError, TypeError, OverflowError):
        return absent
    return number if abs(number) <= INT64_MAX else absent


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return float("nan")

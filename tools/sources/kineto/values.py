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
    array = _converted(values, np.int64)
    return np.array([_integer(value, absent) for value in values], dtype=np.int64) if array is None else array


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """The values as float64, NaN where a value is missing or no number."""
    array = _converted(values, np.float64)
    return np.array([_float(value) for value in values], dtype=np.float64) if array is None else array


def _converted(values: Sequence[Any], dtype: type[np.generic]) -> NDArray[Any] | None:
    """All values at once; None where one of them does not fit."""
    try:
        array = np.array(values, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.ndim == 1 else None


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

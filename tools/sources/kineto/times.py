"""Start and length of trace events in whole nanoseconds, exact to the last digit that the trace holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

LARGEST_DIGITS = 18  # a number of more digits is beyond int64, and may be too large to be compared at all
LARGEST_US = 2**62 // 1000  # leaves room for an offset in int64 nanoseconds
UNUSABLE = -(2**63)

Moments = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Times:
    """Arrays of shape (n,), parallel to the events; ``usable`` where both times are."""

    start_ns: Moments
    length_ns: Moments
    usable: NDArray[np.bool_]

    def taken(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Times:
        """The times of these events."""
        return Times(self.start_ns[which], self.length_ns[which], self.usable[which])


def float_times(ts: NDArray[Any], dur: NDArray[Any]) -> Times:
    """Return the times of microseconds, as numbers of any kind, by way of float64."""
    start_us, length_us = ts.astype(np.float64), dur.astype(np.float64)
    usable = (np.abs(start_us) <= LARGEST_US) & (length_us >= 0) & (length_us <= LARGEST_US)
    return Times(_float_ns(np.where(usable, start_us, 0.0)), _float_ns(np.where(usable, length_us, 0.0)), usable)


def _float_ns(us: NDArray[np.float64]) -> Moments:
    """Round to ns; whole and fractional part apart, because their product with 1000 would not fit a float64."""
    whole = np.floor(us)
    return whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)


def decimal_times(ts: Sequence[Decimal], dur: Sequence[Decimal]) -> Times:
    """Return the times of microseconds as decimal numbers, one by one."""
    start = np.array([_decimal_ns(each) for each in ts], dtype=np.int64)
    length = np.array([_decimal_ns(each) for each in dur], dtype=np.int64)
    return _checked(start, length)


def _decimal_ns(us: Decimal) -> int:
    if not us.is_finite() or us.adjusted() > LARGEST_DIGITS or abs(us) > LARGEST_US:
        return UNUSABLE
    return int((us * 1000).to_integral_value())


def _checked(start_ns: Moments, length_ns: Moments) -> Times:
    return Times(start_ns, length_ns, (start_ns != UNUSABLE) & (length_ns >= 0))


DOT, ZERO = ord("."), ord("0")
NS_DIGITS = 3  # a microsecond has so many decimal digits of whole nanoseconds
MOST_WHOLE_DIGITS = 16  # with those of the nanoseconds they fit a uint64
POWERS = 10 ** np.arange(MOST_WHOLE_DIGITS + NS_DIGITS, dtype=np.uint64)


def plain_times(ts: Sequence[msgspec.Raw], dur: Sequence[msgspec.Raw]) -> Times | None:
    """Return the times of microseconds as text, all at once; None where one is not plain digits to the nanosecond.

    The empty text stands for a start that is absent, and for a length of zero.
    """
    start, length = _plain_ns(ts), _plain_ns(dur)
    if start is None or length is None:
        return None
    present = np.fromiter((len(text) > 0 for text in ts), dtype=bool, count=len(ts))
    return _checked(np.where(present, start, UNUSABLE), length)


def _plain_ns(texts: Sequence[msgspec.Raw]) -> Moments | None:
    """The numbers ``[0-9]{0,16}(.[0-9]{1,3})?`` times 1000, 0 for the empty text; None where one is another."""
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    size = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    end = np.cumsum(size)
    dots = np.flatnonzero(data == DOT)
    owner = np.searchsorted(end, dots, side="right")
    fraction = np.zeros(len(texts), dtype=np.int64)
    fraction[owner] = end[owner] - 1 - dots
    size[owner] -= 1
    digit = data[data != DOT] - np.uint8(ZERO)  # what is no digit wraps round to a larger number
    plain = (np.diff(owner) > 0).all() and (digit <= 9).all() and (fraction[owner] > 0).all()
    if not plain or fraction.max(initial=0) > NS_DIGITS or (size - fraction).max(initial=0) > MOST_WHOLE_DIGITS:
        return None
    result = np.zeros(len(texts), dtype=np.uint64)
    if len(digit):
        end = np.cumsum(size)
        power = np.repeat(end + NS_DIGITS - fraction, size) - 1 - np.arange(len(digit))
        written = size > 0
        result[written] = np.add.reduceat(digit * POWERS[power], (end - size)[written])
    return np.where(result <= np.uint64(LARGEST_US * 1000), result, np.uint64(2**63)).astype(np.int64)

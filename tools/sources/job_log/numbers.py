"""Numbers as logs print them: thousands separators, decimal commas, exponents, units of time."""

from __future__ import annotations

import math
import re

# Bounded, and never begun within a number: lines are anybody's, and searching must take time linear in their length.
NUMBER = r"(?<![\d.,])[-+]?(?:\d[\d,]{0,23}(?:\.\d{0,23})?|\.\d{1,23})(?:[eE][-+]?\d{1,3})?"
THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?(?:[eE][-+]?\d+)?\Z")
TO_MS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1e3),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("us", "µs", "usec"), 1e-3),
    **dict.fromkeys(("min", "mins", "minutes"), 6e4),
}
UNIT = r"(?:msecs?|milliseconds?|ms|usec|us|µs|minutes|mins?|seconds?|secs?|s)"
LARGEST = 1e15  # no count, rate or time of a step in a log is larger


def number(text: str) -> float | None:
    """The number; None where it is none, not finite, or larger than any figure of a log.

    ``1,234`` and ``111,770`` are thousands, ``0,060`` and ``12,75`` have a decimal comma, ``1,234.5`` both marks.
    """
    plain = text.strip().strip("'\"")
    if "," in plain:
        if THOUSANDS.match(plain):
            plain = plain.replace(",", "")
        elif plain.count(",") == 1 and "." not in plain:
            plain = plain.replace(",", ".")
        else:
            return None
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < LARGEST else None


def whole(text: str) -> int | None:
    """A number of steps; None where it is negative or no whole number."""
    value = number(text)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def in_ms(text: str, unit: str) -> float | None:
    """A time above zero in ms."""
    value = number(text)
    factor = TO_MS.get(unit.lower())
    return value * factor if value is not None and factor is not None and value > 0 else None


def clock_s(text: str) -> float | None:
    """Seconds of ``MM:SS``, ``H:MM:SS`` or ``D days, H:MM:SS`` as progress bars print them."""
    parts = re.findall(r"\d+", text)
    if not 2 <= len(parts) <= 4 or any(len(part) > 6 for part in parts):
        return None
    factors = (86_400, 3_600, 60, 1)[-len(parts) :]
    return float(sum(int(part) * factor for part, factor in zip(parts, factors, strict=True)))

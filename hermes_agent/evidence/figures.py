"""Figures with their units: one form for all frontends, so that a citation can be compared with its figure."""

from __future__ import annotations

import math

CONTINUOUS = ("ns", "us", "ms", "s", "KiB", "MiB", "GiB")
MAGNITUDES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def written(value: float, unit: str) -> str:
    """A figure with its unit, rounded to what a reader can use.

    ms, us, s, % and x keep three significant digits and at most two decimals; bytes and rates take a decimal prefix;
    counts and any other unit are whole or keep one decimal.
    """
    match unit:
        case "B" | "B/s" | "FLOP" | "FLOP/s":
            for size, prefix in MAGNITUDES:
                if abs(value) >= size:
                    return f"{_rounded(value / size)} {prefix}{unit}"
            return f"{_rounded(value)} {unit}"
        case "%":
            return f"{_rounded(value)} %"
        case "x":
            return f"{value:.2f}x"
        case "" | "count":
            return _count(value)
        case _ if unit in CONTINUOUS or "/" in unit:
            return f"{_rounded(value)} {unit}"
        case _:
            return f"{_count(value)} {unit.removesuffix('s') if _count(value) == '1' else unit}"


def _count(value: float) -> str:
    return str(round(value)) if abs(value - round(value)) < 1e-9 or abs(value) >= 100 else f"{value:.1f}"


def _rounded(value: float) -> str:
    if value == 0:
        return "0"
    decimals = min(max(2 - math.floor(math.log10(abs(value))), 0), 3 if abs(value) < 0.1 else 2)
    return f"{value:.{decimals}f}"

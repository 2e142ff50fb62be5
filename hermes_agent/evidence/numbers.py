"""Figures found in text: value, decimals shown and unit, so that they can be held against evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass

CITATION = re.compile(r"\[((?:[EAC]\d+)(?:\s*[,;]\s*[EAC]\d+)*)\]")
UNITS = (
    r"(?:TFLOP/s|GFLOP/s|MFLOP/s|FLOP/s|TB/s|GB/s|MB/s|B/s|ns|us|µs|μs|ms|min|s|%|percent|x|×|times|"
    r"FLOP|TiB|GiB|MiB|KiB|TB|GB|MB|kB|KB|B)"
)
NUMBER = re.compile(
    rf"(?<![\w.])(?P<value>[-+−]?\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|[-+−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    rf"(?:\s?(?P<unit>{UNITS})(?![\w/]))?(?![\w])"
)
SPELLED = re.compile(
    r"\b(half|double|doubles|twice|thrice|triple|one|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|forty|"
    r"fifty|sixty|seventy|eighty|ninety|hundred|thousand)\b[\s-]+(percent|per cent|milliseconds?|microseconds?|"
    r"seconds?|times|fold)\b",
    re.IGNORECASE,
)

# Factor to the base unit of each kind.
KINDS: dict[str, tuple[str, float]] = {
    "ns": ("time", 1e-9),
    "us": ("time", 1e-6),
    "µs": ("time", 1e-6),
    "μs": ("time", 1e-6),
    "ms": ("time", 1e-3),
    "s": ("time", 1.0),
    "min": ("time", 60.0),
    "%": ("share", 1.0),
    "percent": ("share", 1.0),
    "x": ("ratio", 1.0),
    "×": ("ratio", 1.0),
    "times": ("ratio", 1.0),
    "B": ("bytes", 1.0),
    "kB": ("bytes", 1e3),
    "KB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "TB": ("bytes", 1e12),
    "KiB": ("bytes", 2.0**10),
    "MiB": ("bytes", 2.0**20),
    "GiB": ("bytes", 2.0**30),
    "TiB": ("bytes", 2.0**40),
    "B/s": ("bandwidth", 1.0),
    "MB/s": ("bandwidth", 1e6),
    "GB/s": ("bandwidth", 1e9),
    "TB/s": ("bandwidth", 1e12),
    "FLOP/s": ("rate", 1.0),
    "MFLOP/s": ("rate", 1e6),
    "GFLOP/s": ("rate", 1e9),
    "TFLOP/s": ("rate", 1e12),
    "FLOP": ("work", 1.0),
}


def without_citations(text: str) -> str:
    """The text as it reads where ids mean nothing."""
    return re.sub(rf"\s*{CITATION.pattern}", "", text)


@dataclass(frozen=True)
class Figure:
    """One number as written."""

    text: str
    value: float
    decimals: int
    unit: str  # "" when none was written
    start: int


def figures(text: str) -> list[Figure]:
    """All numbers of the text with their units, in order."""
    return [_figure(match) for match in NUMBER.finditer(text)]


def _figure(match: re.Match[str]) -> Figure:
    digits = match["value"].replace(",", "").replace("−", "-")
    mantissa = digits.lower().split("e")[0]
    decimals = len(mantissa.partition(".")[2])
    return Figure(match.group(0), float(digits), decimals, match["unit"] or "", match.start())


def agrees(figure: Figure, value: float, unit: str) -> bool:
    """Whether the figure is the value, in any unit of the same kind, after rounding to the decimals shown.

    A figure without a unit agrees only with a value in the evidence's own unit.
    """
    if not figure.unit:
        return _rounds_to(figure, value)
    kind, factor = KINDS.get(figure.unit, ("", 1.0))
    known, size = KINDS.get(unit, ("", 1.0))
    if not kind or kind != known:
        return False
    return _rounds_to(figure, value * size / factor)


def _rounds_to(figure: Figure, value: float) -> bool:
    tolerance = 0.5 * 10.0**-figure.decimals
    return abs(figure.value - value) <= tolerance * (1 + 1e-9) + 1e-12 * abs(value)

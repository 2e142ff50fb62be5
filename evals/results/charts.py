"""Pictures of the report as SVG: stated confidence against being right, predicted against measured gains."""

from __future__ import annotations

from collections.abc import Sequence

from evals.results.calibration import Bin
from evals.suite.outcome import Gain

SIDE, EDGE = 260, 40
MOST_SPEEDUP = 4.0


def calibration_svg(curve: Sequence[Bin]) -> str:
    """Return stated confidence (x) against the share that was right (y); a dot's area is the number of cases."""
    return _frame("stated confidence", "was right", [_dot(b.confidence, b.accuracy, 3.0 + b.cases**0.5) for b in curve])


def gains_svg(gains: Sequence[Gain]) -> str:
    """Return measured speedup (x) against the predicted one with its interval (y), both from 1 to 4."""
    marks = []
    for gain in gains:
        x, low, high, predicted = (
            min(max((speedup - 1.0) / (MOST_SPEEDUP - 1.0), 0.0), 1.0)
            for speedup in (gain.measured, gain.low, gain.high, gain.predicted)
        )
        line = f'<line x1="{_x(x):.1f}" x2="{_x(x):.1f}" y1="{_y(low):.1f}" y2="{_y(high):.1f}" stroke="#88a"/>'
        marks += [line, _dot(x, predicted, 3.0)]
    return _frame("measured speedup, 1 to 4", "predicted", marks)


def _x(share: float) -> float:
    return EDGE + share * SIDE


def _y(share: float) -> float:
    return EDGE / 2 + (1.0 - share) * SIDE


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="{radius:.1f}" fill="#36c" fill-opacity="0.7"/>'


def _frame(across: str, upwards: str, marks: Sequence[str]) -> str:
    whole = SIDE + 2 * EDGE
    between = "\n".join(marks)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{whole}" font-family="sans-serif" font-size="12">
<rect x="{EDGE}" y="{EDGE / 2}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>
<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" stroke-dasharray="4 4"/>
{between}
<text x="{whole / 2}" y="{whole - 35}" text-anchor="middle">{across}</text>
<text x="16" y="{whole / 2}" transform="rotate(-90 16 {whole / 2})" text-anchor="middle">{upwards}</text>
</svg>
"""

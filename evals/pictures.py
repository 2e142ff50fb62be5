"""The calibration curve and predicted against measured gain as small SVG pictures."""

from __future__ import annotations

from collections.abc import Sequence

from evals.outcome import Gain
from evals.statistics import Bin

SIDE, EDGE = 260, 40
MOST_SPEEDUP = 4.0


def calibration_svg(curve: Sequence[Bin]) -> str:
    """Stated confidence to the right, share that was right upwards; a dot's area is the number of cases."""
    dots = [_dot(each.confidence, each.accuracy, 3.0 + each.cases**0.5) for each in curve]
    return _frame("stated confidence", "was right", dots)


def gains_svg(gains: Sequence[Gain]) -> str:
    """Measured speedup to the right, predicted upwards with its interval, both from 1 to 4."""
    marks = [mark for each in gains for mark in _interval(each)]
    return _frame("measured speedup, 1 to 4", "predicted", marks)


def _interval(gain: Gain) -> tuple[str, str]:
    x, low, high = (_scaled(value) for value in (gain.measured, gain.low, gain.high))
    line = f'<line x1="{_x(x):.1f}" x2="{_x(x):.1f}" y1="{_y(low):.1f}" y2="{_y(high):.1f}" stroke="#88a"/>'
    return line, _dot(x, _scaled(gain.predicted), 3.0)


def _scaled(speedup: float) -> float:
    return min(max((speedup - 1.0) / (MOST_SPEEDUP - 1.0), 0.0), 1.0)


def _x(share: float) -> float:
    return EDGE + share * SIDE


def _y(share: float) -> float:
    return EDGE / 2 + (1.0 - share) * SIDE


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="{radius:.1f}" fill="#36c" fill-opacity="0.7"/>'


def _frame(across: str, upwards: str, marks: Sequence[str]) -> str:
    whole = SIDE + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{whole}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect x="{EDGE}" y="{EDGE / 2}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>',
        f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" stroke-dasharray="4 4"/>',
        *marks,
        f'<text x="{whole / 2}" y="{whole - 35}" text-anchor="middle">{across}</text>',
        f'<text x="16" y="{whole / 2}" transform="rotate(-90 16 {whole / 2})" text-anchor="middle">{upwards}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"

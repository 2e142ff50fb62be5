"""Colours of the report by name, light and dark: readable on their background and apart for colour-blind readers.

``tests/hermes_agent/report/pictures/test_palette.py`` computes the contrast (WCAG 2.2, AA) and the distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.model.display import PART_TITLES

HEAT_LEVELS = 6


@dataclass(frozen=True)
class Tone:
    """A colour on a light and on a dark page."""

    light: str
    dark: str


TONES = {
    "page": Tone("#f4f6f8", "#14171b"),
    "card": Tone("#ffffff", "#1d2126"),
    "ink": Tone("#1b2027", "#e9edf1"),
    "muted": Tone("#515b67", "#aab4bf"),
    "line": Tone("#cdd4dc", "#3b434d"),
    "link": Tone("#0b5cad", "#7cbcf5"),
    "focus": Tone("#b34700", "#ffb86b"),
    "problem": Tone("#a5261d", "#ff9c8f"),
    "healthy": Tone("#1d6b36", "#7fd494"),
    "inconclusive": Tone("#7a5300", "#f0c55a"),
    "marked": Tone("#c2410c", "#ff9d5c"),
    # Parts of a step, in the order of ``PART_TITLES``.
    "compute": Tone("#1520d0", "#3b86ff"),
    "exposed_communication": Tone("#e65100", "#ff8f1f"),
    "exposed_memcpy": Tone("#b44bff", "#c79af2"),
    "data_wait": Tone("#784b00", "#fff04d"),
    "host": Tone("#009a7c", "#4be8cf"),
    "idle": Tone("#39424c", "#6f7985"),
    # Heatmap, short to long: ink is read on the first half, the card's colour on the second.
    "heat0": Tone("#eaf2fa", "#22303f"),
    "heat1": Tone("#c6dcf1", "#26466a"),
    "heat2": Tone("#96c0e4", "#2c5f92"),
    "heat3": Tone("#2f73b0", "#62a6de"),
    "heat4": Tone("#1a5690", "#98c6ee"),
    "heat5": Tone("#08376b", "#d6e9fa"),
}
PARTS = tuple(PART_TITLES)
Colour = Callable[[str], str]


def light(name: str) -> str:
    """The colour on white paper, for PNG and SVG files."""
    return TONES[name].light


def variable(name: str) -> str:
    """The colour as the page's style sheet gives it, for pictures inside the page."""
    return f"var(--{name})"


def style_variables() -> str:
    """The declarations of all colours; the page's ``color-scheme`` chooses between the two."""
    return "\n".join(f"  --{name}: light-dark({tone.light}, {tone.dark});" for name, tone in TONES.items())

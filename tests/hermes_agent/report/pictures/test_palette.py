"""The colours: text and marks stand out from what they lie on, and the parts of a step from each other."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from hermes_agent.report.pictures.palette import HEAT_LEVELS, PARTS, TONES, style_variables

Theme = Literal["light", "dark"]
TEXTS = ("ink", "muted", "link", "problem", "healthy", "inconclusive", "marked")
AA_TEXT, AA_GRAPHICS = 4.5, 3.0  # WCAG 2.2, 1.4.3 and 1.4.11
APART = 0.1  # of OKLab: about five just noticeable differences
# Linear RGB as people without one kind of cone see it (Machado, Oliveira and Fernandes 2009, severity 1).
VISIONS = {
    "usual": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# OKLab (Ottosson 2020).
TO_CONES = np.array(
    [[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.6299787]]
)
TO_LAB = np.array(
    [[0.21045426, 0.7936178, -0.00407205], [1.9779985, -2.4285922, 0.4505937], [0.02590404, 0.78277177, -0.80867577]]
)


def linear(name: str, theme: Theme) -> NDArray[np.float64]:
    text = getattr(TONES[name], theme)
    value = np.array([int(text[place : place + 2], 16) / 255.0 for place in (1, 3, 5)])
    return np.asarray(np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4))


def contrast(one: str, other: str, theme: Theme) -> float:
    """The ratio of relative luminances (WCAG 2.2)."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ linear(name, theme)) for name in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(name: str, theme: Theme, vision: str) -> NDArray[np.float64]:
    seen = np.clip(VISIONS[vision] @ linear(name, theme), 0.0, 1.0)
    return np.asarray(TO_LAB @ np.cbrt(TO_CONES @ seen))


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("card", "ink", "light") == pytest.approx(16.37, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["card", "page"])
def test_text_is_readable_and_marks_are_seen(theme: Theme, ground: str) -> None:
    weak = {name: ratio for name in TEXTS if (ratio := contrast(name, ground, theme)) < AA_TEXT}
    assert not weak
    faint = {name: ratio for name in (*PARTS, "focus") if (ratio := contrast(name, ground, theme)) < AA_GRAPHICS}
    assert not faint


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_in_the_heatmap_are_readable_and_its_levels_in_order(theme: Theme) -> None:
    for level in range(HEAT_LEVELS):
        assert contrast(f"heat{level}", "ink" if level < HEAT_LEVELS // 2 else "card", theme) >= AA_TEXT
    steps = [contrast(f"heat{level}", "card", theme) for level in range(HEAT_LEVELS)]
    assert steps == sorted(steps)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_the_parts_of_a_step_differ_for_everybody(theme: Theme, vision: str) -> None:
    distances = {
        (one, other): float(np.linalg.norm(lab(one, theme, vision) - lab(other, theme, vision)))
        for one, other in combinations(PARTS, 2)
    }
    assert min(distances.values()) >= APART, min(distances, key=lambda pair: distances[pair])


def test_the_style_sheet_has_every_colour_of_both_themes() -> None:
    for name, tone in TONES.items():
        assert f"--{name}: light-dark({tone.light}, {tone.dark});" in style_variables()

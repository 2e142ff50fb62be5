"""Prediction intervals in words."""

from __future__ import annotations

from hermes_agent.model.display import speedup_range


def test_an_upper_end_far_from_the_lower_one_is_left_out() -> None:
    assert speedup_range(1.25, 20.0) == "at least 1.25x"
    assert speedup_range(1.29, 5.03) == "1.29x to 5.03x"

"""When a step, a trend or a rank is worth a word."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WatchThresholds:
    """Shares are of the usual step time; windows in steps."""

    slow_share: float = 0.10  # Hermes (USENIX ATC'25) counts a step as fluctuating above 10 % over the usual one
    slow_spreads: float = 4.0  # and beyond noise: that many robust standard deviations
    least_spread_share: float = 0.01  # a very even run must not make a percent look like ten deviations
    history: int = 100  # steps that make the usual one
    least_history: int = 20
    window: int = 8  # a change is called when most of the last steps are slow, hence within a window of its begin
    window_slow: int = 6
    cusum_slack: float = 0.5  # of a standard deviation per step: half the smallest shift of interest (Page, 1954)
    cusum_limit: float = 18.0  # eight steps at the clip: a shorter run of slow steps is left to the window above
    cusum_clip: float = 3.0  # no single step may decide
    least_change_share: float = 0.05  # smaller shifts are not worth a capture
    drift_block: int = 50
    drift_blocks: int = 6
    drift_share: float = 0.05  # rise from the first to the last blocks
    drift_jump: float = 0.6  # a rise that is mostly one jump is a change, not a drift
    drift_z: float = 2.58  # Mann-Kendall, 99 %
    stall_count: int = 5  # spikes at one distance; four even gaps hardly come by chance
    stall_tolerance: float = 0.1  # of the distance, rounded down: below 10 steps it must be exact
    rank_share: float = 0.10  # of the step; a trace is judged at 5 %, what costs a capture only well above it
    rank_window: int = 20
    rank_constancy: float = 0.8  # share of steps in which the same rank was the slowest
    hang_times: float = 20.0  # usual steps without one ending
    hang_least_s: float = 30.0  # an evaluation or a checkpoint between two steps is no standstill
    suspect_share: float = 0.5  # of the excess that one rank must explain
    suspect_lead: float = 2.0  # times the excess of any other rank


DEFAULT = WatchThresholds()

"""What saving the training's state costs, as a trace shows it."""

from __future__ import annotations

import numpy as np

from tools.errors import UsageError
from tools.intervals import IntervalSet, length
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, interval_rows, of_rank, step_ms
from tools.profilers.profile import Profile
from tools.profilers.saves import Saves, lost, saves


def save_stall_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step, over all steps, in which the device computes nothing because a state is saved."""
    return _time(profile, rank, lost(_found(profile, rank)), "device idle behind large copies to the host, and in them")


def save_pause_ms(profile: Profile, rank: int) -> Measurement:
    """The part of it in which the host launches nothing after the copies."""
    return _time(profile, rank, _found(profile, rank).moments, "device idle behind large copies to the host")


def save_steps(profile: Profile, rank: int) -> Measurement:
    """In how many of the recorded steps a state is saved."""
    found, view = _found(profile, rank), profile.rank(rank)
    return of_rank(view, len(found.steps), lambda: event_rows(view, found.copies), "steps with large read-backs")


def saved_bytes(profile: Profile, rank: int) -> Measurement:
    """What such a step copies to the host in blocking copies, in bytes."""
    found, view = _found(profile, rank), profile.rank(rank)
    value = found.copied_bytes / len(found.steps)
    return of_rank(view, value, lambda: event_rows(view, found.copies), "blocking copies to the host in such a step")


def save_frames_pct(profile: Profile, rank: int) -> Measurement:
    """Share of those pauses inside Python frames that save."""
    found, view = _found(profile, rank), profile.rank(rank)
    value = 100.0 * length(found.frames) / max(length(found.moments), 1)
    return of_rank(view, value, lambda: interval_rows(found.frames), "frames that save, while the device is idle")


def _time(profile: Profile, rank: int, moments: IntervalSet, selector: str) -> Measurement:
    view = profile.rank(rank)
    return of_rank(view, float(np.mean(step_ms(view, moments))), lambda: interval_rows(moments), selector)


def _found(profile: Profile, rank: int) -> Saves:
    found = saves(profile, rank)
    if not found.steps:
        raise UsageError(f"the trace of rank {rank} shows no step that saves a state")
    return found


METRICS = (
    Metric("save_stall_ms", "ms", "How long does the device wait for the saving of a state?", save_stall_ms),
    Metric("save_pause_ms", "ms", "How long does the host pause after copying the state?", save_pause_ms),
    Metric("save_steps", "steps", "In how many steps is a state saved?", save_steps),
    Metric("saved_bytes", "B", "How much is copied to the host then?", saved_bytes),
    Metric("save_frames_pct", "%", "Do Python frames name the saving?", save_frames_pct),
)

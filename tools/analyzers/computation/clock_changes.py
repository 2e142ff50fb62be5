"""A device whose clock falls when the steps get longer, where the times of samples and steps can be held together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.analyzers.support.answers import confidence, say
from tools.analyzers.support.figures import measured
from tools.findings import Fact, Finding, Saving, Sentence
from tools.metrics.recorded.counters import OF_CLOCK
from tools.metrics.recorded.sampled_levels import NS_PER_S
from tools.metrics.registry import measure
from tools.run.source_clock import clock_of
from tools.views.counters import CounterView, counter_view, rank_of_device
from tools.views.profile import Profile
from tools.views.steps.sampled_levels import residual_of, steps_by_clock, timed_rows

REASONS = {
    "throttle_thermal": ("thermal", " for heat"),
    "throttle_power_brake": ("power_cap", " by the power supply"),
    "throttle_hardware": ("down_clock", " by the hardware"),
}
HOUR_NS = 3600e9
SAME_LIMIT = 0.98  # of the power limit at the shorter level: below it, it was lowered
EXPLAINING = 0.5  # of what steps take longer: a clock that accounts for less in proportion is no explanation
METHOD = "steps at the longer level, at which the clock is lowered"
FLAGGED, FALLEN = "throttle reasons set", "clock falls with the step time"
TEXT = (
    "Device {device} lowers its clock{reason} when the steps get longer: {0} instead of {1}, while a step takes {2}"
    " instead of {3}. Both change within {4} of each other by the times of {n0}{clock} (residual {5})."
)
AGAIN = (
    "Device {device} lowers its clock{reason} again and again, and steps are longer while it does: {0} instead of {1},"
    " while a step takes {2} instead of {3}, by the times of {n0}{clock}."
)
METHOD_AGAIN = "steps while the clock is lowered"
CLOCK = ("mhz", "device_clock_mhz")
LEVELS = ("longer", "shorter")
ALSO = (("c", "device_temperature_c"), ("w", "device_power_w"), ("w", "device_power_limit_w"))


def slowed_with_steps(profile: Profile, name: str) -> Finding | None:
    """The device's lowered clock as the cause of longer steps: at the one change of both, or while it is lowered."""
    return _at_a_change(profile, name) or _each_time(profile, name)


def _at_a_change(profile: Profile, name: str) -> Finding | None:
    """The device's lowered clock as the cause of the longer level of the steps; None where both do not change at once.

    The clock has to change within the distance of two readings, a few steps and the residual of the alignment, and in
    proportion it has to account for most of the change.
    """
    rows, view = timed_rows(profile), counter_view(profile)
    apart, residual = (measured(profile, each, device=name) for each in ("clock_change_apart_s", "samples_residual_ms"))
    clocks = _pair(profile, name, *CLOCK)
    if rows is None or view is None or apart is None or residual is None or clocks is None:
        return None
    device = view.devices[name]
    file = int(device.table["file"].iloc[0])
    slack_s = (rows.slack_ns + residual_of(profile, view, file)) / NS_PER_S + (device.interval_s or 0.0)
    before, after = (measure(profile, "series_level_ms", side=side) for side in ("before", "after"))
    longer, shorter = (after, before) if after.value > before.value else (before, after)
    in_proportion_ms = shorter.value * (clocks[1].value / clocks[0].value - 1.0)
    share = min(in_proportion_ms / (longer.value - shorter.value), 1.0)
    if apart.value > slack_s or clocks[0].value >= clocks[1].value or share < EXPLAINING:
        return None
    cost, limits = measure(profile, "series_level_cost_ms"), profile.thresholds
    mechanism, reason, signal = _why(profile, name)
    below_pct = 100.0 * (1.0 - clocks[0].value / clocks[1].value)
    most = limits["throttle_confidence" if signal == FLAGGED else "clock_confidence"]
    sure = confidence((below_pct, limits["clock_below_others_pct"]), at_most=most)
    few = int(device.loaded.sum()) < limits["few_loaded_readings"]
    rank = rank_of_device(profile, name)
    called = name if rank is None else f"{name} (rank {rank})"
    source, assumed = _alignment(profile, view.records.sources[file].path)
    text = TEXT.replace("{device}", called).replace("{reason}", reason).replace("{clock}", assumed)
    saved_ms = share * cost.value
    return Finding(
        cause="slow_device",
        mechanism=mechanism,
        claim=say(text, *clocks, longer, shorter, apart, residual, names=(source,)),
        ranks=(rank,) if rank is not None and rank in profile.rank_numbers else (),
        steps=rows.numbers(longer=True),
        confidence=min(sure, limits["few_readings_confidence"]) if few else sure,
        saving=Saving(profile.mean_step_ms, saved_ms, 0.5 * saved_ms, cost.value, METHOD, of_series=True),
        details=_changed(profile, name),
        against=(say("Kernels that wait for memory or for the host do not slow down with the clock."),),
        signals=(signal,),
        hints={"level": "longer"},
    )


def _each_time(profile: Profile, name: str) -> Finding | None:
    """The clock that is lowered again and again as the cause of the steps that are longer while it is.

    Steps have to be apart: three quarters of those with the lowered clock are longer than three quarters of the others.
    In proportion the clock has to account for most of it, and for a noticeable share.
    """
    view = counter_view(profile)
    parts = None if view is None else steps_by_clock(profile, view, name)
    taken, clocks = _by_clock(profile, name), _pair(profile, name, *CLOCK, sides=OF_CLOCK)
    if view is None or parts is None or taken is None or clocks is None:
        return None
    states = pd.concat([each.assign(low=low) for each, low in zip(parts, (True, False), strict=True)])
    state = states.sort_values("step")["low"].to_numpy(dtype=bool)
    times = int((np.diff(state.astype(np.int8), prepend=0) == 1).sum())
    low_ms, usual_ms = (each["wall_ms"].to_numpy(dtype=float) for each in parts)
    limits, extra_ms = profile.thresholds, taken[0].value - taken[1].value
    apart = min(len(low_ms), len(usual_ms)) >= FEWEST_STEPS and np.quantile(low_ms, 0.25) > np.quantile(usual_ms, 0.75)
    if times < 2 or not apart or 100.0 * extra_ms < limits["fluctuation_pct"] * taken[1].value:
        return None
    share = min(taken[1].value * (clocks[1].value / max(clocks[0].value, 1e-9) - 1.0) / extra_ms, 1.0)
    if share < EXPLAINING:
        return None
    mechanism, reason, signal = _why(profile, name, OF_CLOCK)
    below_pct = 100.0 * (1.0 - clocks[0].value / clocks[1].value)
    most = limits["throttle_confidence" if signal == FLAGGED else "clock_confidence"]
    rank, (source, assumed) = rank_of_device(profile, name), _alignment(profile, _file_of(view, name))
    called = name if rank is None else f"{name} (rank {rank})"
    text = AGAIN.replace("{device}", called).replace("{reason}", reason).replace("{clock}", assumed)
    cost_ms = extra_ms * len(low_ms) / (len(low_ms) + len(usual_ms))
    return Finding(
        cause="slow_device",
        mechanism=mechanism,
        claim=say(text, *clocks, *taken, names=(source,)),
        ranks=(rank,) if rank is not None and rank in profile.rank_numbers else (),
        steps=taken[0].steps,
        confidence=confidence((below_pct, limits["clock_below_others_pct"]), at_most=most),
        saving=Saving(
            profile.mean_step_ms, share * cost_ms, 0.5 * share * cost_ms, cost_ms, METHOD_AGAIN, of_series=True
        ),
        against=(say("Kernels that wait for memory or for the host do not slow down with the clock."),),
        signals=(signal,),
        hints={"level": "longer"},
    )


def _by_clock(profile: Profile, name: str) -> tuple[Fact, Fact] | None:
    """The step time while the clock is lowered and otherwise."""
    low, usual = (measured(profile, "step_by_clock_ms", device=name, during=each) for each in OF_CLOCK)
    return None if low is None or usual is None else (low, usual)


def _file_of(view: CounterView, name: str) -> str:
    return view.records.sources[int(view.devices[name].table["file"].iloc[0])].path


NO_EFFECT = 0.25  # of what a clock in proportion would cost: steps that take so little longer do not follow it
FEWEST_STEPS = 5  # while the clock is lowered and while it is not


def aligned(profile: Profile, name: str) -> bool:
    """Whether the samples of the device can be held against the steps by their times."""
    view = counter_view(profile)
    return view is not None and steps_by_clock(profile, view, name) is not None


def no_longer_steps(profile: Profile, name: str) -> Sentence | None:
    """The evidence against a lowered clock that steps do not follow: they take as long as otherwise by their times."""
    taken, clocks = _by_clock(profile, name), _pair(profile, name, *CLOCK, sides=OF_CLOCK)
    if taken is None or clocks is None:
        return None
    (low, usual), (slow, fast) = taken, clocks
    if min(len(low.steps), len(usual.steps)) < FEWEST_STEPS:
        return None
    in_proportion_ms = usual.value * (fast.value / max(slow.value, 1e-9) - 1.0)
    if low.value - usual.value >= NO_EFFECT * in_proportion_ms:
        return None
    return say(f"While the clock of device {name} is lowered a step takes {{0}}, and {{1}} otherwise.", low, usual)


def _pair(
    profile: Profile, name: str, unit: str, counter: str, sides: tuple[str, str] = LEVELS
) -> tuple[Fact, Fact] | None:
    """The counter of the device under load at the longer and at the shorter level of the steps, or of its clock."""
    longer, shorter = (
        measured(profile, f"device_counter_{unit}", counter=counter, device=name, loaded=1, during=during)
        for during in sides
    )
    return None if longer is None or shorter is None else (longer, shorter)


def _why(profile: Profile, name: str, sides: tuple[str, str] = LEVELS) -> tuple[str, str, str]:
    """Mechanism, words and signal: by the reason that the driver states at the first side, else by what changed."""
    limits = profile.thresholds
    shares = {
        flag: fact.value
        for flag in REASONS
        if (fact := measured(profile, "device_flag_pct", flag=flag, device=name, during=sides[0])) is not None
    }
    flag = max(shares, key=lambda each: shares[each], default="")
    if flag and shares[flag] >= limits["clock_lowered_pct"]:
        return (*REASONS[flag], FLAGGED)
    limit = _pair(profile, name, "w", "device_power_limit_w", sides)
    if limit is not None and limit[0].value < SAME_LIMIT * limit[1].value:
        return "power_cap", " with its power limit", FALLEN
    hot = _pair(profile, name, "c", "device_temperature_c", sides)
    if hot is not None and hot[0].value - hot[1].value >= limits["device_hotter_c"]:
        return "thermal", " as it gets hotter", FALLEN
    return "down_clock", "", FALLEN


def _changed(profile: Profile, name: str) -> tuple[Sentence, ...]:
    """Temperature, power and its limit at both levels, as far as they were sampled and differ."""
    pairs = [pair for each in ALSO if (pair := _pair(profile, name, *each)) is not None]
    pairs = [pair for pair in pairs if pair[0].value != pair[1].value]
    places = [f"{{{2 * at}}} instead of {{{2 * at + 1}}}" for at in range(len(pairs))]
    facts = [fact for pair in pairs for fact in pair]
    return (say(f"There device {name} also has {', '.join(places)}.", *facts),) if pairs else ()


def _alignment(profile: Profile, path: str) -> tuple[str, str]:
    """The file of samples, and what is assumed of its clock where a time zone is not named."""
    source = path.rpartition("/")[2]
    clock = clock_of(profile.run.clocks, source)
    if clock is None or "assumption" not in clock.why:
        return source, ""
    zone = f", set {clock.offset_ns / HOUR_NS:+g} hours" if clock.offset_ns else ""
    return source, f"{zone}, which are assumed to be of the clock of the steps"

"""Whether sampled devices lower their clocks under load, and what that costs."""

from __future__ import annotations

from dataclasses import replace

from tools.analyzers.computation.clock_changes import aligned, no_longer_steps, slowed_with_steps
from tools.analyzers.computation.device_samples import (
    SHOWN,
    busy_alike,
    device_called,
    sampled_devices,
    state_under_load,
    subject_of,
    the_same,
    to_sample,
    under_load,
    why_no_load,
)
from tools.analyzers.computation.rank_speed import slow_device
from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Saving, Sentence, followed
from tools.metrics.registry import measure
from tools.run.source_clocks import sampled_apart
from tools.views.counters import DeviceReadings, rank_of_device, used_by_job
from tools.views.device.clock_levels import lowered
from tools.views.device.kernels import device_of
from tools.views.profile import Profile
from tools.views.steps.sampled_levels import changes_level

CLOCKS_NEEDED = (
    "`nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,power.limit,temperature.gpu,clocks.sm,"
    "clocks.max.sm,clocks_event_reasons.active --format=csv -lms 500 -f gpus.csv` while the training runs"
)
NOT_OF_JOB = "no rank of the job uses the sampled devices that are under load, by NCCL's lines"
WHOSE_OPEN = "No file says which rank uses it."
AS_LONG = "steps take as long while its clock is lowered as they do otherwise"
OTHER_TIME = "by their times its clock and the steps do not change together"
NOT_ALIGNED = "nothing aligns its samples with the steps, so whether both change at once is not known"
SAID_OF = {
    OTHER_TIME: "By the times of its readings that is not when the steps get longer.",
    NOT_ALIGNED: "Whether that is when the steps get longer is not known: nothing aligns its readings with them.",
}
APART = "these samples were not taken while the printed steps ran"
NO_COST = "what it costs cannot be read from samples without step times"
POWER_VIOLATION = "throttle_power_pct"  # of the time, as nvidia-smi dmon prints it
POWER_UNKNOWN = "whether its power limit does was not sampled"
USUAL_AT_LIMIT, NO_LOAD_SHOWN = "that is usual at full load", ", and the samples do not show the load"
REASONS = {
    "throttle_thermal": ("thermal", "for heat"),
    "throttle_power_brake": ("power_cap", "by the power supply"),
    "throttle_hardware": ("down_clock", "by the hardware"),
}


@check(
    *("computation.clocks", "Clocks by samples", "Do devices lower their clocks under load?"),
    causes=("slow_device",),
    from_records="samples",
)
def clocks(profile: Profile) -> Check | None:
    """Throttle reasons of readings under load, and clocks against those of the other devices and the highest one."""
    devices = sampled_devices(profile)
    if not devices:
        return None
    known = [name for name, each in devices.items() if each.has("device_clock_mhz") or _flags(each)]
    if not known:
        reason = "the samples hold neither clocks nor reasons for lowering them"
        return cannot_answer(reason, to_sample(profile, CLOCKS_NEEDED))
    loaded = [name for name in known if name in under_load(devices)]
    busy = [name for name in loaded if used_by_job(profile, name)]
    if not busy:
        return cannot_answer(NOT_OF_JOB if loaded else why_no_load(devices), to_sample(profile, CLOCKS_NEEDED))
    slowed = {name: each for name in busy if (each := _slowed(profile, name, devices[name])) is not None}
    if slowed:
        return found(_with_others(profile, slowed))
    others = [name for name in loaded if name not in busy]
    aside = [say(f"By NCCL's lines no rank of the job uses device {', '.join(others[:SHOWN])}.")] if others else []
    notes = [*aside, *(each for name in busy for each in _at_limit(profile, name))]
    return symptom(*notes) if notes else clean(*_steady(profile, busy[0], devices[busy[0]]))


def _with_others(profile: Profile, slowed: dict[str, Finding]) -> Finding:
    """The surest finding, which names the other devices of which the same holds: a job waits for its slowest one."""
    first = max(slowed, key=lambda name: slowed[name].confidence)
    others = [device_called(profile, name) for name in slowed if name != first]
    if not others:
        return slowed[first]
    return replace(slowed[first], details=(*slowed[first].details, say(the_same(others).strip())))


def _readings(profile: Profile, name: str) -> str:
    """The readings that count, as words: those under load only where the samples show the load."""
    device = sampled_devices(profile)[name]
    under_load = " under load" if device.load_known else ""
    if int(device.loaded.sum()) == 1:
        return f"of the only reading{under_load}"
    return f"of the readings{under_load}"


def _flags(device: DeviceReadings) -> list[str]:
    return [flag for flag in (*REASONS, "throttle_power", POWER_VIOLATION) if device.has(flag)]


def _slowed(profile: Profile, name: str, device: DeviceReadings) -> Finding | None:
    """A device that lowers its clock with a change of the step time, for heat or by its hardware, or runs below the
    clocks of the others."""
    if (joined := slowed_with_steps(profile, name)) is not None:
        return joined
    limits = profile.thresholds
    own = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1)
    peers = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1, among="others")
    alike = own is not None and peers is not None and busy_alike(profile, name)
    below_pct = 100.0 * (1.0 - own.value / max(peers.value, 1e-9)) if alike and own and peers else 0.0
    shares = {flag: measure(profile, "device_flag_pct", flag=flag, device=name) for flag in REASONS if device.has(flag)}
    flag = max(shares, key=lambda each: shares[each].value, default="")
    if flag and shares[flag].value >= limits["clock_lowered_pct"]:
        mechanism, reason = REASONS[flag]
        text = f"Device {device_called(profile, name)} lowers its clock {reason} in {{0}} {_readings(profile, name)}."
        claim, sure = (
            say(text, shares[flag]),
            confidence((shares[flag].value, limits["clock_lowered_pct"]), at_most=limits["throttle_confidence"]),
        )
    elif own is not None and peers is not None and below_pct >= limits["clock_below_others_pct"]:
        mechanism = "power_cap" if _lower_limit(profile, name) else "down_clock"
        text = f"Under load device {device_called(profile, name)} runs at {{0}}, the median of the others at {{1}}."
        claim, sure = (
            say(text, own, peers),
            confidence((below_pct, limits["clock_below_others_pct"]), at_most=limits["clock_confidence"]),
        )
    else:
        return None
    rank = rank_of_device(profile, name)
    open_rank = rank is None and (profile.run.layout.world_size or len(sampled_devices(profile))) > 1
    finding = Finding(
        cause="slow_device",
        mechanism=mechanism,
        claim=claim,
        ranks=(rank,) if rank is not None and rank in profile.rank_numbers else (),
        confidence=min(sure, limits["few_readings_confidence"])
        if int(device.loaded.sum()) < limits["few_loaded_readings"]
        else sure,
        details=(*_split(profile, name), *state_under_load(profile, name)),
        against=(
            say("Kernels that wait for memory or for the host do not slow down with the clock."),
            *((say(WHOSE_OPEN),) if open_rank else ()),
        ),
        signals=("throttle reasons set",)
        if flag and shares[flag].value >= limits["clock_lowered_pct"]
        else ("clock below peers",),
    )
    if int(device.table["file"].iloc[0]) in sampled_apart(profile.run):
        return replace(finding, impact_ms=0.0, impact_method=APART)
    if (without := no_longer_steps(profile, name)) is not None:
        claim = followed(finding.claim, without)
        return replace(finding, claim=claim, impact_ms=0.0, impact_method=AS_LONG, saves_nothing=True)
    if lowered(device) is not None and changes_level(profile):
        why = OTHER_TIME if aligned(profile, name) else NOT_ALIGNED
        return replace(finding, impact_ms=0.0, impact_method=why, claim=followed(finding.claim, say(SAID_OF[why])))
    saving = _saving(profile, name, _slowdown(profile, name, below_pct))
    if saving is None:
        return replace(finding, impact_ms=0.0, impact_method=NO_COST)
    return replace(finding, saving=saving)


def _split(profile: Profile, name: str) -> tuple[Sentence, ...]:
    """The clock where it is lowered and where it is not, in readings that it splits."""
    low, usual = (
        measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1, during=during)
        for during in ("lowered", "unlowered")
    )
    if low is None or usual is None:
        return ()
    return (
        say(
            f"Device {name} runs at {{0}} in a part of the readings under load, and at {{1}} before or after.",
            low,
            usual,
        ),
    )


def _slowdown(profile: Profile, name: str, below_pct: float) -> float:
    """By how much the clock is below that of the others, or below the highest one, in per cent; where it is lowered in
    a part of the readings under load, by how much it is lowered there, times their share."""
    low, usual = (
        measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1, during=during)
        for during in ("lowered", "unlowered")
    )
    if low is not None and usual is not None:
        device = sampled_devices(profile)[name]
        mask = lowered(device)
        share = 0.0 if mask is None else float(mask.sum()) / max(int(device.loaded.sum()), 1)
        return 100.0 * max(1.0 - low.value / max(usual.value, 1e-9), 0.0) * share
    own = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1)
    top = measured(profile, "device_counter_mhz", counter="device_clock_max_mhz", device=name)
    below_top = 0.0 if own is None or top is None else 100.0 * (1.0 - own.value / max(top.value, 1e-9))
    return max(below_pct, below_top, 0.0)


def _saving(profile: Profile, name: str, below_pct: float) -> Saving | None:
    """What the clock may cost: that share of the time in which kernels run, at most; None without steps, and where
    traces show already what a slower device costs. Where a trace covers the device, what it computes is that time."""
    busy = measured(profile, "device_counter_pct", counter="device_busy_pct", device=name, statistic="mean")
    if not profile.measured or busy is None or below_pct <= 0.0:
        return None
    traced = slow_device.once(profile) if profile.traced else None
    if traced is not None and traced.findings:
        return None
    step_ms, computing_ms = profile.mean_step_ms, _computing_ms(profile, name)
    whose, busy_ms = "samples: kernel time", step_ms * busy.value / 100.0
    if computing_ms is not None and computing_ms < busy_ms:
        whose, busy_ms = "trace: computing time of the device", computing_ms
    most = busy_ms * below_pct / 100.0
    return Saving(step_ms, 0.5 * most, 0.0, most, f"{whose} in proportion to the clock, by half")


def _computing_ms(profile: Profile, name: str) -> float | None:
    """Mean computation per step of the traced rank whose kernels run on the device, of the longest of several.

    Where none has it (each process may see its own device as 0), of all ranks if all were traced; else None.
    """
    if not profile.traced:
        return None
    own = {
        view.rank.rank for view in profile.ranks if (used := device_of(view)) is not None and str(used.index) == name
    }
    every = set(profile.run.rank_numbers)
    if not own and len(every) < (profile.run.layout.world_size or len(every) + 1):
        return None
    table = profile.breakdown[profile.breakdown["rank"].isin(own or every)]
    return float(table.groupby("rank")["compute_ns"].mean().max()) / 1e6


def _lower_limit(profile: Profile, name: str) -> bool:
    """Whether the device has a lower power limit than the others."""
    own, others = (
        measured(profile, "device_counter_w", counter="device_power_limit_w", device=name, among=among)
        for among in ("device", "others")
    )
    return own is not None and others is not None and own.value < 0.98 * others.value


def _at_limit(profile: Profile, name: str) -> list[Sentence]:
    """A power limit that lowers clocks: usual for large devices at full load, so no cause by itself."""
    limits = profile.thresholds
    time = measured(profile, "device_counter_pct", counter=POWER_VIOLATION, device=name, loaded=1, statistic="mean")
    if time is not None and time.value >= limits["clock_lowered_pct"]:
        usual = USUAL_AT_LIMIT
        if not sampled_devices(profile)[name].load_known:
            usual += NO_LOAD_SHOWN
        text = f"The power limit lowers the clock of device {name} for {{0}} of the time"
        text += f", on average {_readings(profile, name)}; {usual}."
        return [say(text, time), *state_under_load(profile, name)]
    share = measured(profile, "device_flag_pct", flag="throttle_power", device=name)
    if share is not None and share.value >= limits["clock_lowered_pct"]:
        which = _readings(profile, name)
        usual = USUAL_AT_LIMIT
        if not sampled_devices(profile)[name].load_known:
            usual += NO_LOAD_SHOWN
        text = f"The power limit lowers the clock of device {name} in {{0}} {which}; {usual}."
        return [say(text, share), *state_under_load(profile, name)]
    own = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1)
    top = measured(profile, "device_counter_mhz", counter="device_clock_max_mhz", device=name)
    if own is None or top is None or own.value > (1.0 - limits["clock_below_highest_pct"] / 100.0) * top.value:
        return []
    why = "the samples do not show why"
    if not sampled_devices(profile)[name].load_known:
        why = "an idle device lowers its clock, and the samples do not show the load"
    text = f"{subject_of(profile, name)} runs at {{0}} of {{1}} at most; {why}."
    return [say(text, own, top)]


def _steady(profile: Profile, name: str, device: DeviceReadings) -> tuple[Sentence, ...]:
    """What shows that clocks are not lowered, on the first device."""
    flags = {flag: measure(profile, "device_flag_pct", flag=flag, device=name) for flag in REASONS if device.has(flag)}
    if not flags:
        return state_under_load(profile, name)
    most = max(flags.values(), key=lambda each: each.value)
    words = [REASONS[flag][1] for flag in flags]
    reasons = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    text = f"Device {name} lowers its clock {reasons} in {{0}} {_readings(profile, name)}"
    text += "." if device.has("throttle_power") or device.has(POWER_VIOLATION) else f"; {POWER_UNKNOWN}."
    return (say(text, most), *state_under_load(profile, name))

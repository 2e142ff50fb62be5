"""Devices by sampled counters: lowered clocks, devices that differ under like load, how often kernels run, memory."""

from __future__ import annotations

from dataclasses import replace

from tools.analyzers.computation.clock_changes import aligned, no_longer_steps, slowed_with_steps
from tools.analyzers.computation.device_power import memory_of_use, power_of_use
from tools.analyzers.computation.rank_speed import slow_device
from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Saving, Sentence, followed
from tools.metrics.recorded.counters import IDLE_PCT
from tools.metrics.registry import measure
from tools.run.first_printed import idle_tables, sampled_before_steps
from tools.run.source_clocks import sampled_apart
from tools.views.counters import (
    POWER,
    POWER_SHARE,
    DeviceReadings,
    counter_view,
    rank_of_device,
    used_by_job,
    waits_only,
)
from tools.views.device.clock_levels import lowered
from tools.views.device.kernels import device_of
from tools.views.profile import Profile
from tools.views.steps.sampled_levels import changes_level

# By the tool whose samples were read: what its vendor's devices can be sampled with.
SAMPLED_BY = {
    "npu-smi": "`while true; do date; npu-smi info; sleep 1; done > npus.txt` while the training runs",
    "rocm-smi": "`while true; do date; rocm-smi; sleep 1; done > gpus.txt` while the training runs",
    "amd-smi": "`while true; do date; rocm-smi; sleep 1; done > gpus.txt` while the training runs",
}
CLOCKS_NEEDED = (
    "`nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw,power.limit,temperature.gpu,clocks.sm,"
    "clocks.max.sm,clocks_event_reasons.active --format=csv -lms 500 -f gpus.csv` while the training runs"
)
BUSY_NEEDED = (
    "`nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv -lms 500 -f gpus.csv` while it trains"
)
NO_LOAD = "no device is under load in any reading: the samples are not of the running training"
ONLY_WAITING = "kernels run, but no device draws the power of computation in any reading"
SHOWN = 8
WHOLE = {"total": "", "usable": ", without what the driver keeps"}  # of the memory of a device
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
NO_LOAD_KNOWN = "Power alone does not show when kernels ran, or what a step waits for."
NO_KERNEL = (
    "No kernel ran in what this sampled; the training may not have run at that time, and what a step waits for is not"
    " in it."
)
BEFORE_STEPS = "before the first printed step"
NO_PROCESS = "the tables in the output show moments at which no process is on the devices"
NOT_YET = f"all readings stand {BEFORE_STEPS}, and no kernel ran then: they are not of the training"
ONE_READING = "One reading says little: it shows one moment."
LOOKS_SO = "A wait for data, a save or an evaluation can look so; the samples do not show which."
NO_EFFICIENCY = "By this figure some kernel ran in that time; how well kernels use the device is not in it."
NO_EFFICIENCY_OF_OTHERS = "Of the others it shows that some kernel ran, and not how well kernels use the device."
REASONS = {
    "throttle_thermal": ("thermal", "for heat"),
    "throttle_power_brake": ("power_cap", "by the power supply"),
    "throttle_hardware": ("down_clock", "by the hardware"),
}


def _devices(profile: Profile) -> dict[str, DeviceReadings]:
    view = counter_view(profile)
    return {} if view is None else dict(view.devices)


def _needed(profile: Profile, otherwise: str) -> str:
    """What to record with the tools of the vendor whose devices were sampled; ``otherwise`` those of NVIDIA."""
    view = counter_view(profile)
    tools = () if view is None else tuple(each.tool for each in view.records.sources)
    return next((SAMPLED_BY[tool] for tool in tools if tool in SAMPLED_BY), otherwise)


def _no_load(devices: dict[str, DeviceReadings]) -> str:
    """Why no device can be judged under load."""
    return ONLY_WAITING if waits_only(devices) else NO_LOAD


def _called(profile: Profile, name: str) -> str:
    """The device, and the rank that uses it where the files lead to one."""
    rank = rank_of_device(profile, name)
    return name if rank is None else f"{name} (rank {rank})"


def _loaded(devices: dict[str, DeviceReadings]) -> dict[str, DeviceReadings]:
    return {name: each for name, each in devices.items() if each.loaded.any()}


@check(
    *("computation.clocks", "Clocks by samples", "Do devices lower their clocks under load?"),
    causes=("slow_device",),
    from_records="samples",
)
def clocks(profile: Profile) -> Check | None:
    """Throttle reasons of readings under load, and clocks against those of the other devices and the highest one."""
    devices = _devices(profile)
    if not devices:
        return None
    known = [name for name, each in devices.items() if each.has("device_clock_mhz") or _flags(each)]
    if not known:
        reason = "the samples hold neither clocks nor reasons for lowering them"
        return cannot_answer(reason, _needed(profile, CLOCKS_NEEDED))
    loaded = [name for name in known if name in _loaded(devices)]
    busy = [name for name in loaded if used_by_job(profile, name)]
    if not busy:
        return cannot_answer(NOT_OF_JOB if loaded else _no_load(devices), _needed(profile, CLOCKS_NEEDED))
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
    others = [_called(profile, name) for name in slowed if name != first]
    if not others:
        return slowed[first]
    shown = ", ".join(others[:SHOWN]) + (f" and {len(others) - SHOWN} more" if len(others) > SHOWN else "")
    also = say(f"The same holds for device{'s' if len(others) > 1 else ''} {shown}.")
    return replace(slowed[first], details=(*slowed[first].details, also))


def _readings(profile: Profile, name: str) -> str:
    """The readings that count, as words: those under load only where the samples show the load."""
    device = _devices(profile)[name]
    under_load = " under load" if device.load_known else ""
    if int(device.loaded.sum()) == 1:
        return f"of the only reading{under_load}"
    return f"of the readings{under_load}"


def _subject(profile: Profile, name: str) -> str:
    """The device at the beginning of a sentence, under load where the samples show the load."""
    return f"Under load device {name}" if _devices(profile)[name].load_known else f"Device {name}"


def _flags(device: DeviceReadings) -> list[str]:
    return [flag for flag in (*REASONS, "throttle_power") if device.has(flag)]


def _slowed(profile: Profile, name: str, device: DeviceReadings) -> Finding | None:
    """A device that lowers its clock with a change of the step time, for heat or by its hardware, or runs below the
    clocks of the others."""
    if (joined := slowed_with_steps(profile, name)) is not None:
        return joined
    limits = profile.thresholds
    own = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1)
    peers = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1, among="others")
    alike = own is not None and peers is not None and _busy_alike(profile, name)
    below_pct = 100.0 * (1.0 - own.value / max(peers.value, 1e-9)) if alike and own and peers else 0.0
    shares = {flag: measure(profile, "device_flag_pct", flag=flag, device=name) for flag in REASONS if device.has(flag)}
    flag = max(shares, key=lambda each: shares[each].value, default="")
    if flag and shares[flag].value >= limits["clock_lowered_pct"]:
        mechanism, reason = REASONS[flag]
        text = f"Device {_called(profile, name)} lowers its clock {reason} in {{0}} {_readings(profile, name)}."
        claim, sure = (
            say(text, shares[flag]),
            confidence((shares[flag].value, limits["clock_lowered_pct"]), at_most=limits["throttle_confidence"]),
        )
    elif own is not None and peers is not None and below_pct >= limits["clock_below_others_pct"]:
        mechanism = "power_cap" if _lower_limit(profile, name) else "down_clock"
        text = f"Under load device {_called(profile, name)} runs at {{0}}, the median of the others at {{1}}."
        claim, sure = (
            say(text, own, peers),
            confidence((below_pct, limits["clock_below_others_pct"]), at_most=limits["clock_confidence"]),
        )
    else:
        return None
    rank = rank_of_device(profile, name)
    open_rank = rank is None and (profile.run.layout.world_size or len(_devices(profile))) > 1
    finding = Finding(
        cause="slow_device",
        mechanism=mechanism,
        claim=claim,
        ranks=(rank,) if rank is not None and rank in profile.rank_numbers else (),
        confidence=min(sure, limits["few_readings_confidence"])
        if int(device.loaded.sum()) < limits["few_loaded_readings"]
        else sure,
        details=(*_split(profile, name), *_state(profile, name)),
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
        device = _devices(profile)[name]
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


def _state(profile: Profile, name: str) -> tuple[Sentence, ...]:
    """Clock, temperature and power of a device under load, as far as they were sampled."""
    asked = (("mhz", "device_clock_mhz"), ("c", "device_temperature_c"), ("w", POWER), ("pct", POWER_SHARE))
    facts = [
        fact
        for unit, counter in asked
        if (fact := measured(profile, f"device_counter_{unit}", counter=counter, device=name, loaded=1)) is not None
    ]
    places = ", ".join(f"{{{at}}}" for at in range(len(facts)))
    places += " of its power limit" if facts and facts[-1].unit == "%" else ""
    return (say(f"{_subject(profile, name)} has {places}.", *facts),) if facts else ()


def _at_limit(profile: Profile, name: str) -> list[Sentence]:
    """A power limit that lowers clocks: usual for large devices at full load, so no cause by itself."""
    limits = profile.thresholds
    share = measured(profile, "device_flag_pct", flag="throttle_power", device=name)
    if share is not None and share.value >= limits["clock_lowered_pct"]:
        which = _readings(profile, name)
        usual = "that is usual at full load"
        if not _devices(profile)[name].load_known:
            usual += ", and the samples do not show the load"
        text = f"The power limit lowers the clock of device {name} in {{0}} {which}; {usual}."
        return [say(text, share), *_state(profile, name)]
    own = measured(profile, "device_counter_mhz", counter="device_clock_mhz", device=name, loaded=1)
    top = measured(profile, "device_counter_mhz", counter="device_clock_max_mhz", device=name)
    if own is None or top is None or own.value > (1.0 - limits["clock_below_highest_pct"] / 100.0) * top.value:
        return []
    why = "the samples do not show why"
    if not _devices(profile)[name].load_known:
        why = "an idle device lowers its clock, and the samples do not show the load"
    text = f"{_subject(profile, name)} runs at {{0}} of {{1}} at most; {why}."
    return [say(text, own, top)]


def _steady(profile: Profile, name: str, device: DeviceReadings) -> tuple[Sentence, ...]:
    """What shows that clocks are not lowered, on the first device."""
    flags = [measure(profile, "device_flag_pct", flag=flag, device=name) for flag in REASONS if device.has(flag)]
    said = [say(f"Device {name} lowers its clock for heat or by its hardware in {{0}} of the readings.", *flags[:1])]
    return (*(said if flags else []), *_state(profile, name))


@check(
    *("computation.devices_alike", "Devices by samples", "Do devices differ under like load?"),
    from_records="samples",
)
def devices_alike(profile: Profile) -> Check | None:
    """Temperature and power of devices that are busy alike, and devices on which hardly a kernel runs."""
    devices = _devices(profile)
    if len(devices) < 2:
        return None
    unused = [each for name in devices if (each := _unused(profile, name)) is not None]
    apart = [each for name in _loaded(devices) if used_by_job(profile, name) for each in _apart(profile, name)]
    if unused or apart:
        return symptom(*unused, *apart)
    compared = [each for name in _loaded(devices) for each in _state(profile, name)]
    if len(compared) < 2:
        return cannot_answer(_no_load(devices), _needed(profile, BUSY_NEEDED))
    return clean(*compared[:2])


def _pair(profile: Profile, unit: str, counter: str, name: str, loaded: int) -> tuple[Fact, Fact] | None:
    own, others = (
        measured(profile, f"device_counter_{unit}", counter=counter, device=name, loaded=loaded, among=among)
        for among in ("device", "others")
    )
    return None if own is None or others is None else (own, others)


def _unused(profile: Profile, name: str) -> Sentence | None:
    """A device on which hardly a kernel runs while the others are busy."""
    limits = profile.thresholds
    pair = _pair(profile, "pct", "device_busy_pct", name, 0)
    if pair is None or pair[0].value > limits["device_unused_pct"] or pair[1].value < limits["device_used_pct"]:
        return None
    called = _called(profile, name)
    return say(
        f"On device {called} kernels ran in {{0}} of the time, on the others in {{1}}: it is hardly used.", *pair
    )


def _busy_alike(profile: Profile, name: str) -> bool:
    """Whether kernels run as often on the device as on others of its model; False where that was not sampled."""
    busy = _pair(profile, "pct", "device_busy_pct", name, 1)
    return busy is not None and abs(busy[0].value - busy[1].value) <= profile.thresholds["like_load_points"]


def _apart(profile: Profile, name: str) -> list[Sentence]:
    """A device that is hotter or draws other power than the others while kernels run on all of them alike."""
    limits = profile.thresholds
    if not _busy_alike(profile, name):
        return []
    said: list[Sentence] = []
    called = _called(profile, name)
    hot, power = (_pair(profile, *each, name, 1) for each in (("c", "device_temperature_c"), ("w", "device_power_w")))
    if hot is not None and hot[0].value - hot[1].value >= limits["device_hotter_c"]:
        text = f"Device {called} is at {{0}}, the median of the others at {{1}}, under like load: look at its cooling."
        said.append(say(text, *hot))
    if (
        power is not None
        and abs(power[0].value / max(power[1].value, 1e-9) - 1.0) >= limits["device_power_apart_pct"] / 100.0
    ):
        text = f"Device {called} draws {{0}}, the median of the others {{1}}: its work or its clock differs."
        said.append(say(text, *power))
    return said


@check(
    *("computation.device_use", "Utilization by samples", "How often do kernels run, and does a device run dry?"),
    from_records="samples",
)
def device_use(profile: Profile) -> Check | None:
    """Mean utilization of each device, how much of it kernels use, and stretches in which it has nothing to do."""
    devices = {name: each for name, each in _devices(profile).items() if each.has("device_busy_pct")}
    used = [each for name in list(_devices(profile))[:SHOWN] for each in _used(profile, name)]
    if not devices and used:
        return symptom(*used)
    if not devices:
        power = [each for name in list(_devices(profile))[:SHOWN] if (each := _power(profile, name)) is not None]
        note = [say(NO_LOAD_KNOWN)] if power else []
        reason = "the samples hold no utilization"
        return None if not _devices(profile) else cannot_answer(reason, _needed(profile, BUSY_NEEDED), *power, *note)
    means = {name: _busy(profile, name) for name in devices}
    if _not_yet(profile):
        return cannot_answer(NOT_YET, _needed(profile, BUSY_NEEDED))
    if (idle := _idle_tables(profile)) is not None:
        return cannot_answer(NO_PROCESS, _needed(profile, BUSY_NEEDED), idle)
    least, most = min(means, key=lambda name: means[name].value), max(means, key=lambda name: means[name].value)
    once = _once(devices)
    when = "of the time around the one reading" if once else "of the time"
    if all(_before_steps(profile, each) for each in devices.values()):
        when += f" {BEFORE_STEPS}"
    said = _range(least, most, means, when)
    dry = [each for name in devices for each in _runs_dry(profile, name, devices[name])]
    power = [*power_of_use(profile, devices), *memory_of_use(profile, devices)]
    note = [] if waits_only(devices) else [_meaning(means)]
    used = [*power, *(used or note), *([say(ONE_READING)] if once else [])]
    if means[least].value >= profile.thresholds["device_fully_busy_pct"] and not dry and not power:
        return clean(said, *used)
    return symptom(said, *dry[:3], *used)


def _meaning(means: dict[str, Fact]) -> Sentence:
    """What the utilization does not show, of devices on which kernels ran and of those without."""
    without = [name for name, mean in means.items() if mean.value == 0.0]
    if not without:
        return say(NO_EFFICIENCY)
    if len(without) == len(means):
        return say(NO_KERNEL)
    more = f" and {len(without) - SHOWN} more" if len(without) > SHOWN else ""
    named = f"device{'s' if len(without) > 1 else ''} {', '.join(without[:SHOWN])}{more}"
    return say(f"On {named} no kernel ran in what this sampled. {NO_EFFICIENCY_OF_OTHERS}")


USES = {
    "device_sm_active_pct": "multiprocessors with work",
    "device_tensor_active_pct": "tensor cores active",
    "device_dram_active_pct": "memory bandwidth",
    "pcie_received_pct": "PCIe in",
    "pcie_sent_pct": "PCIe out",
    "nvlink_received_pct": "NVLink in",
    "nvlink_sent_pct": "NVLink out",
}


def _used(profile: Profile, name: str) -> list[Sentence]:
    """How much of the device's units and bandwidths is used on average, where these were sampled."""
    facts = {
        words: fact
        for counter, words in USES.items()
        if (fact := measured(profile, "device_counter_pct", counter=counter, device=name, statistic="mean")) is not None
    }
    if not facts:
        return []
    listed = ", ".join(f"{words} {{{place}}}" for place, words in enumerate(facts))
    return [say(f"Used of device {name} on average: {listed}.", *facts.values())]


def _power(profile: Profile, name: str) -> Sentence | None:
    """The power that a device draws, and over how long."""
    given = {"counter": "device_power_w", "device": name}
    facts = [measured(profile, "device_counter_w", **given, statistic=each) for each in ("mean", "min", "max")]
    span = measured(profile, "readings_span_s", device=name)
    known = tuple(each for each in (*facts, span) if each is not None)
    if len(known) < len(facts):
        return None
    text = f"Device {name} draws {{0}} on average, {{1}} to {{2}}"
    return say(f"{text}, over {{3}} of readings." if span is not None else f"{text}.", *known)


def _range(least: str, most: str, means: dict[str, Fact], when: str) -> Sentence:
    """The utilization of the least and the most busy device."""
    if len(means) > 1 and means[least].value == means[most].value:
        return say(f"Kernels ran in {{0}} {when} on each of the {len(means)} devices that were read.", means[least])
    if len(means) > 1:
        text = f"Kernels ran in {{0}} {when} on device {least}, in {{1}} on device {most}."
        return say(text, means[least], means[most])
    return say(f"Kernels ran in {{0}} {when} on device {least}.", means[least])


def _once(devices: dict[str, DeviceReadings]) -> bool:
    """Whether each device was read a single time, as the table of nvidia-smi shows it."""
    return all(len(each.table) == 1 for each in devices.values())


def _busy(profile: Profile, name: str) -> Fact:
    return measure(profile, "device_counter_pct", counter="device_busy_pct", device=name, statistic="mean")


def _runs_dry(profile: Profile, name: str, device: DeviceReadings) -> list[Sentence]:
    """A saw-tooth: busy and idle readings take turns."""
    limits = profile.thresholds
    idle = measured(profile, "device_idle_readings_pct", device=name)
    stretches = measured(profile, "device_idle_stretches", device=name)
    if idle is None or stretches is None:
        return []
    readings = int(device.table["device_busy_pct"].notna().sum())
    mixed = limits["idle_readings_pct"] <= idle.value <= 100.0 - limits["idle_readings_pct"]
    if not mixed or readings < limits["fewest_use_readings"] or stretches.value < limits["fewest_idle_stretches"]:
        return []
    text = (
        f"On device {name} kernels run for less than {IDLE_PCT:.0f} % of the time in {{0}} of the readings since it is"
    )
    text = f"{text} in use, {{1}} between busier ones. {LOOKS_SO}"
    interval = measured(profile, "reading_interval_s", device=name)
    if interval is None:
        return [say(text, idle, stretches)]
    return [say(f"{text} Readings lie {{2}} apart, and what is shorter does not show.", idle, stretches, interval)]


@check(
    *("memory.device_samples", "Device memory by samples", "Is device memory nearly full, or shared?"),
    causes=("memory_pressure",),
    from_records="samples",
)
def device_memory(profile: Profile) -> Check | None:
    """The most memory in use on any device, and devices that several processes hold memory of."""
    devices = _devices(profile)
    if _idle_tables(profile) is not None and not _not_yet(profile):
        return cannot_answer(NO_PROCESS, _needed(profile, BUSY_NEEDED))
    full: list[tuple[float, Sentence]] = []
    for name, device in devices.items():
        of = next((each for each in WHOLE if device.has(f"device_memory_{each}_bytes")), None)
        if of is not None and device.has("device_memory_used_bytes"):
            used, whole = (_gib(profile, name, f"device_memory_{each}_bytes") for each in ("used", of))
            share = 100.0 * used.value / max(whole.value, 1e-9)
            when = _when_held(profile, device)
            full.append((share, say(f"Device {name} holds {{0}} of {{1}} {when}{WHOLE[of]}.", used, whole)))
    shared = [each for name in devices if (each := _shared(profile, name)) is not None]
    if not full and not shared:
        return None
    share, said = max(full, key=lambda each: each[0], default=(0.0, None))
    if share >= profile.thresholds["device_memory_full_pct"] and said is not None:
        note = say("A caching allocator keeps what it once took: its statistics show whether it has to release memory.")
        return symptom(said, note, *shared)
    support = [] if said is None else [said]
    if shared:
        return symptom(*shared, *support)
    return cannot_answer(NOT_YET, _needed(profile, BUSY_NEEDED)) if _not_yet(profile) else clean(*support)


def _when_held(profile: Profile, device: DeviceReadings) -> str:
    """Of which time the most memory in use is: of all readings, of one moment, or of the time before training."""
    if _before_steps(profile, device):
        return BEFORE_STEPS
    once = device.table["device_memory_used_bytes"].notna().sum() == 1
    return "at the moment of the one reading" if once else "at most"


def _idle_tables(profile: Profile) -> Sentence | None:
    """Where the tables stand that a job printed while nothing ran on its devices, if there are no other samples."""
    tables = idle_tables(profile.run)
    files = {int(each.table["file"].iloc[0]) for each in _devices(profile).values()}
    if not files or files - set(tables):
        return None
    lines = [line for file in sorted(files) for line in tables[file]]
    shown = ", ".join(str(line) for line in lines[:SHOWN]) + (" and further ones" if len(lines) > SHOWN else "")
    text = f"The output holds nvidia-smi's table (line{'s' if len(lines) > 1 else ''} {shown})"
    each = "each" if len(lines) > 1 else "it"
    return say(f"{text}, and {each} shows a moment at which no process is on the devices: nothing of the training.")


def _not_yet(profile: Profile) -> bool:
    """Whether all readings are from before the first printed step, and no kernel ran at any of them."""
    devices = _devices(profile).values()
    return all(
        _before_steps(profile, each) and each.has("device_busy_pct") and not each.table["device_busy_pct"].any()
        for each in devices
    )


def _before_steps(profile: Profile, device: DeviceReadings) -> bool:
    """Whether all readings stand before the first step line of the output that holds them."""
    return int(device.table["file"].iloc[0]) in sampled_before_steps(profile.run)


def _gib(profile: Profile, name: str, counter: str) -> Fact:
    return measure(profile, "device_counter_gib", counter=counter, device=name)


def _shared(profile: Profile, name: str) -> Sentence | None:
    """Several processes that hold memory of one device."""
    count = measured(profile, "device_processes", device=name, least_gib=profile.thresholds["shared_device_gib"])
    if count is None or count.value < 2:
        return None
    return say(f"{{0}} hold memory of device {name}; where one of them is of another job, they share its time.", count)

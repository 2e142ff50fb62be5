"""How often kernels run on sampled devices, how much of a device they use, and whether it runs dry."""

from __future__ import annotations

from tools.analyzers.computation.device_power import memory_of_use, power_of_use
from tools.analyzers.computation.device_samples import (
    BEFORE_STEPS,
    BUSY_NEEDED,
    NO_PROCESS,
    NOT_YET,
    SHOWN,
    all_before_steps,
    all_before_training,
    sampled_devices,
    tables_without_process,
    to_sample,
)
from tools.analyzers.support.answers import cannot_answer, clean, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Sentence
from tools.metrics.recorded.counters import IDLE_PCT
from tools.metrics.registry import measure
from tools.views.counters import POWER, DeviceReadings, waits_only
from tools.views.profile import Profile

NO_LOAD_KNOWN = "Power does not show when kernels ran, or what a step waits for."
NO_KERNEL = (
    "No kernel ran in what this sampled; the training may not have run at that time, and what a step waits for is not"
    " in it."
)
ONE_READING = "One reading says little: it shows one moment."
LOOKS_SO = "A wait for data, a save or an evaluation can look so; the samples do not show which."
NO_EFFICIENCY = "By this figure some kernel ran in that time; how well kernels use the device is not in it."
NO_EFFICIENCY_OF_OTHERS = "Of the others it shows that some kernel ran, and not how well kernels use the device."


@check(
    *("computation.device_use", "Utilization by samples", "How often do kernels run, and does a device run dry?"),
    from_records="samples",
)
def device_use(profile: Profile) -> Check | None:
    """Mean utilization of each device, how much of it kernels use, and stretches in which it has nothing to do."""
    devices = {name: each for name, each in sampled_devices(profile).items() if each.has("device_busy_pct")}
    used = [each for name in list(sampled_devices(profile))[:SHOWN] for each in _used(profile, name)]
    if not devices and used:
        return symptom(*used)
    if not devices:
        power = [each for name in list(sampled_devices(profile))[:SHOWN] if (each := _power(profile, name)) is not None]
        note = [say(NO_LOAD_KNOWN)] if power else []
        reason = "the samples hold no utilization"
        return (
            None
            if not sampled_devices(profile)
            else cannot_answer(reason, to_sample(profile, BUSY_NEEDED), *power, *note)
        )
    means = {name: _busy(profile, name) for name in devices}
    if all_before_training(profile):
        return cannot_answer(NOT_YET, to_sample(profile, BUSY_NEEDED))
    if (idle := tables_without_process(profile)) is not None:
        return cannot_answer(NO_PROCESS, to_sample(profile, BUSY_NEEDED), idle)
    least, most = min(means, key=lambda name: means[name].value), max(means, key=lambda name: means[name].value)
    once = _once(devices)
    when = "of the time around the one reading" if once else "of the time"
    if all(all_before_steps(profile, each) for each in devices.values()):
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
    if int(sampled_devices(profile)[name].table[POWER].notna().sum()) == 1:
        return say(f"Device {name} draws {{0}} at the moment of the one reading.", *known[:1])
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

"""What the power of sampled devices shows of their utilization: kernels that wait, and devices without work."""

from __future__ import annotations

from collections.abc import Mapping

from tools.analyzers.support.answers import say
from tools.analyzers.support.figures import measured
from tools.findings import Fact, Sentence
from tools.views.counters import BUSY, POWER, POWER_SHARE, STATE, STATES_OF_REST, DeviceReadings
from tools.views.profile import Profile

SHOWN = 4
MEMORY_SHARE = "device_memory_used_pct"
PROCESSES = "device_processes"
HELD = "what holds it runs no kernel at that time."
NO_PROCESS = "no process is listed there, so it may be the driver's own or of a process that the tool cannot see."
WAITING = (
    "less than most computation draws. A kernel that waits, as in a collective for another rank, holds the utilization"
    " at its highest; so do very small kernels."
)


def power_of_use(profile: Profile, devices: Mapping[str, DeviceReadings]) -> list[Sentence]:
    """That devices with kernels all the time hardly draw power, and that those without kernels are idle by it."""
    waiting = {name: each for name, each in devices.items() if each.waiting.all()}
    unused, limits = profile.thresholds["device_unused_pct"], profile.thresholds["device_waiting_power_pct"]
    idle = {
        name: each
        for name, each in devices.items()
        if each.has(POWER_SHARE) and each.table[BUSY].max() <= unused and each.table[POWER_SHARE].max() < limits
    }
    at_rest = {name: each for name, each in idle.items() if _at_rest(each)}
    others = {name: each for name, each in idle.items() if name not in at_rest}
    return [
        *_said(profile, waiting, WAITING),
        *_said(profile, at_rest, f"as an idle device does{_state(at_rest)}."),
        *_said(profile, others, f"less than most computation draws{_state(others)}."),
    ]


def memory_of_use(profile: Profile, devices: Mapping[str, DeviceReadings]) -> list[Sentence]:
    """That memory is held of devices on which no kernel ran: the programs are there, and wait or are between steps."""
    least = profile.thresholds["device_held_pct"]
    unused = {
        name: share
        for name, each in devices.items()
        if each.table[BUSY].max() <= 0.0 and (share := _held(profile, name, each)) is not None and share.value >= least
    }
    if not unused:
        return []
    alone = all(devices[name].has(PROCESSES) for name in unused)
    shown = list(unused.items())[:SHOWN]
    listed = ", ".join(f"{{{at}}} of device {name}" for at, (name, _) in enumerate(shown))
    more = f" and that of {len(unused) - SHOWN} more" if len(unused) > SHOWN else ""
    text = f"Memory is held meanwhile, {listed}{more}: " + (NO_PROCESS if alone else HELD)
    return [say(text, *(share for _, share in shown))]


def _held(profile: Profile, name: str, device: DeviceReadings) -> Fact | None:
    """The share of its memory that is in use."""
    if device.has(MEMORY_SHARE):
        return _mean(profile, "device_counter_pct", MEMORY_SHARE, name)
    return measured(profile, "device_memory_held_pct", device=name)


def _at_rest(device: DeviceReadings) -> bool:
    """Whether it prints no performance state of work, which a program that holds the device and waits keeps."""
    return not device.has(STATE) or bool((device.table[STATE].dropna() >= STATES_OF_REST).all())


def _said(profile: Profile, devices: Mapping[str, DeviceReadings], meaning: str) -> list[Sentence]:
    """One sentence of the power of devices that are alike, the first of them with its watts."""
    shares = {
        name: share
        for name in list(devices)[:SHOWN]
        if (share := _mean(profile, "device_counter_pct", POWER_SHARE, name)) is not None
    }
    if not shares:
        return []
    first, *others = shares
    drawn = _mean(profile, "device_counter_w", POWER, first)
    text = f"Device {first} draws " + ("{0}, {1} of its power limit" if drawn is not None else "{0} of its power limit")
    facts = [*([drawn] if drawn is not None else []), shares[first]]
    for name in others:
        text += f", device {name} {{{len(facts)}}}"
        facts.append(shares[name])
    more = f" and {len(devices) - SHOWN} more alike" if len(devices) > SHOWN else ""
    return [say(f"{text}{more}: {meaning}", *facts)]


def _mean(profile: Profile, metric: str, counter: str, device: str) -> Fact | None:
    return measured(profile, metric, counter=counter, device=device, statistic="mean")


def _state(devices: Mapping[str, DeviceReadings]) -> str:
    """The performance state that all of the devices have, as the driver names it; empty where they differ."""
    states = {float(value) for each in devices.values() if each.has(STATE) for value in each.table[STATE].dropna()}
    return f" (performance state P{next(iter(states)):.0f}; P0 is the fastest)" if len(states) == 1 else ""

"""Whether sampled devices differ under like load: temperature, power, and devices that are hardly used."""

from __future__ import annotations

from tools.analyzers.computation.device_samples import (
    BUSY_NEEDED,
    busy_alike,
    device_called,
    own_and_others,
    sampled_devices,
    state_under_load,
    the_same,
    to_sample,
    under_load,
    why_no_load,
)
from tools.analyzers.support.answers import cannot_answer, clean, say, symptom
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Sentence
from tools.views.counters import BUSY, DeviceReadings, counter_view, used_by_job
from tools.views.profile import Profile


@check(
    *("computation.devices_alike", "Devices by samples", "Do devices differ under like load?"),
    from_records="samples",
)
def devices_alike(profile: Profile) -> Check | None:
    """Temperature and power of devices that are busy alike, and devices on which hardly a kernel runs."""
    devices = sampled_devices(profile)
    if len(devices) < 2:
        return None
    unused = _unused(profile, devices)
    apart = [each for name in under_load(devices) if used_by_job(profile, name) for each in _apart(profile, name)]
    if unused or apart:
        return symptom(*unused, *apart)
    compared = [each for name in under_load(devices) for each in state_under_load(profile, name)]
    if len(compared) < 2:
        return cannot_answer(why_no_load(devices), to_sample(profile, BUSY_NEEDED))
    return clean(*compared[:2])


def _unused(profile: Profile, devices: dict[str, DeviceReadings]) -> list[Sentence]:
    """Devices on which hardly a kernel runs while the others are busy, those of the same figures in one sentence."""
    limits, view = profile.thresholds, counter_view(profile)
    alike: dict[str, list[str]] = {}
    facts: dict[str, tuple[Fact, Fact]] = {}
    for name, device in devices.items():
        pair = own_and_others(profile, "pct", BUSY, name, 0)
        if pair is None or pair[0].value > limits["device_unused_pct"] or pair[1].value < limits["device_used_pct"]:
            continue
        peers = () if view is None else view.peers(name)
        others = "in the median of the others" if sum(each.has(BUSY) for each in peers) > 1 else "on the other one"
        when, used = ("of the time around the one reading", "was hardly used then")
        if len(device.table) > 1:
            when, used = "of the time", "is hardly used"
        text = f"kernels ran in {{0}} {when}, {others} in {{1}}: it {used}."
        same = next((each for each, known in facts.items() if _values(known) == _values(pair) and text in each), None)
        key = same or f"On device {device_called(profile, name)} {text}"
        facts.setdefault(key, pair)
        alike.setdefault(key, []).append(device_called(profile, name))
    return [say(key + the_same(names[1:]), *facts[key]) for key, names in alike.items()]


def _values(facts: tuple[Fact, Fact]) -> tuple[float, ...]:
    return tuple(each.value for each in facts)


def _apart(profile: Profile, name: str) -> list[Sentence]:
    """A device that is hotter or draws other power than the others while kernels run on all of them alike."""
    limits = profile.thresholds
    if not busy_alike(profile, name):
        return []
    said: list[Sentence] = []
    called = device_called(profile, name)
    hot, power = (
        own_and_others(profile, *each, name, 1) for each in (("c", "device_temperature_c"), ("w", "device_power_w"))
    )
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

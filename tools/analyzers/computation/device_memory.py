"""Whether the memory of sampled devices is nearly full, or held by several processes."""

from __future__ import annotations

from tools.analyzers.computation.device_samples import (
    BEFORE_STEPS,
    BUSY_NEEDED,
    NO_PROCESS,
    NOT_YET,
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
from tools.metrics.registry import measure
from tools.views.counters import DeviceReadings
from tools.views.profile import Profile

HELD_BYTES, HELD_SHARE = "device_memory_used_bytes", "device_memory_used_pct"
WHOLE = {"total": "", "usable": ", without what the driver keeps"}  # of the memory of a device


@check(
    *("memory.device_samples", "Device memory by samples", "Is device memory nearly full, or shared?"),
    causes=("memory_pressure",),
    from_records="samples",
)
def device_memory(profile: Profile) -> Check | None:
    """The most memory in use on any device, and devices that several processes hold memory of."""
    devices = sampled_devices(profile)
    if tables_without_process(profile) is not None and not all_before_training(profile):
        return cannot_answer(NO_PROCESS, to_sample(profile, BUSY_NEEDED))
    full: list[tuple[float, Sentence]] = []
    for name, device in devices.items():
        of = next((each for each in WHOLE if device.has(f"device_memory_{each}_bytes")), None)
        if of is not None and device.has(HELD_BYTES):
            used, whole = (_gib(profile, name, f"device_memory_{each}_bytes") for each in ("used", of))
            share = 100.0 * used.value / max(whole.value, 1e-9)
            when = _when_held(profile, device, HELD_BYTES)
            full.append((share, say(f"Device {name} holds {{0}} of {{1}} {when}{WHOLE[of]}.", used, whole)))
        elif device.has(HELD_SHARE):
            held = measure(profile, "device_counter_pct", counter=HELD_SHARE, device=name, statistic="max")
            when = _when_held(profile, device, HELD_SHARE)
            full.append((held.value, say(f"Device {name} holds {{0}} of its memory {when}.", held)))
        elif device.has(HELD_BYTES):
            when, used = _when_held(profile, device, HELD_BYTES), _gib(profile, name, HELD_BYTES)
            full.append((0.0, say(f"Device {name} holds {{0}} {when}; how much it has was not sampled.", used)))
    shared = [each for name in devices if (each := _shared(profile, name)) is not None]
    if not full and not shared:
        return None
    share, said = max(full, key=lambda each: each[0], default=(0.0, None))
    if share >= profile.thresholds["device_memory_full_pct"] and said is not None:
        note = say("A caching allocator keeps what it once took: its statistics show whether it has to release memory.")
        return symptom(*shared, said, note)
    support = [] if said is None else [said]
    if shared:
        return symptom(*shared, *support)
    return cannot_answer(NOT_YET, to_sample(profile, BUSY_NEEDED)) if all_before_training(profile) else clean(*support)


def _when_held(profile: Profile, device: DeviceReadings, counter: str) -> str:
    """Of which time the most memory in use is: of all readings, of one moment, or of the time before training."""
    if all_before_steps(profile, device):
        return BEFORE_STEPS
    once = device.table[counter].notna().sum() == 1
    return "at the moment of the one reading" if once else "at most"


def _gib(profile: Profile, name: str, counter: str) -> Fact:
    return measure(profile, "device_counter_gib", counter=counter, device=name)


def _shared(profile: Profile, name: str) -> Sentence | None:
    """Several processes that hold memory of one device."""
    count = measured(profile, "device_processes", device=name, least_gib=profile.thresholds["shared_device_gib"])
    if count is None or count.value < 2:
        return None
    return say(f"{{0}} hold memory of device {name}; where one of them is of another job, they share its time.", count)
